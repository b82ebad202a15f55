from libc.stdint cimport int32_t, int64_t, uint32_t


cdef class QueueEnds:
    cdef public int64_t total


cdef class QueueTail:
    cdef public int64_t max_offset
    cdef public int64_t _due
    cdef public bytearray _tail
    cdef public QueueEnds _ends

    cdef int add(self, int64_t log_offset, int32_t size, int64_t tag_code) except -1
    cdef int take_back(self) except -1
    cdef int write_out_if_due(self) except -1


cdef class QueueInRun:
    cdef QueueTail queue
    cdef uint32_t key_prefix  # the hash of "topic#", which every key's goes on from
    cdef int64_t run_number  # of the last run with a message for it
    cdef int32_t place  # among the queues of that run
    cdef int64_t next_offset  # that the next message has
