"""A stretch of the timers that wait: a few thousand packed entries, sorted by time, equal times by log offset.

entry, little-endian: due ms i64 | log offset i64 | hash of the message's id u32
"""

from bisect import bisect_left
from functools import partial
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rocketeer.model.offsets import LogOffset

ENTRY: Final = Struct("<qqI")
ROW: Final = np.dtype([("due", "<i8"), ("offset", "<i8"), ("key", "<u4")])
assert ENTRY.size == ROW.itemsize == 20
_PLACE: Final = Struct("<qq")

NOWHERE: Final = 1 << 62

TimerRows = NDArray[np.void]
TimerKey: TypeAlias = tuple[int, ...]
"""Due time and log offset, which no two timers share; only the due time: before all timers of that time."""


class Timer(NamedTuple):
    """A message that waits."""

    due_ms: int
    log_offset: LogOffset
    key: int

    @property
    def place(self) -> TimerKey:
        return self[:2]


class Block:
    """Whatever is done with it takes microseconds, for it has a bounded number of entries (see `PendingTimers`).

    Nobody gets a view of `data`, which could not grow as long as a look at the stack keeps the view alive.
    """

    __slots__ = ("data", "oldest")

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.oldest = NOWHERE
        """The smallest log offset among them."""
        self._look_again()

    def __len__(self) -> int:
        return len(self.data) // ENTRY.size

    def rows(self) -> TimerRows:
        """A copy of the block's entries as a numpy array."""
        return np.frombuffer(bytes(self.data), ROW)

    def first(self) -> Timer:
        return Timer(*ENTRY.unpack_from(self.data))

    def below(self, place: TimerKey) -> int:
        """How many stand before that place."""
        return bisect_left(
            range(0, len(self.data), ENTRY.size), place, key=partial(_PLACE.unpack_from, self.data)
        )

    def since(self, place: TimerKey) -> bytes:
        """The entries from that place on."""
        return bytes(self.data[self.below(place) * ENTRY.size :])

    def ends_below(self, place: TimerKey) -> bool:
        return not self.data or _PLACE.unpack_from(self.data, len(self.data) - ENTRY.size) < place

    def add(self, timer: Timer) -> None:
        if self.ends_below(timer.place):  # as usual: the times of a sender go up
            self.data += ENTRY.pack(*timer)
        else:
            at = self.below(timer.place) * ENTRY.size
            self.data[at:at] = ENTRY.pack(*timer)
        self.oldest = min(self.oldest, timer.log_offset)

    def take(self, now_ms: int, count: int) -> list[Timer]:
        """Up to `count` of those due, from the first on."""
        taken = []
        for entry in ENTRY.iter_unpack(self.data[: count * ENTRY.size]):
            timer = Timer(*entry)
            if timer.due_ms > now_ms:
                break
            taken.append(timer)
        self._forget(0, taken)
        return taken

    def remove(self, timer: Timer) -> bool:
        at = self.below(timer.place)
        if at == len(self) or _PLACE.unpack_from(self.data, at * ENTRY.size) != timer.place:
            return False
        self._forget(at, [timer])
        return True

    def _forget(self, at: int, timers: list[Timer]) -> None:
        del self.data[at * ENTRY.size : (at + len(timers)) * ENTRY.size]
        if self.oldest in {timer.log_offset for timer in timers}:
            self._look_again()

    def take_below(self, log_offset: LogOffset, count: int) -> list[Timer]:
        """Up to `count` whose record is below that log offset."""
        rows = self.rows()
        (at,) = np.nonzero(rows["offset"] < log_offset)
        at = at[:count]
        self.data[:] = np.delete(rows, at).tobytes()
        self._look_again()
        return [Timer(*row) for row in rows[at].tolist()]

    def find(self, due_ms: int, key: int) -> list[Timer]:
        """The timers that are due then, with this hash of their id."""
        rows = np.frombuffer(self.since((due_ms,)), ROW)
        match = rows[(rows["due"] == due_ms) & (rows["key"] == key)]
        return [Timer(*row) for row in match.tolist()]

    def split(self) -> "Block":
        """The later half, which is a block of its own from now on."""
        at = len(self) // 2 * ENTRY.size
        later = Block(bytes(self.data[at:]))
        del self.data[at:]
        self._look_again()
        return later

    def append(self, later: "Block") -> None:
        """Take in the block behind this one."""
        self.data += later.data
        self.oldest = min(self.oldest, later.oldest)

    def _look_again(self) -> None:
        self.oldest = int(self.rows()["offset"].min()) if self.data else NOWHERE
