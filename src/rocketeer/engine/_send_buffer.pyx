# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The plain sends that sockets bring at about the same time: read one by one, appended to the log as one.

No Python object is made for a message. What is not plain is left where it is: whoever calls leads it the general way.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport PyObject
from libc.errno cimport EINTR, errno
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy, memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from rocketeer.engine._access cimport SendAccess
from rocketeer.engine._properties cimport Marks, PropertyRules, override
from rocketeer.engine._record cimport write_record
from rocketeer.engine._replies cimport ReplyFormat
from rocketeer.engine._request cimport (
    FLAG_ONEWAY, FLAG_RESPONSE, SEND_BATCH_MESSAGE, SendHeader, read_send_header, unescape,
)
from rocketeer.engine._send cimport Send
from rocketeer.engine._send_ids cimport SendIds
from rocketeer.record._bytes cimport get16, get32, hash_ascii, without_sign
from rocketeer.record._layout cimport (
    HEAD_BYTES, HOST_BYTES, HOSTS_V6, ITEM_BODY_BYTES_AT, ITEM_BYTES, ITEM_FLAG_AT, PROPERTIES_BYTES_MAX,
    PROPERTY_END, TX_PREPARED, TX_ROLLBACK,
)
from rocketeer.store._queue_entries cimport QueueTail

from rocketeer.model.topic import DLQ_PREFIX

cdef extern from *:
    void prefetch "__builtin_prefetch"(const void *address) noexcept nogil

cdef extern from "unistd.h":
    ssize_t pwrite(int fd, const void *data, size_t size, long long at) noexcept nogil

cdef enum:
    FRAME_PREFIX_BYTES = 8
    SENDS_MAX = 4096  # messages the buffer holds, but for one batch that is larger
    KEYS_MAX = 4 * SENDS_MAX  # with so many keys it takes no further request: the index has to write them
    RECENT_QUEUES = 65536  # places for queues by hash: thousands of them seldom share one
    ARENA_BYTES_MIN = 16 << 20  # enough for what many sockets bring at a time; memory is used as far as it is written to
    SHARED_BYTES_MAX = 256  # what a message in a batch may have on top of its own; usually enough


cdef double APPEND_SLOW_S = 0.01  # what an append never takes but when the disk holds it up


cdef double monotonic_s() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <double> now.tv_sec + <double> now.tv_nsec / 1e9


cdef class QueueAppendState:
    """A queue that plain sends go to: what its records and keys have in common, and its next offset."""

    cdef QueueTail queue
    cdef int32_t queue_id
    cdef bytes topic_part  # the topic with its length in front, as records have it
    cdef uint32_t key_prefix  # the hash of "topic#", which every key's goes on from
    cdef int64_t filled  # the last filling of the buffer with a send for it
    cdef int32_t place  # among the queues of that filling
    cdef int64_t appended  # the last filling that was appended to it
    cdef int64_t next_offset  # within that one
    cdef bint takes_ids  # a dead letter with its producer's id is a consumer's

    def __init__(self, str topic not None, int32_t queue_id, QueueTail queue not None):
        cdef bytes name = topic.encode()
        cdef bytes start = name + b"#"
        assert name.isascii(), "read_send_header takes no other"
        self.queue = queue
        self.queue_id = queue_id
        self.topic_part = len(name).to_bytes(1, "big") + name
        self.key_prefix = hash_ascii(0, PyBytes_AS_STRING(start), PyBytes_GET_SIZE(start))
        self.filled = self.appended = -1
        self.takes_ids = not topic.startswith(DLQ_PREFIX)


cdef bint is_queue_of(QueueAppendState state, SendHeader *header) noexcept:
    return (
        state.queue_id == header.queue_id
        and PyBytes_GET_SIZE(state.topic_part) - 1 == header.topic.size
        and memcmp(PyBytes_AS_STRING(state.topic_part) + 1, header.topic.at, header.topic.size) == 0
    )


cdef uint32_t queue_hash(SendHeader *header) noexcept nogil:
    cdef uint32_t value = 2166136261U ^ <uint32_t> header.queue_id
    cdef Py_ssize_t i
    for i in range(header.topic.size):
        value = (value ^ <uint8_t> header.topic.at[i]) * 16777619U
    return value ^ (value >> 15)


cdef void prefetch_queues(list states) noexcept:
    """With thousands of queues none is in the cache: ask for all of them before the first is needed."""
    cdef QueueTail queue
    for state in states:
        prefetch(<PyObject *> (<QueueAppendState> state).queue)
    for state in states:
        prefetch(<PyObject *> (<QueueAppendState> state).queue._tail)
    for state in states:
        queue = (<QueueAppendState> state).queue
        prefetch(PyByteArray_AS_STRING(queue._tail) + PyByteArray_GET_SIZE(queue._tail))


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


cdef class SendBuffer:
    """Collects plain sends for one store: `read` puts them in, `append` stores and answers them.

    `queues_of(topic)` says how many queues of a topic plain sends may go to, None if they may not; it is remembered,
    with the queues, until `forget_queues`. `on_first` is called when the buffer is no longer empty, `on_full` when it
    has to be appended before more fits in. With `access`, only sends that it lets pass are plain; with `ids`, batches of
    messages with new ids are.
    """

    cdef object _queues_of
    cdef object _log
    cdef object _dispatch
    cdef object _get_queue
    cdef SendAccess _access
    cdef SendIds _ids
    cdef PropertyRules _rules
    cdef ReplyFormat _replies
    cdef bytes _store_host
    cdef Py_ssize_t _message_bytes_max
    cdef Py_ssize_t _batch_messages_max
    cdef Py_ssize_t _batch_keys_max
    cdef dict _topics  # the known queues of each, by id
    cdef PyObject **_recent  # some of the same, by hash
    cdef public bint enabled
    cdef public object on_first
    cdef public object on_full
    # What is in the buffer:
    cdef Send *_sends
    cdef Py_ssize_t _sends_room
    cdef Py_ssize_t _count
    cdef Py_ssize_t _total  # bytes of their records
    cdef list _queues  # that they are for
    cdef list _requests  # (peer, data, how much of it was read, its first send)
    cdef int64_t _filling  # the buffer's contents are numbered
    cdef uint32_t *_hashes  # of their keys
    cdef Py_ssize_t _hashes_room
    cdef Py_ssize_t _hashes_used
    cdef char *_arena  # their stored properties
    cdef Py_ssize_t _arena_bytes
    cdef Py_ssize_t _arena_used
    cdef char *_records
    cdef Py_ssize_t _records_room

    def __cinit__(self):
        self._sends_room = SENDS_MAX
        self._sends = <Send *> malloc(self._sends_room * sizeof(Send))
        self._hashes_room = 2 * SENDS_MAX
        self._hashes = <uint32_t *> malloc(self._hashes_room * sizeof(uint32_t))
        self._arena_bytes = ARENA_BYTES_MIN
        self._arena = <char *> malloc(self._arena_bytes)
        self._recent = <PyObject **> calloc(RECENT_QUEUES, sizeof(PyObject *))
        if self._sends == NULL or self._hashes == NULL or self._arena == NULL or self._recent == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._sends)
        free(self._hashes)
        free(self._arena)
        free(self._records)
        free(self._recent)

    def __init__(
        self,
        *,
        queues_of,
        log,
        dispatch,
        PropertyRules rules not None,
        ReplyFormat replies not None,
        bytes store_host not None,
        Py_ssize_t message_bytes_max,
        Py_ssize_t batch_messages_max,
        Py_ssize_t batch_keys_max,
        SendAccess access=None,
        SendIds ids=None,
    ):
        assert len(store_host) == HOST_BYTES, "IPv4 only"
        self._queues_of = queues_of
        self._log = log
        self._dispatch = dispatch
        self._get_queue = dispatch.queues.get_or_make
        self._access = access
        self._ids = ids
        self._rules = rules
        self._replies = replies
        self._store_host = store_host
        self._message_bytes_max = message_bytes_max
        self._batch_messages_max = batch_messages_max
        self._batch_keys_max = batch_keys_max
        self._topics = {}
        self._clear()

    cdef int _clear(self) except -1:
        self._requests = []
        self._queues = []
        self._filling += 1
        self._count = self._total = self._hashes_used = self._arena_used = 0
        if self._ids is not None:
            self._ids.forget_held()
        return 0

    def __len__(self):
        """How many messages are in the buffer."""
        return self._count

    def forget_queues(self):
        """A topic changed: ask again. Only when empty: sends in the buffer have queues that are made anew then."""
        assert self._count == 0
        memset(self._recent, 0, RECENT_QUEUES * sizeof(PyObject *))
        self._topics.clear()

    def read(self, bytes data not None, object peer):
        """Put the plain sends at the front of `data` into the buffer; how many bytes they have.

        `peer` is whom `append` answers; its `remote_host` is where they were born.
        """
        cdef Py_ssize_t read, more
        if not self.enabled:
            return 0
        read = self._read_requests(data, peer.remote_host, peer)
        if read < 0:
            self.on_full()
            read = self._read_requests(data, peer.remote_host, peer)
        while self._hashes_used >= KEYS_MAX and read < PyBytes_GET_SIZE(data):
            self.on_full()
            if not self.enabled:
                return read
            more = self._read_requests(data[read:], peer.remote_host, peer)
            read += max(more, 0)
        if read and len(self._requests) == 1:
            self.on_first()
        return read

    cdef Py_ssize_t _read_requests(self, bytes data, bytes born_host, object peer) except -2:
        """-1 if the buffer must be appended before more fits into it."""
        cdef Py_ssize_t before = self._count, arena_before = self._arena_used, read, i
        if PyBytes_GET_SIZE(born_host) != HOST_BYTES:
            return 0
        if not self._make_room(PyBytes_GET_SIZE(data)):
            return -1
        if self._access is not None:
            self._access.begin(born_host)
        read = self._read_frames(data)
        if self._count > before:
            for i in range(before, self._count):
                memcpy(self._sends[i].born_host, PyBytes_AS_STRING(born_host), HOST_BYTES)
            self._requests.append((peer, data, read, before))
        else:
            self._arena_used = arena_before
            if self._ids is not None and not before:
                self._ids.forget_held()  # of a batch that was not taken
        return read

    def append(self, int64_t now_ms, bint waits):
        """Store all sends and empty the buffer: the end in the log, and (peer, replies to write now, later replies).

        Later is when the log below that end is durable: `ReplyFormat.frames` makes frames of what is returned here.
        Raises StoreRefused, with nothing stored and the sends still there: `discard` says which they were.
        """
        cdef list queues = self._queues, requests = self._requests, answers = [], grown = []
        cdef Py_ssize_t count = self._count, total = self._total, at, start, end
        cdef int64_t first
        cdef double began_s, took_s
        cdef QueueAppendState state
        if not count:
            return 0, answers
        began_s = monotonic_s()
        first = self._log.max_offset
        if first + total > <int64_t> self._log.mark:
            first = self._log.make_room(total)
        self._write(first, now_ms)
        took_s = monotonic_s() - began_s
        if took_s > APPEND_SLOW_S:
            self._log.append_took(took_s)
        self._log.max_offset = first + total  # copied first, published second
        if self._ids is not None:
            self._ids.remember(self._sends, count)
        for at in range(len(requests)):
            start = requests[at][3]
            end = requests[at + 1][3] if at + 1 < len(requests) else count
            later = self._later(start, end) if waits else None
            answers.append((requests[at][0], self._answer(start, end, waits), later))
        for item in queues:
            state = <QueueAppendState> item
            if state.appended == self._filling:
                grown.append(state.queue)
                if state.queue.max_offset > state.queue._due:
                    state.queue._write_out_due()
        keys = self._key_columns(now_ms)
        self._clear()
        self._dispatch.apply_run(grown, keys, count, first, first + total, now_ms)
        return first + total, answers

    def discard(self):
        """Empty the buffer; (peer, the bytes of its requests) each."""
        cdef list requests = [(peer, data[:read]) for peer, data, read, first in self._requests]
        self._clear()
        return requests

    # --- reading -------------------------------------------------------------------------------------------

    cdef Py_ssize_t _read_frames(self, bytes data) except -1:
        """Read whole frames while they are plain sends; how many bytes they have."""
        cdef const char *start = PyBytes_AS_STRING(data)
        cdef Py_ssize_t at = 0, end = PyBytes_GET_SIZE(data), size, header_bytes, added, total, hashes
        cdef SendHeader header
        cdef const char *frame
        cdef const char *body
        cdef int32_t place
        header.keeps_fields = self._access is not None
        while end - at >= FRAME_PREFIX_BYTES and self._count < SENDS_MAX and self._hashes_used < KEYS_MAX:
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
            total, hashes = self._total, self._hashes_used
            if header.code == SEND_BATCH_MESSAGE:
                added = self._read_batch(&header, body, size - 4 - header_bytes, place)
            else:
                added = self._read_send(&header, body, size - 4 - header_bytes, place)
            if not added:
                break
            if self._hashes_used - hashes > self._batch_keys_max or (
                self._access is not None and not self._access.takes_nonce(&header)
            ):
                self._total, self._hashes_used = total, hashes  # as if it had not been read
                break
            self._count += added
            at += size + 4
        return at

    cdef int32_t _find_queue(self, SendHeader *header) except -2:
        """Where in `_queues` the message's queue is; -1 if plain sends may not go to it."""
        cdef QueueAppendState state
        cdef PyObject **recent = self._recent + queue_hash(header) % RECENT_QUEUES
        if recent[0] == NULL or not is_queue_of(<QueueAppendState> recent[0], header):
            found = self._make_queue(header)
            if found is None:
                return -1
            recent[0] = <PyObject *> found  # `_topics` holds it until it is forgotten
        state = <QueueAppendState> recent[0]
        if state.filled != self._filling:
            state.filled = self._filling
            state.place = <int32_t> len(self._queues)
            self._queues.append(state)
        return state.place

    cdef QueueAppendState _make_queue(self, SendHeader *header):
        cdef bytes topic = PyBytes_FromStringAndSize(header.topic.at, header.topic.size)
        known = self._topics.get(topic)
        if known is None:
            count = self._queues_of(topic.decode())
            if count is None:
                return None
            known = self._topics[topic] = [None] * count
        if not 0 <= header.queue_id < len(<list> known):
            return None
        found = (<list> known)[header.queue_id]
        if found is None:
            name = topic.decode()
            found = QueueAppendState(name, header.queue_id, self._get_queue(name, header.queue_id))
            (<list> known)[header.queue_id] = found
        return found

    cdef Py_ssize_t _read_send(
        self, SendHeader *header, const char *body, Py_ssize_t body_bytes, int32_t place
    ) except -1:
        """1, or 0 for a message that is not plain."""
        cdef Marks marks
        cdef char *stored
        cdef char *text
        cdef Send *send = self._sends + self._count
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
        self._total += send.size
        return 1

    cdef Py_ssize_t _read_batch(
        self, SendHeader *header, const char *body, Py_ssize_t body_bytes, int32_t place
    ) except -1:
        """How many messages the batch has; 0, with nothing added, for one that is not plain."""
        cdef Py_ssize_t at = 0, stop, count = 0, item_bytes, properties_at, properties_bytes, total = 0
        cdef Py_ssize_t hashes_before = self._hashes_used, shared_bytes
        cdef const char *item
        cdef char *shared
        cdef Send *send
        cdef bint wait = True, ignored, named = False
        cdef QueueAppendState state = <QueueAppendState> self._queues[place]
        cdef Marks marks, common
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
        if shared_bytes < 0 or not self._rules.find_marks(shared, shared_bytes, &common, &wait) or common.producer_bytes:
            return 0
        if shared_bytes > SHARED_BYTES_MAX and items_of(body, body_bytes) * shared_bytes > self._message_bytes_max:
            return 0  # too large for the store: no need to write them all side by side first
        while at < body_bytes:
            item = body + at
            if count == self._batch_messages_max or body_bytes - at < ITEM_BYTES + 2:
                break
            if self._hashes_used - hashes_before > self._batch_keys_max:
                break
            if self._count + count == self._sends_room:
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
            if not self._rules.find_marks(item + properties_at, properties_bytes, &marks, &ignored):
                break
            send = self._sends + self._count + count
            send.named = False
            if marks.producer_bytes:
                if not state.takes_ids or not self._ids.takes(&marks, &common, send):
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
        if at < body_bytes or count == 0 or (named and count > self._ids.batch_messages_max):
            self._hashes_used = hashes_before
            return 0
        self._sends[self._count].replies_for = <int32_t> count
        self._total += total
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
        cdef QueueAppendState state = <QueueAppendState> self._queues[place]
        if header.sys_flag & TX_PREPARED or body_bytes > self._message_bytes_max:
            return False
        if send.properties_bytes > PROPERTIES_BYTES_MAX:
            return False
        send.keys = <int32_t> self._add_keys(state.key_prefix, marks)
        send.body = body
        send.body_bytes = body_bytes
        send.size = HEAD_BYTES + body_bytes + PyBytes_GET_SIZE(state.topic_part) + 2 + send.properties_bytes
        send.born_ms = header.born_ms
        send.tag_code = <int32_t> hash_ascii(0, marks.tags, marks.tags_bytes)
        send.opaque = header.opaque
        send.queue = place
        send.message_flag = <int32_t> message_flag
        send.sys_flag = <int32_t> header.sys_flag & ~HOSTS_V6
        send.reconsume_times = <int32_t> header.reconsume_times
        send.oneway = header.flag & FLAG_ONEWAY
        return True

    # --- keys and properties -------------------------------------------------------------------------------

    cdef Py_ssize_t _add_keys(self, uint32_t prefix, Marks *marks) except -1:
        """Hash the client's id, then each of the keys; how many there are."""
        cdef Py_ssize_t before = self._hashes_used, left = marks.keys_bytes, word
        cdef const char *at = marks.keys
        cdef const char *stop
        if marks.uniq_key_bytes:
            self._add_key(hash_ascii(prefix, marks.uniq_key, marks.uniq_key_bytes))
        while left > 0:
            stop = <const char *> memchr(at, b" ", left)
            word = stop - at if stop != NULL else left
            if word:
                self._add_key(hash_ascii(prefix, at, word))
            at += word + 1
            left -= word + 1
        return self._hashes_used - before

    cdef int _add_key(self, uint32_t value) except -1:
        cdef uint32_t *more
        if self._hashes_used == self._hashes_room:
            more = <uint32_t *> realloc(self._hashes, 2 * self._hashes_room * sizeof(uint32_t))
            if more == NULL:
                raise MemoryError
            self._hashes = more
            self._hashes_room *= 2
        self._hashes[self._hashes_used] = without_sign(value)
        self._hashes_used += 1
        return 0

    cdef int _double_sends(self) except -1:
        cdef Send *more = <Send *> realloc(self._sends, 2 * self._sends_room * sizeof(Send))
        if more == NULL:
            raise MemoryError
        self._sends = more
        self._sends_room *= 2
        return 0

    cdef bint _make_room(self, Py_ssize_t data_bytes) except -1:
        """Room for the stored properties of every message `data_bytes` may hold, so that none ever moves.

        False if there are messages already and would have to move, or so many that they should be appended first.
        """
        cdef Py_ssize_t size = self._arena_used + 2 * data_bytes, messages
        cdef char *more
        # Of messages that are not in a batch there are SENDS_MAX at most, those of a batch have ITEM_BYTES + 2 at least.
        messages = SENDS_MAX + min(data_bytes // (ITEM_BYTES + 2), 2 * self._batch_messages_max)
        size += messages * (PyBytes_GET_SIZE(self._rules.cluster) + SHARED_BYTES_MAX + 2)
        if self._count and (
            size > self._arena_bytes or self._count > SENDS_MAX // 2 or self._hashes_used >= KEYS_MAX
        ):
            return False
        if size > self._arena_bytes:
            more = <char *> realloc(self._arena, size)
            if more == NULL:
                raise MemoryError
            self._arena = more
            self._arena_bytes = size
        return True

    cdef char *_use_arena(self, Py_ssize_t size) noexcept:
        """NULL without room: batches may have longer properties in common than was reckoned with."""
        cdef char *at = self._arena + self._arena_used
        if size > self._arena_bytes - self._arena_used:
            return NULL
        self._arena_used += size
        return at

    # --- writing -------------------------------------------------------------------------------------------

    cdef int _write(self, int64_t first, int64_t store_ms) except -1:
        """Write the records to the log, then their entries to the queues. OSError with nothing changed."""
        cdef char *to
        cdef Send *send
        cdef QueueAppendState state
        cdef Py_ssize_t i
        cdef int64_t log_offset = first
        if self._total > self._records_room:
            to = <char *> realloc(self._records, self._total)
            if to == NULL:
                raise MemoryError
            self._records = to
            self._records_room = self._total
        to = self._records
        prefetch_queues(self._queues)
        for i in range(self._count):
            send = self._sends + i
            state = <QueueAppendState> self._queues[send.queue]
            if state.appended != self._filling:
                state.appended = self._filling
                state.next_offset = state.queue.max_offset
            send.log_offset = log_offset
            send.queue_offset = state.next_offset
            state.next_offset += 1
            write_record(to, send, state.queue_id, state.topic_part, self._store_host, store_ms)
            to += send.size
            log_offset += send.size
        self._write_log(first)
        for i in range(self._count):
            send = self._sends + i
            (<QueueAppendState> self._queues[send.queue]).queue.add(
                send.log_offset, <int32_t> send.size, send.tag_code
            )
        return 0

    cdef int _write_log(self, int64_t first) except -1:
        cdef int fd = self._log.fd
        cdef int64_t at = first - <int64_t> self._log.base
        cdef Py_ssize_t done = 0
        cdef ssize_t written
        while done < self._total:
            written = pwrite(fd, self._records + done, self._total - done, at + done)
            if written >= 0:
                done += written
            elif errno != EINTR:
                self._log.write(first, PyBytes_FromStringAndSize(self._records, self._total))  # it words the error
                return 0
        return 0

    cdef tuple _key_columns(self, int64_t store_ms):
        """Hash, log offset and store time of every key, as the index takes them."""
        cdef Py_ssize_t used = self._hashes_used, i, key
        cdef bytes hashes = PyBytes_FromStringAndSize(<char *> self._hashes, used * sizeof(uint32_t))
        cdef bytes offsets = PyBytes_FromStringAndSize(NULL, used * sizeof(int64_t))
        cdef bytes times = PyBytes_FromStringAndSize(NULL, used * sizeof(int64_t))
        cdef int64_t *offset = <int64_t *> PyBytes_AS_STRING(offsets)
        cdef int64_t *time = <int64_t *> PyBytes_AS_STRING(times)
        for i in range(self._count):
            for key in range(self._sends[i].keys):
                offset[0] = self._sends[i].log_offset
                time[0] = store_ms
                offset += 1
                time += 1
        return hashes, offsets, times

    # --- answering -----------------------------------------------------------------------------------------

    cdef bytes _answer(self, Py_ssize_t start, Py_ssize_t end, bint waits):
        """The replies that wait for nothing; None if there are none."""
        cdef Py_ssize_t size = 0, i
        cdef bytes frames
        cdef Send *send
        cdef char *to
        for i in range(start, end):
            send = self._sends + i
            if send.replies_for and not send.oneway and not (waits and send.wait):
                size += self._replies.bytes_max(send.replies_for)
        if not size:
            return None
        frames = PyBytes_FromStringAndSize(NULL, size)
        to = PyBytes_AS_STRING(frames)
        for i in range(start, end):
            send = self._sends + i
            if send.replies_for and not send.oneway and not (waits and send.wait):
                to = self._replies.put(to, send, (<QueueAppendState> self._queues[send.queue]).queue_id)
        return frames[: to - PyBytes_AS_STRING(frames)]

    cdef list _later(self, Py_ssize_t start, Py_ssize_t end):
        """What the replies that wait will say: (opaque, queue id, queue offset, log offsets) each."""
        cdef list rows = []
        cdef Send *send
        cdef Py_ssize_t i, at
        for i in range(start, end):
            send = self._sends + i
            if send.replies_for and not send.oneway and send.wait:
                log_offsets = [send[at].log_offset for at in range(send.replies_for)]
                queue_id = (<QueueAppendState> self._queues[send.queue]).queue_id
                rows.append((send.opaque, queue_id, send.queue_offset, log_offsets))
        return rows
