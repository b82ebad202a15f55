cimport cython
from libc.stdint cimport int32_t, int64_t

from rocketeer.engine._properties cimport IndexedProperties
from rocketeer.engine._queues cimport QueueAppendState
from rocketeer.engine._request cimport ParsedSendHeader
from rocketeer.engine._send cimport Send
from rocketeer.store._key_columns cimport KeyHashes

cdef enum:
    SENDS_MAX = 4096  # messages that are held, but for one batch that is larger
    KEYS_MAX = 4 * SENDS_MAX  # with so many keys no further request is taken: the index has to write them
    SHARED_BYTES_MAX = 256  # what a message in a batch may have on top of its own; usually enough


cdef char *renewed(char *old, Py_ssize_t size) except NULL


@cython.final
cdef class SendList:
    cdef Send *sends
    cdef Py_ssize_t count
    cdef Py_ssize_t total  # bytes of their records
    cdef list queues  # that they are for
    cdef int64_t run_number  # what is held between two calls of `clear` is one run
    cdef KeyHashes keys
    cdef Py_ssize_t _room
    cdef Py_ssize_t _message_bytes_max
    cdef Py_ssize_t _batch_messages_max
    cdef char *_arena  # their stored properties
    cdef Py_ssize_t _arena_bytes
    cdef Py_ssize_t arena_used

    cdef int clear(self) except -1
    cdef inline bint has_many_keys(self) noexcept:
        """Whether so many keys are held that they must be appended before the next request is read."""
        return self.keys.used >= KEYS_MAX

    cdef int32_t place_of(self, QueueAppendState state) except -1
    cdef int _grow(self) except -1

    cdef inline Send *at(self, Py_ssize_t place) except NULL:
        """Room for one more send, at `count` or as many behind it as are being added."""
        if place == self._room:
            self._grow()
        return self.sends + place

    cdef bint complete(
        self, Send *send, ParsedSendHeader *header, const char *body, Py_ssize_t body_bytes, int32_t place,
        int64_t message_flag, IndexedProperties *indexed,
    ) except -1
    cdef bint make_room(self, Py_ssize_t data_bytes, Py_ssize_t cluster_bytes) except -1

    cdef inline char *use_arena(self, Py_ssize_t size) noexcept:
        """NULL without room: batches may have longer properties in common than was reckoned with."""
        cdef char *at = self._arena + self.arena_used
        if size > self._arena_bytes - self.arena_used:
            return NULL
        self.arena_used += size
        return at
