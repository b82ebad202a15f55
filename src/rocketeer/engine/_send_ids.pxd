from libc.stdint cimport int64_t, uint64_t

from rocketeer.engine._properties cimport MessageId
from rocketeer.engine._send cimport Send
from rocketeer.store._id_table cimport IdTable


cdef struct BufferedId:  # an id in the buffer
    uint64_t hashed
    int64_t run_number


cdef class SendIds:
    cdef object _stored
    cdef IdTable _ids
    cdef readonly Py_ssize_t batch_messages_max
    cdef BufferedId *_buffered
    cdef Py_ssize_t _buffered_count
    cdef int64_t _run_number  # only ids of the present run are buffered

    cdef bint takes(self, MessageId *own, MessageId *common, Send *send) except -1
    cdef int remember(self, Send *sends, Py_ssize_t count) except -1
    cdef void forget_buffered(self) noexcept
