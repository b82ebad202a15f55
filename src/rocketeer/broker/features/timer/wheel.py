"""The timing wheel: which waiting message is due when, 20 bytes for each. Pure: the time is an argument.

Five wheels of growing width; a timer waits in the widest one whose buckets have not been opened yet:

    level          0        1         2         3          4
    a bucket   16 ms    1.0 s      65 s    70 min    3.1 days    (a power of two, so a shift finds the bucket)
    opened     now     2 s before  8 s     128 s      2 h        ... its time: its timers move into narrower ones

Opening goes in slices and ahead of time, so a million timers in one bucket stall nobody. What is due stands in
`ready`, sorted by time. A bucket is a row of entries, appended to and never reordered; a timer that ended is
overwritten with offset -1 and skipped later.

    entry, little-endian: due ms i64 | log offset i64 | hash of the message's id u32
"""

from collections import deque
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rocketeer.model.offsets import LogOffset

ENTRY: Final = Struct("<qqI")
ROW: Final = np.dtype([("due", "<i8"), ("offset", "<i8"), ("key", "<u4")])
assert ENTRY.size == ROW.itemsize == 20

SHIFTS: Final = (4, 10, 16, 22, 28)
LEADS_MS: Final = (0, 2_000, 8_000, 128_000, 7_200_000)
assert all(
    LEADS_MS[level + 1] >= LEADS_MS[level] + (1 << SHIFTS[level]) for level in range(len(SHIFTS) - 1)
), "a wider bucket is opened before a narrower one of its time"
TOP: Final = len(SHIFTS) - 1

MOVE_SLICE: Final = 8_192  # timers that one call of `advance` moves between wheels: about 2 ms
COPY_BYTES: Final = 1 << 20  # of a bucket that one step of `copy` takes: well below 1 ms
SET_BACK_MS: Final = 100  # a clock set back by more than this is followed, by less it is waited for
NOWHERE: Final = 1 << 62

Rows = NDArray[np.void]


class Timer(NamedTuple):
    """A message that waits."""

    due_ms: int
    log_offset: LogOffset
    key: int


class _Bucket:
    """A row of entries from `start` (bytes) on; `oldest` is not above the smallest log offset among them."""

    __slots__ = ("data", "oldest", "start")

    def __init__(self, data: bytearray, oldest: int) -> None:
        self.data = data
        self.oldest = oldest
        self.start = 0

    def rows(self) -> Rows:
        """A view of the entries as they are now."""
        return np.frombuffer(self.data, ROW)[self.start // ENTRY.size :]

    def grow(self, entries: bytes) -> None:
        try:
            self.data += entries
        except (
            BufferError
        ):  # whoever looks at a stalled loop's stack keeps the views in it alive for a moment
            self.data = self.data + entries

    def copied(self) -> bytes:
        return bytes(memoryview(self.data)[self.start :])

    def look_again(self) -> int:
        offsets = self.rows()["offset"]
        alive = offsets[offsets >= 0]
        self.oldest = int(alive.min()) if len(alive) else NOWHERE
        return self.oldest


class Wheel:
    """All timers of a broker. `len` counts those that wait."""

    def __init__(self, now_ms: int) -> None:
        self._reset(now_ms)

    def _reset(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._levels: tuple[dict[int, _Bucket], ...] = tuple({} for _ in SHIFTS)
        self._opened = [((now_ms + lead) >> shift) + 1 for shift, lead in zip(SHIFTS, LEADS_MS, strict=True)]
        self._opening: deque[_Bucket] = deque()
        self._ready: deque[_Bucket] = deque()
        self._count = 0
        self._copying = False

    def __len__(self) -> int:
        return self._count

    # --- in ----------------------------------------------------------------------------------

    def add(self, timer: Timer) -> None:
        due_ms, log_offset, _ = timer
        opened = self._opened
        for level in range(TOP, -1, -1):
            key = due_ms >> SHIFTS[level]
            if key >= opened[level]:
                bucket = self._levels[level].get(key)
                if bucket is None:
                    bucket = self._levels[level][key] = _Bucket(bytearray(), NOWHERE)
                break
        else:
            if not self._ready:
                self._ready.append(_Bucket(bytearray(), NOWHERE))
            bucket = self._ready[-1]
        bucket.grow(ENTRY.pack(*timer))
        bucket.oldest = min(bucket.oldest, log_offset)
        self._count += 1

    def load(self, rows: Rows, now_ms: int) -> None:
        """Forget everything and begin with these."""
        self._reset(now_ms)
        self._count = len(rows)
        self._place(rows)

    def _place(self, rows: Rows) -> None:
        """Each row into its bucket, keeping their order."""
        due = rows["due"]
        level = np.full(len(rows), -1, np.int64)
        key = np.zeros(len(rows), np.int64)
        for each in range(len(SHIFTS)):
            keys = due >> SHIFTS[each]
            waits = keys >= self._opened[each]
            level[waits] = each
            key[waits] = keys[waits]
        # One number per bucket: the level in the top bits, -1 (ready) below all others.
        number = np.where(level < 0, -1, (level << 59) | key)
        order = np.argsort(number, kind="stable")
        numbers = number[order]
        ends = [*(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(rows)]
        start = 0
        for end in ends:
            if end > start:
                some = rows[order[start:end]]
                self._extend(int(level[order[start]]), int(key[order[start]]), some)
            start = end

    def _extend(self, level: int, key: int, some: Rows) -> None:
        oldest = int(some["offset"].min())
        if level < 0:
            some = some[np.argsort(some["due"], kind="stable")]
            self._ready.append(_Bucket(bytearray(some.tobytes()), oldest))
            return
        bucket = self._levels[level].get(key)
        if bucket is None:
            self._levels[level][key] = _Bucket(bytearray(some.tobytes()), oldest)
        else:
            bucket.grow(some.tobytes())
            bucket.oldest = min(bucket.oldest, oldest)

    # --- time passes -------------------------------------------------------------------------

    def advance(self, now_ms: int) -> None:
        """Open what is near, a bounded slice of it. A clock that was set back far is followed."""
        if now_ms < self._now_ms - SET_BACK_MS:
            self.load(self._all_rows(), now_ms)
            return
        if now_ms <= self._now_ms and not self._opening:
            return
        self._now_ms = max(self._now_ms, now_ms)
        for level in range(TOP, 0, -1):
            if not self._copying:  # what is copied bucket by bucket must not move from one to another
                self._opening.extend(self._open(level))
        self._move_slice()
        self._ready.extend(map(_by_time, self._open(0)))

    def _open(self, level: int) -> list[_Bucket]:
        limit = ((self._now_ms + LEADS_MS[level]) >> SHIFTS[level]) + 1
        if limit <= self._opened[level]:
            return []
        self._opened[level] = limit
        buckets = self._levels[level]
        return [buckets.pop(key) for key in sorted(key for key in buckets if key < limit)]

    def _move_slice(self) -> None:
        left = MOVE_SLICE
        while self._opening and left > 0:
            bucket = self._opening[0]
            end = bucket.start + left * ENTRY.size
            rows = np.frombuffer(bytes(memoryview(bucket.data)[bucket.start : end]), ROW)
            bucket.start = end
            if end >= len(bucket.data):
                self._opening.popleft()
            left -= len(rows)
            self._place(rows[rows["offset"] >= 0])

    # --- out ---------------------------------------------------------------------------------

    def take(self, now_ms: int, count: int) -> list[Timer]:
        """Up to `count` timers that are due; they are no longer the wheel's."""
        taken: list[Timer] = []
        ready = self._ready
        while ready and len(taken) < count:
            bucket = ready[0]
            if bucket.start >= len(bucket.data):
                ready.popleft()
                continue
            timer = Timer(*ENTRY.unpack_from(bucket.data, bucket.start))
            if timer.due_ms > now_ms:
                break
            bucket.start += ENTRY.size
            if timer.log_offset >= 0:
                taken.append(timer)
        self._count -= len(taken)
        return taken

    def due(self, now_ms: int) -> tuple[int, int]:
        """How many are due, and since when the first one is; (0, 0) when none is."""
        count, first_ms = 0, 0
        for bucket in self._ready:
            rows = np.frombuffer(bytes(memoryview(bucket.data)[bucket.start :]), ROW)
            due_ms = rows["due"][(rows["offset"] >= 0) & (rows["due"] <= now_ms)]
            if len(due_ms):
                count += len(due_ms)
                first_ms = min(first_ms or int(due_ms.min()), int(due_ms.min()))
        return count, first_ms

    def give_back(self, timers: Iterable[Timer]) -> None:
        """What was taken and could not be used comes first next time."""
        returned = list(timers)
        if not returned:
            return
        data = bytearray(b"".join(ENTRY.pack(*timer) for timer in returned))
        self._ready.appendleft(_Bucket(data, min(timer.log_offset for timer in returned)))
        self._count += len(returned)

    def find(self, due_ms: int, key: int) -> list[Timer]:
        """The timers due then with this hash of their id: usually one."""
        found = []
        for bucket in self._places(due_ms):
            rows = bucket.rows()
            match = rows[(rows["due"] == due_ms) & (rows["key"] == key) & (rows["offset"] >= 0)]
            found += [Timer(due_ms, LogOffset(int(offset)), key) for offset in match["offset"]]
        return found

    def remove(self, timer: Timer) -> bool:
        """False if it does not wait (any more)."""
        for bucket in self._places(timer.due_ms):
            offsets = bucket.rows()["offset"]
            (at,) = np.nonzero(offsets == timer.log_offset)
            if len(at):
                offsets[at] = -1
                self._count -= 1
                return True
        return False

    def _places(self, due_ms: int) -> Iterator[_Bucket]:
        """Where a timer of that time can be."""
        for level, shift in zip(self._levels, SHIFTS, strict=True):
            bucket = level.get(due_ms >> shift)
            if bucket is not None:
                yield bucket
        yield from self._opening
        yield from self._ready

    # --- the log below them goes ---------------------------------------------------------------

    def oldest(self) -> LogOffset | None:
        """The smallest log offset among all timers."""
        while True:
            bucket = min(self._buckets(), key=lambda each: each.oldest, default=None)
            if bucket is None or bucket.oldest == NOWHERE:
                return None
            noted = bucket.oldest
            if bucket.look_again() == noted:
                return LogOffset(noted)

    def take_below(self, log_offset: LogOffset, count: int) -> list[Timer]:
        """Up to `count` timers whose record is below that log offset; they are no longer the wheel's."""
        taken: list[Timer] = []
        for bucket in self._buckets():
            if bucket.oldest >= log_offset:
                continue
            rows = bucket.rows()
            offsets = rows["offset"]
            (at,) = np.nonzero((offsets >= 0) & (offsets < log_offset))
            at = at[: count - len(taken)]
            taken += [Timer(*row) for row in rows[at].tolist()]
            offsets[at] = -1
            if 2 * int(np.count_nonzero(offsets < 0)) > len(rows):
                bucket.data, bucket.start = bytearray(rows[offsets >= 0].tobytes()), 0
            bucket.look_again()
            if len(taken) >= count:
                break
        self._count -= len(taken)
        return taken

    def _buckets(self) -> list[_Bucket]:
        waiting = [bucket for level in self._levels for bucket in level.values()]
        return [*self._ready, *self._opening, *waiting]

    # --- copying -----------------------------------------------------------------------------

    def copy(self) -> Iterator[bytes]:
        """The entries in pieces, for a snapshot of the moment the first piece is asked for; exhaust or close it.

        The wheel may be used between the pieces. What is added meanwhile may be in the copy or not, what ends
        meanwhile too, and a timer may be in it twice or with offset -1: whoever loads it sees to that.
        """
        self._copying = True
        try:
            # Timers move on from these while the rest is copied: they come first, at once.
            moving = [*self._ready, *self._opening, *self._levels[0].values()]
            rest = [
                (bucket.data, len(bucket.data)) for level in self._levels[1:] for bucket in level.values()
            ]
            yield b"".join([bucket.copied() for bucket in moving])
            for data, size in rest:
                for start in range(0, size, COPY_BYTES):
                    yield bytes(memoryview(data)[start : min(start + COPY_BYTES, size)])
        finally:
            self._copying = False

    def _all_rows(self) -> Rows:
        rows = np.frombuffer(b"".join([bucket.copied() for bucket in self._buckets()]), ROW)
        return rows[rows["offset"] >= 0]


def _by_time(bucket: _Bucket) -> _Bucket:
    rows = bucket.rows()
    order: NDArray[Any] = np.argsort(rows["due"], kind="stable")
    return _Bucket(bytearray(rows[order].tobytes()), bucket.oldest)
