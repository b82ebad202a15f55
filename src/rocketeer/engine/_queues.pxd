from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t

from rocketeer.engine._request cimport ParsedSendHeader
from rocketeer.store._queue_entries cimport QueueInRun


cdef class QueueAppendState(QueueInRun):
    cdef int32_t queue_id
    cdef bytes topic_part  # the topic with its length in front, as records have it
    cdef int64_t appended  # the number of the last run with entries for it: `next_offset` is within that one
    cdef bint takes_ids  # a dead letter with its producer's id is a consumer's


cdef class SendQueues:
    cdef object _queues_of
    cdef object _get_queue
    cdef dict _topics  # the known queues of each, by id
    cdef PyObject **_recent  # some of the same, by hash

    cdef QueueAppendState find(self, ParsedSendHeader *header)
    cdef void forget(self)
    cdef QueueAppendState _make(self, ParsedSendHeader *header)


cdef void prefetch_queues(list states) noexcept
