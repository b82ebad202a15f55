"""Which ids were stored, and where: the table behind unordered idempotence, about 25 bytes an id.

It only says where to look: whoever asks compares with the message that lies there. So a hash of 64 bits is
enough, and an entry that is wrong (a file that survived a power failure its log did not) does no harm.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rocketeer.compiled import COMPILED
from rocketeer.store.id_table_plain import GONE, IdTable

if COMPILED and not TYPE_CHECKING:
    from rocketeer.store._id_table import IdTable


class KnownIds(IdTable):
    """The newest `capacity` ids, by hash; to disk and back."""

    def __len__(self) -> int:
        """How many places of the ring are taken."""
        return min(self._added, self.capacity)

    def dump_slices(self, ids_max: int = 1 << 16) -> Iterator[tuple[bytes, bytes]]:
        """Hashes and log offsets, the oldest first; ids that come meanwhile may be among them or not."""
        count = len(self)
        oldest = self._added % self.capacity if self._added > self.capacity else 0
        for low, high in ((oldest, count), (0, oldest)):
            for start in range(low, high, ids_max):
                stop = min(start + ids_max, high)
                yield bytes(self._hashes[start:stop]), bytes(self._offsets[start:stop])

    def load(self, hashes: bytes, offsets: bytes) -> None:
        """What `dump_slices` gave, joined, into an empty table; of more than fits the newest."""
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
