# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Plain sends at the front of what sockets brought: read, checked, and noted with all that is stored of them.

No Python object is made for a message. What is not plain is left where it is.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy

from rocketeer.engine._access cimport SendAccess
from rocketeer.engine._properties cimport Marks, MessageId, PropertyRules, override
from rocketeer.engine._queues cimport QueueAppendState, SendQueues
from rocketeer.engine._request cimport (
    FLAG_ONEWAY, FLAG_RESPONSE, SEND_BATCH_MESSAGE, SendHeader, read_send_header, unescape,
)
from rocketeer.engine._send cimport Send
from rocketeer.engine._send_ids cimport SendIds
from rocketeer.record._bytes cimport get16, get32, hash_text
from rocketeer.record._layout cimport (
    HEAD_BYTES, HOST_BYTES, HOSTS_V6, ITEM_BODY_BYTES_AT, ITEM_BYTES, ITEM_FLAG_AT, PROPERTIES_BYTES_MAX,
    PROPERTY_END, TX_PREPARED, TX_ROLLBACK,
)
from rocketeer.store._key_columns cimport KeyHashes

cdef enum:
    FRAME_PREFIX_BYTES = 8
    SENDS_MAX = 4096  # messages that are held, but for one batch that is larger
    KEYS_MAX = 4 * SENDS_MAX  # with so many keys no further request is taken: the index has to write them
    ARENA_BYTES_MIN = 16 << 20  # enough for what many sockets bring at a time; memory is used as far as it is written to
    SHARED_BYTES_MAX = 256  # what a message in a batch may have on top of its own; usually enough


cdef Py_ssize_t items_of(const char *body, Py_ssize_t size) noexcept nogil:
    """How many messages a batch has, up to one that is broken; each begins with its size."""
    cdef Py_ssize_t at = 0, count = 0, item_bytes
    while size - at >= ITEM_BYTES + 2:
        item_bytes = <int32_t> get32(body + at)
        if item_bytes < ITEM_BYTES + 2:
            break
        at += item_bytes
        count += 1
    return count


cdef char *renewed(char *old, Py_ssize_t size) except NULL:
    """Memory in the place of `old`, whose contents are not kept: to move them would touch every page of both."""
    cdef char *new = <char *> malloc(size)
    if new == NULL:
        raise MemoryError
    free(old)
    return new


cdef class SendReader:
    """Notes plain sends, `sends[:count]`, until `clear`.

    With `access`, only sends that it lets pass are plain; with `ids`, batches of messages with new ids are.
    """

    def __cinit__(self):
        self._sends_room = SENDS_MAX
        self.sends = <Send *> malloc(self._sends_room * sizeof(Send))
        self._arena_bytes = ARENA_BYTES_MIN
        self._arena = <char *> malloc(self._arena_bytes)
        if self.sends == NULL or self._arena == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.sends)
        free(self._arena)

    def __init__(
        self,
        SendQueues known not None,
        PropertyRules rules not None,
        Py_ssize_t message_bytes_max,
        Py_ssize_t batch_messages_max,
        Py_ssize_t batch_keys_max,
        SendAccess access,
        SendIds ids,
    ):
        self._known = known
        self._rules = rules
        self._message_bytes_max = message_bytes_max
        self._batch_messages_max = batch_messages_max
        self._batch_keys_max = batch_keys_max
        self._access = access
        self.ids = ids
        self.keys = KeyHashes()
        self.clear()

    cdef int clear(self) except -1:
        self.queues = []
        self.filling += 1
        self.count = self.total = self.keys.used = self._arena_used = 0
        if self.ids is not None:
            self.ids.forget_held()
        return 0

    cdef bint has_many_keys(self) noexcept:
        """No further request is taken before those are appended."""
        return self.keys.used >= KEYS_MAX

    cdef Py_ssize_t read(self, bytes data, bytes born_host) except -2:
        """How many bytes the plain sends at the front of `data` have; -1 if those held must be appended first."""
        cdef Py_ssize_t before = self.count, arena_before = self._arena_used, read, i
        if PyBytes_GET_SIZE(born_host) != HOST_BYTES:
            return 0
        if not self._make_room(PyBytes_GET_SIZE(data)):
            return -1
        if self._access is not None:
            self._access.begin(born_host)
        read = self._read_frames(data)
        if self.count > before:
            for i in range(before, self.count):
                memcpy(self.sends[i].born_host, PyBytes_AS_STRING(born_host), HOST_BYTES)
        else:
            self._arena_used = arena_before
            if self.ids is not None and not before:
                self.ids.forget_held()  # of a batch that was not taken
        return read

    cdef Py_ssize_t _read_frames(self, bytes data) except -1:
        """Read whole frames while they are plain sends; how many bytes they have."""
        cdef const char *start = PyBytes_AS_STRING(data)
        cdef Py_ssize_t at = 0, end = PyBytes_GET_SIZE(data), size, header_bytes, added, total, hashes
        cdef SendHeader header
        cdef const char *frame
        cdef const char *body
        cdef int32_t place
        header.keeps_fields = self._access is not None
        while end - at >= FRAME_PREFIX_BYTES and self.count < SENDS_MAX and not self.has_many_keys():
            frame = start + at
            size = <int32_t> get32(frame)
            header_bytes = get32(frame + 4)  # with the kind in its first byte, which is 0 for JSON
            if size < 4 or size > end - at - 4 or header_bytes > size - 4:
                break
            if header_bytes < 12 or memcmp(frame + FRAME_PREFIX_BYTES, b'{"code":3', 9) != 0:
                break
            body = frame + FRAME_PREFIX_BYTES + header_bytes
            if not read_send_header(frame + FRAME_PREFIX_BYTES, body, &header) or header.flag & FLAG_RESPONSE:
                break
            if self._access is not None and not self._access.passes(&header, body, size - 4 - header_bytes):
                break
            place = self._find_queue(&header)
            if place < 0:
                break
            total, hashes = self.total, self.keys.used
            if header.code == SEND_BATCH_MESSAGE:
                added = self._read_batch(&header, body, size - 4 - header_bytes, place)
            else:
                added = self._read_send(&header, body, size - 4 - header_bytes, place)
            if not added:
                break
            if self.keys.used - hashes > self._batch_keys_max or (
                self._access is not None and not self._access.takes_nonce(&header)
            ):
                self.total, self.keys.used = total, hashes  # as if it had not been read
                break
            self.count += added
            at += size + 4
        return at

    cdef int32_t _find_queue(self, SendHeader *header) except -2:
        """Where in `queues` the message's queue is; -1 if plain sends may not go to it."""
        cdef QueueAppendState state = self._known.find(header)
        if state is None:
            return -1
        if state.filled != self.filling:
            state.filled = self.filling
            state.place = <int32_t> len(self.queues)
            self.queues.append(state)
        return state.place

    cdef Py_ssize_t _read_send(
        self, SendHeader *header, const char *body, Py_ssize_t body_bytes, int32_t place
    ) except -1:
        """1, or 0 for a message that is not plain."""
        cdef Marks marks
        cdef char *stored
        cdef char *text
        cdef Send *send = self.sends + self.count
        cdef Py_ssize_t text_bytes = header.properties.size, cluster_bytes = PyBytes_GET_SIZE(self._rules.cluster)
        # What is stored is never longer than the text and the cluster behind it; the text may be unescaped there.
        stored = self._use_arena(2 * text_bytes + cluster_bytes)
        if stored == NULL:
            return 0
        text = <char *> header.properties.at
        if header.properties.escaped:
            text = stored + text_bytes + cluster_bytes
            text_bytes = unescape(&header.properties, text)
            if text_bytes < 0:
                return 0
        send.wait = True
        send.properties_bytes = self._rules.store(text, text_bytes, stored, &marks, &send.wait)
        if send.properties_bytes < 0:
            return 0
        send.properties = stored
        send.replies_for = 1
        send.named = False
        if not self._finish(send, header, body, body_bytes, place, header.message_flag, &marks):
            return 0
        self.total += send.size
        return 1

    cdef Py_ssize_t _read_batch(
        self, SendHeader *header, const char *body, Py_ssize_t body_bytes, int32_t place
    ) except -1:
        """How many messages the batch has; 0, with nothing added, for one that is not plain."""
        cdef Py_ssize_t at = 0, stop, count = 0, item_bytes, properties_at, properties_bytes, total = 0
        cdef Py_ssize_t hashes_before = self.keys.used, shared_bytes
        cdef const char *item
        cdef char *shared
        cdef Send *send
        cdef bint wait = True, ignored, named = False
        cdef QueueAppendState state = <QueueAppendState> self.queues[place]
        cdef Marks marks, common
        cdef MessageId own_id, common_id
        if body_bytes > self._message_bytes_max or header.sys_flag & TX_ROLLBACK:  # any state of a transaction
            return 0
        shared_bytes = header.properties.size
        shared = self._use_arena(shared_bytes + 1)
        if shared == NULL:
            return 0
        if header.properties.escaped:
            shared_bytes = unescape(&header.properties, shared)
        else:
            memcpy(shared, header.properties.at, shared_bytes)
        while shared_bytes > 0 and shared[0] == PROPERTY_END:
            shared += 1
            shared_bytes -= 1
        while shared_bytes > 0 and shared[shared_bytes - 1] == PROPERTY_END:
            shared_bytes -= 1
        if shared_bytes < 0 or not self._rules.find_marks(shared, shared_bytes, &common, &common_id, &wait):
            return 0
        if common_id.producer_bytes:
            return 0
        if shared_bytes > SHARED_BYTES_MAX and items_of(body, body_bytes) * shared_bytes > self._message_bytes_max:
            return 0  # too large for the store: no need to write them all side by side first
        while at < body_bytes:
            item = body + at
            if count == self._batch_messages_max or body_bytes - at < ITEM_BYTES + 2:
                break
            if self.keys.used - hashes_before > self._batch_keys_max:
                break
            if self.count + count == self._sends_room:
                self._double_sends()
            item_bytes = <int32_t> get32(item + ITEM_BODY_BYTES_AT)
            properties_at = ITEM_BYTES + item_bytes + 2
            if item_bytes < 0 or properties_at > body_bytes - at:
                break
            properties_bytes = get16(item + properties_at - 2)
            if (
                properties_bytes > PROPERTIES_BYTES_MAX
                or properties_bytes > body_bytes - at - properties_at
                or properties_at + properties_bytes != <int32_t> get32(item)
            ):
                break
            stop = at + properties_at + properties_bytes
            while properties_bytes and item[properties_at + properties_bytes - 1] == PROPERTY_END:
                properties_bytes -= 1
            if not self._rules.find_marks(item + properties_at, properties_bytes, &marks, &own_id, &ignored):
                break
            send = self.sends + self.count + count
            send.named = False
            if own_id.producer_bytes:
                if not state.takes_ids or not self.ids.takes(&own_id, &common_id, send):
                    break
                named = True
            override(&marks, &common)
            send.wait = wait
            send.replies_for = 0
            if not self._join_properties(send, item + properties_at, properties_bytes, shared, shared_bytes):
                break
            if not self._finish(
                send, header, item + ITEM_BYTES, item_bytes, place, <int32_t> get32(item + ITEM_FLAG_AT), &marks
            ):
                break
            total += send.size
            count += 1
            at = stop  # only now: a last message that is not plain makes the whole batch so
        if at < body_bytes or count == 0 or (named and count > self.ids.batch_messages_max):
            self.keys.used = hashes_before
            return 0
        self.sends[self.count].replies_for = <int32_t> count
        self.total += total
        return count

    cdef bint _join_properties(
        self, Send *send, const char *own, Py_ssize_t own_bytes, const char *shared, Py_ssize_t shared_bytes
    ) except -1:
        """What is stored for a message of a batch: its own properties, the batch's, the cluster; False without room."""
        cdef Py_ssize_t cluster_bytes = PyBytes_GET_SIZE(self._rules.cluster)
        cdef char *to = self._use_arena(own_bytes + shared_bytes + 1 + cluster_bytes)
        if to == NULL:
            return False
        send.properties = to
        memcpy(to, own, own_bytes)
        to += own_bytes
        if shared_bytes:
            to[0] = PROPERTY_END
            memcpy(to + 1, shared, shared_bytes)
            to += shared_bytes + 1
        memcpy(to, PyBytes_AS_STRING(self._rules.cluster), cluster_bytes)
        send.properties_bytes = to + cluster_bytes - send.properties
        return True

    cdef bint _finish(
        self, Send *send, SendHeader *header, const char *body, Py_ssize_t body_bytes, int32_t place,
        int64_t message_flag, Marks *marks,
    ) except -1:
        """The rest of a message whose properties are there; False if it is too large or no queue will have it."""
        cdef QueueAppendState state = <QueueAppendState> self.queues[place]
        cdef uint32_t tag = 0
        if header.sys_flag & TX_PREPARED or body_bytes > self._message_bytes_max:
            return False
        if send.properties_bytes > PROPERTIES_BYTES_MAX or not hash_text(marks.tags, marks.tags_bytes, &tag):
            return False
        send.keys = self.keys.add(state.key_prefix, marks)
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

    # --- memory --------------------------------------------------------------------------------------------

    cdef int _double_sends(self) except -1:
        cdef Send *more = <Send *> realloc(self.sends, 2 * self._sends_room * sizeof(Send))
        if more == NULL:
            raise MemoryError
        self.sends = more
        self._sends_room *= 2
        return 0

    cdef bint _make_room(self, Py_ssize_t data_bytes) except -1:
        """Room for the stored properties of every message `data_bytes` may hold, so that none ever moves.

        False if there are messages already and would have to move, or so many that they should be appended first.
        """
        cdef Py_ssize_t size = self._arena_used + 2 * data_bytes, messages
        # Of messages that are not in a batch there are SENDS_MAX at most, those of a batch have ITEM_BYTES + 2 at least.
        messages = SENDS_MAX + min(data_bytes // (ITEM_BYTES + 2), 2 * self._batch_messages_max)
        size += messages * (PyBytes_GET_SIZE(self._rules.cluster) + SHARED_BYTES_MAX + 2)
        if self.count and (
            size > self._arena_bytes or self.count > SENDS_MAX // 2 or self.has_many_keys()
        ):
            return False
        if size > self._arena_bytes:
            self._arena = renewed(self._arena, size)
            self._arena_bytes = size
        return True

    cdef char *_use_arena(self, Py_ssize_t size) noexcept:
        """NULL without room: batches may have longer properties in common than was reckoned with."""
        cdef char *at = self._arena + self._arena_used
        if size > self._arena_bytes - self._arena_used:
            return NULL
        self._arena_used += size
        return at
