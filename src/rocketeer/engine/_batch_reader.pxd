from libc.stdint cimport int32_t

from rocketeer.engine._properties cimport PropertyRules
from rocketeer.engine._request cimport ParsedSendHeader
from rocketeer.engine._send cimport Send
from rocketeer.engine._send_ids cimport SendIds
from rocketeer.engine._send_list cimport SendList


cdef class SendBatchReader:
    cdef SendList _sends
    cdef PropertyRules _rules
    cdef SendIds _ids
    cdef Py_ssize_t _message_bytes_max
    cdef Py_ssize_t _batch_messages_max
    cdef Py_ssize_t _batch_keys_max

    cdef Py_ssize_t read(
        self, ParsedSendHeader *header, const char *body, Py_ssize_t body_bytes, int32_t place
    ) except -1
    cdef bint _join_properties(
        self, Send *send, const char *own, Py_ssize_t own_bytes, const char *shared, Py_ssize_t shared_bytes
    ) except -1
