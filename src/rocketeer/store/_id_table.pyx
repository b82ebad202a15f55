# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The table of known ids, compiled: the twin of `id_table_plain.py`, which says what each method does."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from rocketeer.record._blake2b cimport BLAKE2B_KEY_MAX, blake2b_hash, blake2b_set_key, swapped

from rocketeer.store.id_table_plain import reserve_views

cdef enum:
    GONE = -1


cdef class IdTable:
    def __init__(self, Py_ssize_t capacity, bytes salt not None):
        assert 0 < capacity < 1 << 31
        assert 0 < len(salt) <= BLAKE2B_KEY_MAX
        self.capacity = capacity
        self.salt = salt
        self._slots, self._hashes, self._offsets = reserve_views(capacity)
        cdef uint32_t[::1] slots = self._slots
        cdef uint64_t[::1] hashes = self._hashes
        cdef int64_t[::1] offsets = self._offsets
        self._slot, self._hash, self._offset = &slots[0], &hashes[0], &offsets[0]  # mapped until the views go
        self._mask = len(self._slots) - 1
        self._added = 0
        blake2b_set_key(&self._key, <const uint8_t *> PyBytes_AS_STRING(salt), PyBytes_GET_SIZE(salt), 8)

    def hash_of(self, bytes text not None):
        return self.hash_at(PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))

    def find(self, uint64_t hashed):
        cdef uint32_t place = self.place_of(hashed)
        return self._offset[place - 1] if place else None

    def add(self, uint64_t hashed, int64_t log_offset):
        self.put(hashed, log_offset)

    cdef uint64_t hash_at(self, const char *at, Py_ssize_t size) noexcept nogil:
        cdef uint64_t state[8]
        blake2b_hash(&self._key, <const uint8_t *> at, size, state)
        return swapped(state[0])

    cdef uint32_t place_of(self, uint64_t hashed) noexcept nogil:
        """The place in the ring + 1; 0 if the hash is not known."""
        cdef uint64_t slot = hashed & self._mask
        cdef uint32_t place
        while True:
            place = self._slot[slot]
            if not place or self._hash[place - 1] == hashed:
                return place
            slot = slot + 1 & self._mask

    cdef void put(self, uint64_t hashed, int64_t log_offset) noexcept nogil:
        cdef uint32_t place = <uint32_t> (self._added % self.capacity), old
        cdef uint64_t slot = hashed & self._mask
        if self._added >= self.capacity and self._offset[place] != GONE:
            self._forget(place)
        while True:
            old = self._slot[slot]
            if not old:
                break
            if self._hash[old - 1] == hashed:
                self._offset[old - 1] = GONE
                break
            slot = slot + 1 & self._mask
        self._hash[place] = hashed
        self._offset[place] = log_offset
        self._slot[slot] = place + 1
        self._added += 1

    cdef void _forget(self, uint32_t place) noexcept nogil:
        cdef uint64_t hole = self._hash[place] & self._mask, slot, home
        cdef uint32_t other
        while self._slot[hole] != place + 1:
            hole = hole + 1 & self._mask
        slot = hole
        while True:
            slot = slot + 1 & self._mask
            other = self._slot[slot]
            if not other:
                break
            home = self._hash[other - 1] & self._mask
            if (slot - home & self._mask) >= (slot - hole & self._mask):
                self._slot[hole] = other
                hole = slot
        self._slot[hole] = 0
