from libc.stdint cimport int64_t, uint32_t, uint64_t

from rocketeer.record._blake2b cimport blake2b_key


cdef class IdTable:
    cdef readonly Py_ssize_t capacity
    cdef readonly bytes salt
    cdef readonly object _slots
    cdef readonly object _hashes
    cdef readonly object _offsets
    cdef readonly uint64_t _mask
    cdef public int64_t _added
    cdef blake2b_key _key
    # The same memory as the views':
    cdef uint32_t *_slot
    cdef uint64_t *_hash
    cdef int64_t *_offset

    cdef uint64_t hash_at(self, const char *at, Py_ssize_t size) noexcept nogil
    cdef uint32_t place_of(self, uint64_t hashed) noexcept nogil
    cdef void put(self, uint64_t hashed, int64_t log_offset) noexcept nogil
    cdef void _forget(self, uint32_t place) noexcept nogil
