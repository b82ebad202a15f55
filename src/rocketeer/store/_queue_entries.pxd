from libc.stdint cimport int32_t, int64_t


cdef class QueueEnds:
    cdef public int64_t total


cdef class QueueTail:
    cdef public int64_t max_offset
    cdef public int64_t _due
    cdef public bytearray _tail
    cdef public QueueEnds _ends

    cdef int add(self, int64_t log_offset, int32_t size, int64_t tag_code) except -1
