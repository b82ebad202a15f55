from libc.stdint cimport int32_t

from rocketeer.engine._access cimport SendAccess
from rocketeer.engine._batch_reader cimport SendBatchReader
from rocketeer.engine._properties cimport PropertyRules
from rocketeer.engine._queues cimport SendQueues
from rocketeer.engine._request cimport ParsedSendHeader
from rocketeer.engine._send_ids cimport SendIds
from rocketeer.engine._send_list cimport SendList


cdef class SendReader:
    cdef SendList _sends
    cdef SendQueues _known
    cdef PropertyRules _rules
    cdef SendAccess _access
    cdef SendIds _ids
    cdef SendBatchReader _batches
    cdef Py_ssize_t _batch_keys_max
    cdef Py_ssize_t _header_bytes_max

    cdef Py_ssize_t read(self, bytes data, bytes born_host) except -2
    cdef Py_ssize_t _read_frames(self, bytes data) except -1
    cdef Py_ssize_t _read_send(
        self, ParsedSendHeader *header, const char *body, Py_ssize_t body_bytes, int32_t place
    ) except -1
