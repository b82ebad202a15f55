"""The table of known ids in plain Python: what `_id_table.pyx` does compiled. `known_ids.py` says what it is for.

ring     hash u64, log offset i64; in the order they were stored, the oldest overwritten by the newest
slots    u32, place in the ring + 1; an open hash table by the low bits of the hash, at most half full

All memory is reserved at once and touched when it is used: nothing is ever moved to grow.
"""

import hashlib
from mmap import mmap
from typing import Final

from rocketeer.model.offsets import LogOffset

GONE: Final = -1
"""The log offset of an id that was stored again later: its newer place counts."""


def reserve_views(capacity: int) -> tuple["memoryview[int]", "memoryview[int]", "memoryview[int]"]:
    """Slots, hashes and log offsets for so many ids, all zero."""
    slots = 1 << (2 * capacity - 1).bit_length()
    return (
        memoryview(mmap(-1, 4 * slots)).cast("I"),
        memoryview(mmap(-1, 8 * capacity)).cast("Q"),
        memoryview(mmap(-1, 8 * capacity)).cast("q"),
    )


class IdTable:
    """The newest `capacity` ids, by hash."""

    def __init__(self, capacity: int, salt: bytes) -> None:
        assert 0 < capacity < 1 << 31
        assert 0 < len(salt) <= hashlib.blake2b.MAX_KEY_SIZE
        self.capacity = capacity
        self.salt = salt
        self._slots, self._hashes, self._offsets = reserve_views(capacity)
        self._mask = len(self._slots) - 1
        self._added = 0

    def hash_of(self, text: bytes) -> int:
        """The hash of an id, salted, so that nobody can choose ids that fall into one place of the table."""
        return int.from_bytes(hashlib.blake2b(text, digest_size=8, key=self.salt).digest(), "big")

    def find(self, hashed: int) -> LogOffset | None:
        """The newest log offset that was stored with the hash; None if there is none."""
        slots, hashes, mask = self._slots, self._hashes, self._mask
        slot = hashed & mask
        while place := slots[slot]:
            if hashes[place - 1] == hashed:
                return LogOffset(self._offsets[place - 1])
            slot = slot + 1 & mask
        return None

    def add(self, hashed: int, log_offset: LogOffset) -> None:
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
