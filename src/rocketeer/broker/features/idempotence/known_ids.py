"""Which ids were stored, and where: the table behind unordered idempotence, about 25 bytes an id.

It only says where to look: whoever asks compares with the message that lies there. So a hash of 64 bits is
enough, and an entry that is wrong (a file that survived a power failure its log did not) does no harm.

    ring     hash u64, log offset i64; in the order they were stored, the oldest overwritten by the newest
    slots    u32, place in the ring + 1; an open hash table by the low bits of the hash, at most half full

All memory is reserved at once and touched when it is used: nothing is ever moved to grow.
"""

from collections.abc import Iterator
from mmap import mmap
from typing import Final

import numpy as np
import numpy.typing as npt

GONE: Final = -1
"""The log offset of an id that was stored again later: its newer place counts."""


class KnownIds:
    """The newest `capacity` ids, by hash."""

    def __init__(self, capacity: int) -> None:
        assert capacity > 0
        self.capacity = capacity
        slots = 1 << (2 * capacity - 1).bit_length()
        self._mask = slots - 1
        self._slots = memoryview(mmap(-1, 4 * slots)).cast("I")
        self._hashes = memoryview(mmap(-1, 8 * capacity)).cast("Q")
        self._offsets = memoryview(mmap(-1, 8 * capacity)).cast("q")
        self._added = 0

    def __len__(self) -> int:
        """How many places of the ring are taken."""
        return min(self._added, self.capacity)

    def find(self, hashed: int) -> int | None:
        """The log offset that was stored with the hash, newest first and only."""
        slots, hashes, mask = self._slots, self._hashes, self._mask
        slot = hashed & mask
        while place := slots[slot]:
            if hashes[place - 1] == hashed:
                return self._offsets[place - 1]
            slot = slot + 1 & mask
        return None

    def add(self, hashed: int, log_offset: int) -> None:
        """Remember where it is; the oldest of all is forgotten when there is no room."""
        place = self._added % self.capacity
        if self._added >= self.capacity and self._offsets[place] != GONE:
            self._forget(place)
        slots, hashes, mask = self._slots, self._hashes, self._mask
        slot = hashed & mask
        while old := slots[slot]:
            if hashes[old - 1] == hashed:
                self._offsets[old - 1] = GONE
                break
            slot = slot + 1 & mask
        hashes[place] = hashed
        self._offsets[place] = log_offset
        slots[slot] = place + 1
        self._added += 1

    def _forget(self, place: int) -> None:
        """Take it out of its slot; those that were pushed behind it move up, so that no chain has a hole."""
        slots, hashes, mask = self._slots, self._hashes, self._mask
        hole = hashes[place] & mask
        while slots[hole] != place + 1:
            hole = hole + 1 & mask
        slot = hole
        while other := slots[slot := slot + 1 & mask]:
            home = hashes[other - 1] & mask
            if slot - home & mask >= slot - hole & mask:
                slots[hole] = other
                hole = slot
        slots[hole] = 0

    # --- to disk and back --------------------------------------------------------------------

    def dump_slices(self, ids_max: int = 1 << 16) -> Iterator[tuple[bytes, bytes]]:
        """Hashes and log offsets, the oldest first; ids that come meanwhile may be among them or not."""
        count = len(self)
        oldest = self._added % self.capacity if self._added > self.capacity else 0
        for low, high in ((oldest, count), (0, oldest)):
            for start in range(low, high, ids_max):
                stop = min(start + ids_max, high)
                yield bytes(self._hashes[start:stop]), bytes(self._offsets[start:stop])

    def dump(self) -> tuple[bytes, bytes]:
        """All at once."""
        slices = list(self.dump_slices())
        return b"".join([hashes for hashes, _ in slices]), b"".join([offsets for _, offsets in slices])

    def load(self, hashes: bytes, offsets: bytes) -> None:
        """What `dump` gave, into an empty table; of more than fits the newest."""
        assert not self._added, "only at start"
        count = min(len(hashes) // 8, self.capacity)
        if not count:
            return
        self._hashes[:count] = memoryview(hashes).cast("Q")[-count:]
        self._offsets[:count] = memoryview(offsets).cast("q")[-count:]
        self._added = count
        self._fill_slots(count)

    def _fill_slots(self, count: int) -> None:
        """What adding one after the other would give, all at once: each behind its home and its predecessor."""
        hashes = np.frombuffer(self._hashes, np.uint64, count)
        offsets = np.frombuffer(self._offsets, np.int64, count)
        live = np.flatnonzero(offsets != GONE)
        # One that was stored again while slices were taken may be there twice: the newer counts.
        _, newest = np.unique(hashes[live[::-1]], return_index=True)
        offsets[np.delete(live[::-1], newest)] = GONE
        live = np.sort(live[::-1][newest])
        homes: npt.NDArray[np.int64] = (hashes[live] & np.uint64(self._mask)).astype(np.int64)
        order = np.argsort(homes, kind="stable")
        steps = np.arange(len(order))
        at = np.maximum.accumulate(homes[order] - steps) + steps
        inside = at <= self._mask
        slots = np.frombuffer(self._slots, np.uint32)
        slots[at[inside]] = live[order][inside] + 1
        for place in live[order][~inside]:  # behind the end: at the start again, a handful
            slot = 0
            while self._slots[slot]:
                slot += 1
            self._slots[slot] = int(place) + 1
