# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The plain sends that were read and are not appended yet, and the memory that their stored properties lie in."""

from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, malloc, realloc

from rocketeer.engine._properties cimport IndexedProperties
from rocketeer.engine._queues cimport QueueAppendState
from rocketeer.engine._request cimport FLAG_ONEWAY, ParsedSendHeader
from rocketeer.engine._send cimport Send
from rocketeer.record._bytes cimport hash_text
from rocketeer.record._layout cimport HEAD_BYTES, HOSTS_V6, ITEM_BYTES, PROPERTIES_BYTES_MAX, TX_PREPARED
from rocketeer.store._key_columns cimport KeyHashes

cdef enum:
    ARENA_BYTES_MIN = 16 << 20  # enough for many sockets at a time; memory is used as far as it is written to


cdef char *renewed(char *old, Py_ssize_t size) except NULL:
    """Memory in the place of `old`, whose contents are not kept: to move them would touch every page of both."""
    cdef char *new = <char *> malloc(size)
    if new == NULL:
        raise MemoryError
    free(old)
    return new


cdef class SendList:
    """`sends[:count]`, until `clear`. Whoever adds one fills the place behind the last, and then counts it."""

    def __cinit__(self, Py_ssize_t message_bytes_max, Py_ssize_t batch_messages_max):
        self._room = SENDS_MAX
        self.sends = <Send *> malloc(self._room * sizeof(Send))
        self._arena_bytes = ARENA_BYTES_MIN
        self._arena = <char *> malloc(self._arena_bytes)
        if self.sends == NULL or self._arena == NULL:
            raise MemoryError
        self._message_bytes_max = message_bytes_max
        self._batch_messages_max = batch_messages_max
        self.keys = KeyHashes()
        self.clear()

    def __dealloc__(self):
        free(self.sends)
        free(self._arena)

    cdef int clear(self) except -1:
        self.queues = []
        self.run_number += 1
        self.count = self.total = self.keys.used = self.arena_used = 0
        return 0

    cdef int32_t place_of(self, QueueAppendState state) except -1:
        """Where in `queues` this one is."""
        if state.run_number != self.run_number:
            state.run_number = self.run_number
            state.place = <int32_t> len(self.queues)
            self.queues.append(state)
        return state.place

    cdef int _grow(self) except -1:
        """Double the room for sends."""
        cdef Send *more = <Send *> realloc(self.sends, 2 * self._room * sizeof(Send))
        if more == NULL:
            raise MemoryError
        self.sends = more
        self._room *= 2
        return 0

    cdef bint complete(
        self, Send *send, ParsedSendHeader *header, const char *body, Py_ssize_t body_bytes, int32_t place,
        int64_t message_flag, IndexedProperties *indexed,
    ) except -1:
        """Fill in a message whose properties are there; False if it is too large or no queue will have it."""
        cdef QueueAppendState state = <QueueAppendState> self.queues[place]
        cdef uint32_t tag = 0
        if header.sys_flag & TX_PREPARED or body_bytes > self._message_bytes_max:
            return False
        if send.properties_bytes > PROPERTIES_BYTES_MAX or not hash_text(indexed.tags, indexed.tags_bytes, &tag):
            return False
        send.keys = self.keys.add(state.key_prefix, indexed)
        if send.keys < 0:
            return False
        send.body = body
        send.body_bytes = body_bytes
        send.size = HEAD_BYTES + body_bytes + PyBytes_GET_SIZE(state.topic_part) + 2 + send.properties_bytes
        send.born_ms = header.born_ms
        send.tag_code = <int32_t> tag
        send.opaque = header.opaque
        send.queue = place
        send.message_flag = <int32_t> message_flag
        send.sys_flag = <int32_t> header.sys_flag & ~HOSTS_V6
        send.reconsume_times = <int32_t> header.reconsume_times
        send.oneway = header.flag & FLAG_ONEWAY
        return True

    cdef bint make_room(self, Py_ssize_t data_bytes, Py_ssize_t cluster_bytes) except -1:
        """Room for the stored properties of every message `data_bytes` may hold, so that none ever moves.

        False if there are messages already and would have to move, or so many that they should be appended first.
        """
        cdef Py_ssize_t size = self.arena_used + 2 * data_bytes, messages
        # Of messages in no batch there are SENDS_MAX at most, those of a batch have ITEM_BYTES + 2 at least.
        messages = SENDS_MAX + min(data_bytes // (ITEM_BYTES + 2), 2 * self._batch_messages_max)
        size += messages * (cluster_bytes + SHARED_BYTES_MAX + 2)
        if self.count and (
            size > self._arena_bytes or self.count > SENDS_MAX // 2 or self.has_many_keys()
        ):
            return False
        if size > self._arena_bytes:
            self._arena = renewed(self._arena, size)
            self._arena_bytes = size
        return True
