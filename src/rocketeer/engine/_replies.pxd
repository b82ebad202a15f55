from libc.stdint cimport int32_t

from rocketeer.engine._send cimport Send
from rocketeer.engine._send_list cimport SendList


cdef class ReplyFormat:
    cdef bytes _before_opaque, _before_ids, _before_queue_id, _before_queue_offset, _end
    cdef bytes _id_start
    cdef Py_ssize_t _fixed_bytes, _id_bytes

    cdef Py_ssize_t bytes_max(self, Py_ssize_t messages) noexcept
    cdef char *put(self, char *frame, Send *send, int32_t queue_id) noexcept
    cdef bytes answer(self, SendList sends, Py_ssize_t start, Py_ssize_t end, bint waits)
    cdef list later(self, SendList sends, Py_ssize_t start, Py_ssize_t end)
