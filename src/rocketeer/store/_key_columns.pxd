from libc.stdint cimport int32_t, int64_t, uint32_t

from rocketeer.record._property_text cimport IndexedProperties


cdef class KeyHashes:
    cdef uint32_t *_hashes
    cdef Py_ssize_t _room
    cdef Py_ssize_t used

    cdef int32_t add(self, uint32_t prefix, IndexedProperties *indexed) except -2
    cdef KeyColumns columns(self, Py_ssize_t first, Py_ssize_t last)


cdef class KeyColumns:
    cdef bytes _hashes, _offsets, _times
    cdef int64_t *_offset
    cdef int64_t *_time

    cdef void fill(self, int32_t keys, int64_t log_offset, int64_t store_ms) noexcept
    cdef tuple as_tuple(self)


cdef uint32_t key_prefix(bytes topic) except? 0
