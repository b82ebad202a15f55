from libc.stdint cimport int32_t, int64_t

from rocketeer.engine._access cimport SendAccess
from rocketeer.engine._properties cimport Marks, PropertyRules
from rocketeer.engine._queues cimport SendQueues
from rocketeer.engine._request cimport SendHeader
from rocketeer.engine._send cimport Send
from rocketeer.engine._send_ids cimport SendIds
from rocketeer.store._key_columns cimport KeyHashes


cdef char *renewed(char *old, Py_ssize_t size) except NULL


cdef class SendReader:
    cdef SendQueues _known
    cdef PropertyRules _rules
    cdef SendAccess _access
    cdef SendIds ids
    cdef Py_ssize_t _message_bytes_max
    cdef Py_ssize_t _batch_messages_max
    cdef Py_ssize_t _batch_keys_max
    # What was read:
    cdef Send *sends
    cdef Py_ssize_t _sends_room
    cdef Py_ssize_t count
    cdef Py_ssize_t total  # bytes of their records
    cdef list queues  # that they are for
    cdef int64_t filling  # what is read between two calls of `clear` is numbered
    cdef KeyHashes keys
    cdef char *_arena  # their stored properties
    cdef Py_ssize_t _arena_bytes
    cdef Py_ssize_t _arena_used

    cdef int clear(self) except -1
    cdef bint has_many_keys(self) noexcept
    cdef Py_ssize_t read(self, bytes data, bytes born_host) except -2
    cdef Py_ssize_t _read_frames(self, bytes data) except -1
    cdef int32_t _find_queue(self, SendHeader *header) except -2
    cdef Py_ssize_t _read_send(
        self, SendHeader *header, const char *body, Py_ssize_t body_bytes, int32_t place
    ) except -1
    cdef Py_ssize_t _read_batch(
        self, SendHeader *header, const char *body, Py_ssize_t body_bytes, int32_t place
    ) except -1
    cdef bint _join_properties(
        self, Send *send, const char *own, Py_ssize_t own_bytes, const char *shared, Py_ssize_t shared_bytes
    ) except -1
    cdef bint _finish(
        self, Send *send, SendHeader *header, const char *body, Py_ssize_t body_bytes, int32_t place,
        int64_t message_flag, Marks *marks,
    ) except -1
    cdef int _double_sends(self) except -1
    cdef bint _make_room(self, Py_ssize_t data_bytes) except -1
    cdef char *_use_arena(self, Py_ssize_t size) noexcept
