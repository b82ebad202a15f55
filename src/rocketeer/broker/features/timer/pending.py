"""The timers that wait, soonest first, 20 bytes for each. Pure: the time is an argument.

Sorted by time, equal times by log offset, which is the order they came in. The sorted row is cut into blocks of at
most `ROWS_MAX`: one that is full is split, neighbours that have become small are put together. So with ten million
timers there are some thousand blocks, and every step looks at one or a few of them, or at one number of each: far
below a millisecond, however the times were chosen. What looks at more is an iterator that may be interrupted.

    `_lows`    ()        (due 3)      (due 3)      (due 9)      where the stretches begin: a place in the order, which
               |         |            |            |            is (due ms, log offset)
    `_blocks`  1 1 2 2   3 3 3 3 3    3 3 4 7 8    9 12 90
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

import numpy as np

from rocketeer.broker.features.timer.block import NOWHERE, Block, Timer, TimerKey, TimerRows
from rocketeer.model.offsets import LogOffset

ROWS_MAX: Final = 4_096  # of a block: putting one more into its midst moves 40 KB on average
LOOK_BLOCKS: Final = 8  # that one step of `take_below` or `copy` looks into: below 1 ms


class PendingTimers:
    """All timers of a broker. `len` counts them."""

    def __init__(self, rows_max: int = ROWS_MAX) -> None:
        self._rows_max = rows_max
        self._rows_small = rows_max // 4
        """Two neighbours that have no more together become one block."""
        self._blocks: list[Block] = []
        self._lows: list[TimerKey] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def load(self, rows: TimerRows) -> None:
        """Forget everything and begin with these, whose log offsets go up. May be long: not for a loop."""
        assert (np.diff(rows["offset"]) > 0).all()
        order = np.argsort(rows["due"], kind="stable")
        self._blocks, self._lows, self._count = [], [], len(rows)
        block_rows = self._rows_max * 3 // 4  # room for some more
        for start in range(0, len(rows), block_rows):
            self._insert(len(self._blocks), Block(rows.take(order[start : start + block_rows]).tobytes()))

    # --- blocks ------------------------------------------------------------------------------

    def _at(self, place: TimerKey) -> int:
        """The number of the block in whose stretch that place is."""
        return max(bisect_right(self._lows, place) - 1, 0)

    def _insert(self, at: int, block: Block) -> None:
        self._blocks.insert(at, block)
        self._lows.insert(at, block.first().place if at else ())

    def _drop(self, at: int) -> None:
        del self._blocks[at], self._lows[at]
        if self._lows:
            self._lows[0] = ()

    def _tidy(self, at: int) -> None:
        """Drop the block if it is empty, or merge it with a neighbour if both are small."""
        if not self._blocks[at].data:
            self._drop(at)
        for left in (at, at - 1):
            if 0 <= left < len(self._blocks) - 1:
                block, later = self._blocks[left : left + 2]
                if len(block) + len(later) <= self._rows_small:
                    block.append(later)
                    self._drop(left + 1)

    # --- in and out --------------------------------------------------------------------------

    def add(self, timer: Timer) -> None:
        """Add a timer: a new one, or one that was taken and could not be delivered (it goes before later ones
        again)."""
        self._count += 1
        if not self._blocks:
            block = Block()
            block.add(timer)
            self._insert(0, block)
            return
        at = self._at(timer.place)
        block = self._blocks[at]
        if len(block) >= self._rows_max:
            if block.ends_below(timer.place):  # times that go up fill their blocks
                self._add_behind(at, timer)
                return
            self._insert(at + 1, block.split())
            block = self._blocks[self._at(timer.place)]
        block.add(timer)

    def _add_behind(self, at: int, timer: Timer) -> None:
        """A new one between two blocks: it opens the later one, whose stretch begins with it then."""
        if at + 1 < len(self._blocks) and len(self._blocks[at + 1]) < self._rows_max:
            self._blocks[at + 1].add(timer)
            self._lows[at + 1] = timer.place
            return
        block = Block()
        block.add(timer)
        self._insert(at + 1, block)

    def take(self, now_ms: int, count: int) -> list[Timer]:
        """Up to `count` timers that are due; they wait no longer."""
        taken: list[Timer] = []
        while self._blocks and len(taken) < count:
            some = self._blocks[0].take(now_ms, count - len(taken))
            if not some:
                break
            taken += some
            self._tidy(0)
        self._count -= len(taken)
        return taken

    def remove(self, timer: Timer) -> bool:
        """False if it does not wait (any more)."""
        if not self._blocks:
            return False
        at = self._at(timer.place)
        if not self._blocks[at].remove(timer):
            return False
        self._count -= 1
        self._tidy(at)
        return True

    def find(self, due_ms: int, key: int) -> Iterator[list[Timer]]:
        """The timers due then with this hash of their id, which is usually one: a block's at a time.

        Meanwhile timers may come and go: those given may not wait any more.
        """
        low: TimerKey = (due_ms,)
        while self._blocks:
            at = self._at(low)
            following = self._lows[at + 1 : at + 2]
            yield self._blocks[at].find(due_ms, key)
            if not following or following[0] >= (due_ms + 1,):
                return
            (low,) = following

    # --- all of them -------------------------------------------------------------------------

    def due(self, now_ms: int) -> tuple[int, int]:
        """How many are due, and since when the first one is; (0, 0) when none is."""
        later: TimerKey = (now_ms + 1,)
        if not self._blocks or self._blocks[0].first().place > later:
            return 0, 0
        at = self._at(later)
        before = sum([len(block) for block in self._blocks[:at]])
        return before + self._blocks[at].below(later), self._blocks[0].first().due_ms

    def oldest(self) -> LogOffset | None:
        """The smallest log offset among all timers."""
        oldest = min([block.oldest for block in self._blocks], default=NOWHERE)
        return None if oldest == NOWHERE else LogOffset(oldest)

    def take_below(self, log_offset: LogOffset, count: int) -> list[Timer]:
        """Up to `count` timers whose record is below that log offset; they wait no longer. None: there are none."""
        taken: list[Timer] = []
        places = [at for at, block in enumerate(self._blocks) if block.oldest < log_offset][:LOOK_BLOCKS]
        for at in places:
            if len(taken) < count:
                taken += self._blocks[at].take_below(log_offset, count - len(taken))
        for at in reversed(places):
            self._tidy(at)
        self._count -= len(taken)
        return taken

    def copy(self) -> Iterator[bytes]:
        """The entries in pieces. Whatever waits from the first piece to the last is in them, once.

        Meanwhile timers may come and go: they may be in the copy or not.
        """
        following: list[TimerKey] = [()]
        while following and self._blocks:
            (low,) = following
            at = self._at(low)
            end = at + LOOK_BLOCKS
            following = self._lows[end : end + 1]
            yield b"".join(
                [self._blocks[at].since(low), *[bytes(block.data) for block in self._blocks[at + 1 : end]]]
            )
