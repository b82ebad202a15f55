# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A whole run of sends in one call: the bytes of requests in; records, queue entries, keys and replies out.

What `broker.fast_path` does message by message and `store.append` run by run, this does without making a Python
object for a message. It takes plain sends and plain batches from the front of what a socket brought, and stops at
the first request that is anything else; whoever calls it leads that one the general way. Both give the same bytes
(tested). What several sockets brought at about the same time may be one run: `take` reads, `store` does the rest.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.errno cimport EINTR, errno
from cpython.ref cimport PyObject
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

include "_bytes.pxi"
include "_send_header.pxi"

cdef extern from "_crc32.h":
    uint32_t crc32_of(const char *data, size_t size) noexcept nogil

cdef extern from *:
    void prefetch "__builtin_prefetch"(const void *address) noexcept nogil

cdef extern from "unistd.h":
    ssize_t pwrite(int fd, const void *data, size_t size, long long at) noexcept nogil

cdef enum:
    FRAME_PREFIX_BYTES = 8
    PROPERTIES_BYTES_MAX = 0x7FFF
    SENDS_MAX = 4096  # messages of one run
    RECENT_LANES = 65536  # places for lanes by hash: thousands of queues seldom share one
    ROOM_BYTES_MIN = 4 << 20  # enough for what many sockets bring at a time
    FLAG_RESPONSE = 1
    FLAG_ONEWAY = 2
    MSG_ID_DIGITS = 16
    DECIMAL_BYTES_MAX = 20
    SHARED_BYTES_MAX = 256  # what a message in a batch may have on top of its own; usually enough


cdef class QueueTail:
    """The end of a consume queue: what the hot path needs of it. `store.consume_queue` builds on it."""

    cdef public int64_t max_offset
    cdef public int64_t _due
    cdef public bytearray _tail

    def put(self, int64_t queue_offset, int64_t log_offset, int32_t size, int64_t tag_code):
        """Add the next entry; False if the queue has that offset already (dispatch may repeat itself)."""
        if queue_offset != self.max_offset and not self._move_to(queue_offset):
            return False
        self.add(log_offset, size, tag_code)
        if queue_offset >= self._due:
            self._write_out_due()
        return True

    cdef int add(self, int64_t log_offset, int32_t size, int64_t tag_code) except -1:
        cdef Py_ssize_t used = PyByteArray_GET_SIZE(self._tail)
        cdef char *to
        PyByteArray_Resize(self._tail, used + QUEUE_ENTRY_BYTES)
        to = PyByteArray_AS_STRING(self._tail) + used
        put64(to, <uint64_t> log_offset)
        put32(to + 8, <uint32_t> size)
        put64(to + 12, <uint64_t> tag_code)
        self.max_offset += 1
        return 0


cdef class Lane:
    """What sends to one queue have in common."""

    cdef readonly str topic
    cdef readonly int32_t queue_id
    cdef readonly QueueTail queue
    cdef tuple key
    cdef bytes topic_part
    cdef uint32_t key_prefix
    cdef int64_t run  # the last one that came this way
    cdef int64_t next_offset  # within it
    cdef int64_t reading  # the last run that was read this way
    cdef int32_t place  # among the lanes of that one

    def __init__(self, str topic not None, int32_t queue_id, QueueTail queue not None):
        cdef bytes name = topic.encode()
        cdef str start = topic + "#"
        cdef uint32_t value = 0
        for unit in start:
            value = 31 * value + <uint32_t> ord(unit)
        self.topic = topic
        self.queue_id = queue_id
        self.queue = queue
        self.key = (topic, queue_id)
        self.topic_part = len(name).to_bytes(1, "big") + name
        self.key_prefix = value
        self.run = self.reading = -1


cdef inline bint is_lane_of(Lane lane, SendHeader *header) noexcept:
    return (
        lane.queue_id == header.queue_id
        and PyBytes_GET_SIZE(lane.topic_part) - 1 == header.topic.size
        and memcmp(PyBytes_AS_STRING(lane.topic_part) + 1, header.topic.at, header.topic.size) == 0
    )


cdef inline uint32_t lane_hash(SendHeader *header) noexcept nogil:
    cdef uint32_t value = 2166136261U ^ <uint32_t> header.queue_id
    cdef Py_ssize_t i
    for i in range(header.topic.size):
        value = (value ^ <uint8_t> header.topic.at[i]) * 16777619U
    return value ^ (value >> 15)


cdef void prefetch_queues(list lanes) noexcept:
    """With thousands of queues none is in the cache: ask for all of them before the first is needed."""
    cdef QueueTail queue
    for lane in lanes:
        prefetch(<PyObject *> (<Lane> lane).queue)
    for lane in lanes:
        prefetch(<PyObject *> (<Lane> lane).queue._tail)
    for lane in lanes:
        queue = (<Lane> lane).queue
        prefetch(PyByteArray_AS_STRING(queue._tail) + PyByteArray_GET_SIZE(queue._tail))


cdef struct Send:
    const char *body
    Py_ssize_t body_bytes
    const char *properties
    Py_ssize_t properties_bytes
    Py_ssize_t size
    int64_t born_ms
    int64_t tag_code
    int64_t opaque
    int64_t log_offset
    int64_t queue_offset
    int32_t lane
    int32_t message_flag
    int32_t sys_flag
    int32_t reconsumed
    int32_t keys
    int32_t replies_for  # how many messages its reply speaks of: 1, a batch's count, 0 behind a batch's first
    bint oneway
    bint wait
    char born_host[8]


cdef struct Marks:  # what queues and index want to know of a message's properties
    const char *tags
    Py_ssize_t tags_bytes
    const char *keys
    Py_ssize_t keys_bytes
    const char *uniq_key
    Py_ssize_t uniq_key_bytes


cdef inline bint read_flag(const char *at, Py_ssize_t size, bint *flag) noexcept nogil:
    """true or false as everybody writes them; False for anything else."""
    if is_name(at, size, b"true", 4):
        flag[0] = True
        return True
    if is_name(at, size, b"false", 5):
        flag[0] = False
        return True
    return False


cdef inline void override(Marks *marks, Marks *later) noexcept nogil:
    """Of properties that come twice the later ones count."""
    if later.tags_bytes:
        marks.tags = later.tags
        marks.tags_bytes = later.tags_bytes
    if later.keys_bytes:
        marks.keys = later.keys
        marks.keys_bytes = later.keys_bytes
    if later.uniq_key_bytes:
        marks.uniq_key = later.uniq_key
        marks.uniq_key_bytes = later.uniq_key_bytes


cdef inline bint is_ascii(const char *at, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(size):
        if <uint8_t> at[i] >= 0x80:
            return False
    return True


cdef inline uint32_t hash_on(uint32_t value, const char *at, Py_ssize_t size) noexcept nogil:
    """Java's hashCode, going on from `value`, of ASCII text."""
    cdef Py_ssize_t i
    for i in range(size):
        value = 31 * value + <uint8_t> at[i]
    return value


cdef inline uint32_t without_sign(uint32_t value) noexcept nogil:
    """Math.abs as Java has it, with its one negative answer (for Integer.MIN_VALUE) made 0."""
    if value >> 31:
        value = 0 - value
    return 0 if value >> 31 else value


cdef class SendRuns:
    """Takes runs of sends for one store.

    `qualify(topic)` says how many queues of a topic plain sends may go to, None if they may not; `lane_of` makes
    the lane of a queue at its first message. Both are remembered until `forget`. `writer` is told the store time of
    the last message. `pieces` are a reply's fixed parts around (opaque, message id, queue id, queue
    offset); a message id is `id_start` and the log offset.
    """

    cdef object _qualify
    cdef object _lane_of
    cdef object _writer
    cdef object _log
    cdef object _index
    cdef object _claims
    cdef bytes _cluster
    cdef bytes _store_host
    cdef bytes _id_start
    cdef tuple _pieces
    cdef list _listeners
    cdef dict _topics  # the lanes of each, by queue
    cdef PyObject **_recent  # some of the same lanes, by hash
    cdef Py_ssize_t _message_bytes_max
    cdef int64_t _runs
    cdef Send *_sends
    cdef uint32_t *_hashes
    cdef Py_ssize_t _hashes_room
    cdef Py_ssize_t _keys
    cdef char *_records
    cdef Py_ssize_t _records_room
    cdef char *_room
    cdef Py_ssize_t _room_bytes
    cdef Py_ssize_t _room_used
    cdef Py_ssize_t _id_bytes
    cdef uint64_t _claim_lengths
    cdef public bint enabled
    cdef public object on_open
    cdef public object on_full
    # The run that is being read:
    cdef readonly bint is_open
    cdef list _parts  # (owner, its bytes, its first message)
    cdef list _lanes
    cdef int64_t _reading  # its number
    cdef Py_ssize_t _count
    cdef Py_ssize_t _total
    cdef Py_ssize_t _data_bytes

    def __cinit__(self):
        self._sends = <Send *> malloc(SENDS_MAX * sizeof(Send))
        self._hashes_room = 2 * SENDS_MAX
        self._hashes = <uint32_t *> malloc(self._hashes_room * sizeof(uint32_t))
        self._room_bytes = ROOM_BYTES_MIN
        self._room = <char *> malloc(self._room_bytes)
        self._recent = <PyObject **> calloc(RECENT_LANES, sizeof(PyObject *))
        if self._sends == NULL or self._hashes == NULL or self._room == NULL or self._recent == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._sends)
        free(self._hashes)
        free(self._room)
        free(self._records)
        free(self._recent)

    def __init__(
        self,
        *,
        qualify,
        lane_of,
        writer,
        log,
        index,
        listeners,
        frozenset claims not None,
        str cluster_property not None,
        bytes store_host not None,
        tuple pieces not None,
        Py_ssize_t message_bytes_max,
    ):
        assert len(store_host) == 8, "IPv4 only"
        assert len(pieces) == 5
        self._qualify = qualify
        self._lane_of = lane_of
        self._writer = writer
        self._log = log
        self._index = index
        self._listeners = listeners
        self._claims = claims
        self._cluster = b"\x02" + cluster_property.encode()
        self._store_host = store_host
        self._id_start = store_host.hex().upper().encode()
        self._pieces = pieces
        self._id_bytes = len(self._id_start) + 1 + MSG_ID_DIGITS
        self._claim_lengths = 0
        for claim in claims:  # of the names as UTF-8; what is longer than the mask shares its last bit
            self._claim_lengths |= <uint64_t> 1 << min(<int> len(claim.encode()), 63)
        self._topics = {}
        self._message_bytes_max = message_bytes_max
        self._begin()

    cdef int _begin(self) except -1:
        self._parts = []
        self._lanes = []
        self.is_open = False
        self._reading += 1
        self._count = self._total = self._data_bytes = self._keys = self._room_used = 0
        return 0

    def forget(self):
        """A topic changed: ask again. Not while a run is open: it may have lanes that are made anew then."""
        assert not self.is_open
        memset(self._recent, 0, RECENT_LANES * sizeof(PyObject *))
        self._topics.clear()

    def take(self, bytes data not None, object owner):
        """Read the plain sends at the front of `data` into the run; how many bytes they have.

        `owner` is whom `store` answers; its `remote_host` is where they were born. Says `on_open` when it begins a
        run; one that is full is stored by `on_full` first.
        """
        cdef Py_ssize_t taken
        if not self.enabled:
            return 0
        taken = self._add(data, owner.remote_host, owner)
        if taken < 0:
            self.on_full()
            taken = self._add(data, owner.remote_host, owner)
        if taken and not self.is_open:
            self.is_open = True
            self.on_open()
        return taken

    cdef Py_ssize_t _add(self, bytes data, bytes born_host, object owner) except -2:
        """-1 if the run must be stored before more fits into it."""
        cdef Py_ssize_t before = self._count, room_before = self._room_used, taken, i
        if PyBytes_GET_SIZE(born_host) != 8:
            return 0
        if not self._make_room(PyBytes_GET_SIZE(data)):
            return -1
        taken = self._read(data, self._lanes, &self._count, &self._total)
        if self._count > before:
            self._data_bytes += PyBytes_GET_SIZE(data)
            for i in range(before, self._count):
                memcpy(self._sends[i].born_host, PyBytes_AS_STRING(born_host), 8)
            self._parts.append((owner, data, taken, before))
        else:
            self._room_used = room_before
        return taken

    def store(self, int64_t now_ms, bint waits):
        """Store the run and begin a new one: the end in the log, and (owner, replies to send now, what to reply later) each.

        Later is when the log below that end is durable: see `replies`. Raises StoreRefused, with nothing stored and
        the run still there: `give_up` says what it was.
        """
        cdef list lanes = self._lanes, parts = self._parts, answers = []
        cdef Py_ssize_t count = self._count, total = self._total, at, start, end
        cdef int64_t first
        if not count:
            return 0, answers
        first = self._log.max_offset
        if first + total > <int64_t> self._log.mark:
            first = self._log.make_room(total)
        self._runs += 1
        self._write(first, lanes, count, total, now_ms)
        self._log.max_offset = first + total  # copied first, published second
        self._writer.last_store_ms = now_ms
        if self._index is not None:
            self._index.extend_columns(self._columns(count, now_ms), count, first, first + total)
        for at in range(len(parts)):
            start = parts[at][3]
            end = parts[at + 1][3] if at + 1 < len(parts) else count
            later = self._later(lanes, start, end) if waits else None
            answers.append((parts[at][0], self._replies(lanes, start, end, waits), later))
        self._begin()
        self._tell(lanes)
        return first + total, answers

    def __len__(self):
        """How many messages the run has."""
        return self._count

    def give_up(self):
        """Forget the run; (owner, the bytes of its requests) each."""
        cdef list parts = [(owner, data[:taken]) for owner, data, taken, first in self._parts]
        self._begin()
        return parts

    # --- reading -------------------------------------------------------------------------------------------

    cdef Py_ssize_t _read(self, bytes data, list lanes, Py_ssize_t *count, Py_ssize_t *total) except -1:
        """Read whole frames while they are plain sends; how many bytes they have."""
        cdef const char *start = PyBytes_AS_STRING(data)
        cdef Py_ssize_t at = 0, end = PyBytes_GET_SIZE(data), size, header_bytes, added
        cdef SendHeader header
        cdef const char *frame
        cdef int32_t lane_at
        cdef Lane lane
        while end - at >= FRAME_PREFIX_BYTES and count[0] < SENDS_MAX:
            frame = start + at
            size = <int32_t> get32(frame)
            header_bytes = get32(frame + 4)  # with the kind in its first byte, which is 0 for JSON
            if size < 4 or size > end - at - 4 or header_bytes > size - 4:
                break
            if header_bytes < 12 or memcmp(frame + 8, b'{"code":3', 9) != 0:
                break
            if not read_header(frame + 8, frame + 8 + header_bytes, &header) or header.flag & FLAG_RESPONSE:
                break
            lane_at = self._lane(&header, lanes)
            if lane_at < 0:
                break
            lane = <Lane> lanes[lane_at]
            if header.code == SEND_BATCH_MESSAGE:
                added = self._read_batch(&header, frame + 8 + header_bytes, size - 4 - header_bytes, lane, lane_at,
                                         self._sends + count[0], SENDS_MAX - count[0], total)
            else:
                added = self._read_send(&header, frame + 8 + header_bytes, size - 4 - header_bytes, lane, lane_at,
                                        self._sends + count[0], total)
            if not added:
                break
            count[0] += added
            at += size + 4
        return at

    cdef int32_t _lane(self, SendHeader *header, list lanes) except -2:
        """Where in `lanes` the message's lane is; -1 if plain sends may not go to its queue."""
        cdef Lane lane
        cdef PyObject **recent = self._recent + lane_hash(header) % RECENT_LANES
        if recent[0] == NULL or not is_lane_of(<Lane> recent[0], header):
            found = self._find_lane(header)
            if found is None:
                return -1
            recent[0] = <PyObject *> found  # `_topics` holds it until it is forgotten
        lane = <Lane> recent[0]
        if lane.reading != self._reading:
            lane.reading = self._reading
            lane.place = <int32_t> len(lanes)
            lanes.append(lane)
        return lane.place

    cdef Lane _find_lane(self, SendHeader *header):
        cdef bytes topic = PyBytes_FromStringAndSize(header.topic.at, header.topic.size)
        cdef object known
        known = self._topics.get(topic)
        if known is None:
            queues = self._qualify(topic.decode())
            if queues is None:
                return None
            known = self._topics[topic] = [None] * queues
        if not 0 <= header.queue_id < len(<list> known):
            return None
        found = (<list> known)[header.queue_id]
        if found is None:
            found = (<list> known)[header.queue_id] = self._lane_of(topic.decode(), header.queue_id)
        return found

    cdef Py_ssize_t _read_send(
        self, SendHeader *header, const char *body, Py_ssize_t body_bytes, Lane lane, int32_t lane_at, Send *send,
        Py_ssize_t *total,
    ) except -1:
        cdef Marks marks
        cdef char *stored
        cdef char *text
        cdef Py_ssize_t text_bytes = header.properties.size, cluster_bytes = PyBytes_GET_SIZE(self._cluster)
        # What is stored is never longer than the text and the cluster behind it; the text may be unescaped there.
        stored = self._take_room(2 * text_bytes + cluster_bytes)
        text = <char *> header.properties.at
        if header.properties.escaped:
            text = stored + text_bytes + cluster_bytes
            text_bytes = unescape(&header.properties, text)
            if text_bytes < 0:
                return 0
        send.wait = True
        send.properties_bytes = self._store_properties(text, text_bytes, stored, &marks, &send.wait)
        if send.properties_bytes < 0:
            return 0
        send.properties = stored
        return self._finish(header, body, body_bytes, lane, lane_at, header.message_flag, &marks, send, 1, total)

    cdef Py_ssize_t _read_batch(
        self, SendHeader *header, const char *body, Py_ssize_t body_bytes, Lane lane, int32_t lane_at, Send *sends,
        Py_ssize_t room, Py_ssize_t *total,
    ) except -1:
        """A batch's messages; 0, with nothing added, for one that is not plain."""
        cdef Py_ssize_t at = 0, stop, count = 0, item_bytes, properties_at, properties_bytes, added = 0
        cdef Py_ssize_t keys_before = self._keys, cluster_bytes, shared_bytes
        cdef const char *item
        cdef char *shared
        cdef char *stored
        cdef bint wait = True, ignored
        cdef Marks marks, common
        if body_bytes > self._message_bytes_max:
            return 0
        shared_bytes = header.properties.size
        shared = self._take_room(shared_bytes + 1)
        if header.properties.escaped:
            shared_bytes = unescape(&header.properties, shared)
        else:
            memcpy(shared, header.properties.at, shared_bytes)
        while shared_bytes > 0 and shared[0] == PROPERTY_END:
            shared += 1
            shared_bytes -= 1
        while shared_bytes > 0 and shared[shared_bytes - 1] == PROPERTY_END:
            shared_bytes -= 1
        if shared_bytes < 0 or not self._find_marks(shared, shared_bytes, &common, &wait):
            return 0
        cluster_bytes = PyBytes_GET_SIZE(self._cluster)
        while at < body_bytes:
            item = body + at
            if count == room or body_bytes - at < ITEM_BYTES + 2:
                break
            item_bytes = <int32_t> get32(item + 16)
            properties_at = ITEM_BYTES + item_bytes + 2
            if item_bytes < 0 or properties_at > body_bytes - at:
                break
            properties_bytes = (<uint8_t> item[properties_at - 2] << 8) | <uint8_t> item[properties_at - 1]
            if (
                properties_bytes > PROPERTIES_BYTES_MAX
                or properties_bytes > body_bytes - at - properties_at
                or properties_at + properties_bytes != <int32_t> get32(item)
            ):
                break
            stop = at + properties_at + properties_bytes
            item += properties_at
            while properties_bytes and item[properties_bytes - 1] == PROPERTY_END:
                properties_bytes -= 1
            if not self._find_marks(item, properties_bytes, &marks, &ignored):
                break
            override(&marks, &common)
            if self._room_used + properties_bytes + shared_bytes + 1 + cluster_bytes > self._room_bytes:
                break
            stored = self._take_room(properties_bytes + shared_bytes + 1 + cluster_bytes)
            memcpy(stored, item, properties_bytes)
            sends[count].properties = stored
            stored += properties_bytes
            if shared_bytes:
                stored[0] = PROPERTY_END
                memcpy(stored + 1, shared, shared_bytes)
                stored += shared_bytes + 1
            memcpy(stored, PyBytes_AS_STRING(self._cluster), cluster_bytes)
            sends[count].properties_bytes = stored + cluster_bytes - sends[count].properties
            sends[count].wait = wait
            item -= properties_at
            if not self._finish(header, item + ITEM_BYTES, item_bytes, lane, lane_at, <int32_t> get32(item + 12), &marks,
                                sends + count, 0, &added):
                break
            count += 1
            at = stop  # only now: a last message that is not plain makes the whole batch so
        if at < body_bytes or count == 0:
            self._keys = keys_before
            return 0
        sends[0].replies_for = <int32_t> count
        total[0] += added
        return count

    cdef Py_ssize_t _finish(
        self, SendHeader *header, const char *body, Py_ssize_t body_bytes, Lane lane, int32_t lane_at,
        int64_t message_flag, Marks *marks, Send *send, int32_t replies_for, Py_ssize_t *total,
    ) except -1:
        """The rest of a message whose properties are there; 0 if it is too large or its keys are unusual."""
        if header.sys_flag & TX_PREPARED or body_bytes > self._message_bytes_max:
            return 0
        if send.properties_bytes > PROPERTIES_BYTES_MAX:
            return 0
        send.keys = <int32_t> self._add_keys(lane.key_prefix, marks)
        if send.keys < 0:
            return 0
        send.body = body
        send.body_bytes = body_bytes
        send.size = HEAD_BYTES + body_bytes + PyBytes_GET_SIZE(lane.topic_part) + 2 + send.properties_bytes
        send.born_ms = header.born_ms
        send.tag_code = <int32_t> hash_on(0, marks.tags, marks.tags_bytes)
        send.opaque = header.opaque
        send.lane = lane_at
        send.message_flag = <int32_t> message_flag
        send.sys_flag = <int32_t> header.sys_flag & ~HOSTS_V6
        send.reconsumed = <int32_t> header.reconsumed
        send.replies_for = replies_for
        send.oneway = header.flag & FLAG_ONEWAY
        total[0] += send.size
        return 1

    # --- properties ----------------------------------------------------------------------------------------

    cdef Py_ssize_t _store_properties(
        self, const char *at, Py_ssize_t left, char *to, Marks *marks, bint *wait
    ) except -2:
        """Write a message's properties as they are stored; -1 if it is not plain.

        WAIT goes (it is between client and broker), empty ones go, the cluster's name comes: RocketMQ's rules.
        """
        cdef Py_ssize_t piece, name, value_bytes, written = 0, cluster_bytes
        cdef const char *stop
        cdef const char *value
        marks.tags_bytes = marks.keys_bytes = marks.uniq_key_bytes = 0
        while left > 0:
            stop = <const char *> memchr(at, PROPERTY_END, left)
            piece = stop - at if stop != NULL else left
            value = <const char *> memchr(at, NAME_END, piece)
            name = value - at if value != NULL else piece
            value_bytes = piece - name - 1
            if name > 0 and value_bytes > 0:
                if is_name(at, name, b"WAIT", 4):
                    if not read_flag(value + 1, value_bytes, wait):
                        return -1
                else:
                    if not self._note(at, name, value + 1, value_bytes, marks):
                        return -1
                    memcpy(to + written, at, piece)
                    written += piece
                    to[written] = PROPERTY_END
                    written += 1
            at += piece + 1
            left -= piece + 1
        cluster_bytes = PyBytes_GET_SIZE(self._cluster) - 1
        memcpy(to + written, PyBytes_AS_STRING(self._cluster) + 1, cluster_bytes)
        return written + cluster_bytes

    cdef bint _find_marks(self, const char *at, Py_ssize_t left, Marks *marks, bint *wait) except -1:
        """Look at properties of a batch, which are stored as they came; False if they are not plain."""
        cdef Py_ssize_t piece, name, value_bytes
        cdef const char *stop
        cdef const char *value
        marks.tags_bytes = marks.keys_bytes = marks.uniq_key_bytes = 0
        while left > 0:
            stop = <const char *> memchr(at, PROPERTY_END, left)
            piece = stop - at if stop != NULL else left
            value = <const char *> memchr(at, NAME_END, piece)
            if value != NULL:
                name = value - at
                value_bytes = piece - name - 1
                if is_name(at, name, b"WAIT", 4):
                    if value_bytes > 0 and not read_flag(value + 1, value_bytes, wait):
                        return False
                elif value_bytes > 0 and not self._note(at, name, value + 1, value_bytes, marks):
                    return False
            at += piece + 1
            left -= piece + 1
        return True

    cdef bint _note(
        self, const char *at, Py_ssize_t name, const char *value, Py_ssize_t value_bytes, Marks *marks
    ) except -1:
        """Remember a property that queues and index want; False if some feature wants it or it is unusual."""
        if is_name(at, name, b"UNIQ_KEY", 8):
            marks.uniq_key = value
            marks.uniq_key_bytes = value_bytes
        elif is_name(at, name, b"KEYS", 4):
            marks.keys = value
            marks.keys_bytes = value_bytes
        elif is_name(at, name, b"TAGS", 4):
            marks.tags = value
            marks.tags_bytes = value_bytes
        else:
            if self._claim_lengths >> min(name, 63) & 1:
                return PyUnicode_DecodeUTF8(at, name, "replace") not in self._claims
            return True
        return is_ascii(value, value_bytes)

    cdef Py_ssize_t _add_keys(self, uint32_t prefix, Marks *marks) except -2:
        """Hash the client's id, then each of the keys; how many there are."""
        cdef Py_ssize_t before = self._keys, left = marks.keys_bytes, word
        cdef const char *at = marks.keys
        cdef const char *stop
        if marks.uniq_key_bytes:
            self._add_key(hash_on(prefix, marks.uniq_key, marks.uniq_key_bytes))
        while left > 0:
            stop = <const char *> memchr(at, b" ", left)
            word = stop - at if stop != NULL else left
            if word:
                self._add_key(hash_on(prefix, at, word))
            at += word + 1
            left -= word + 1
        return self._keys - before

    cdef int _add_key(self, uint32_t value) except -1:
        cdef uint32_t *more
        if self._keys == self._hashes_room:
            more = <uint32_t *> realloc(self._hashes, 2 * self._hashes_room * sizeof(uint32_t))
            if more == NULL:
                raise MemoryError
            self._hashes = more
            self._hashes_room *= 2
        self._hashes[self._keys] = without_sign(value)
        self._keys += 1
        return 0

    cdef bint _make_room(self, Py_ssize_t data_bytes) except -1:
        """Room for the stored properties of every message `data_bytes` may hold, so that none ever moves.

        False if the run has messages already and would have to move, or has so many that a large batch may not fit.
        """
        cdef Py_ssize_t size = 2 * (self._data_bytes + data_bytes)
        cdef char *more
        size += SENDS_MAX * (PyBytes_GET_SIZE(self._cluster) + SHARED_BYTES_MAX + 2)
        if self._count and (size > self._room_bytes or self._count > SENDS_MAX // 2):
            return False
        if size > self._room_bytes:
            more = <char *> realloc(self._room, size)
            if more == NULL:
                raise MemoryError
            self._room = more
            self._room_bytes = size
        return True

    cdef char *_take_room(self, Py_ssize_t size) except NULL:
        cdef char *at = self._room + self._room_used
        self._room_used += size
        assert self._room_used <= self._room_bytes
        return at

    # --- writing -------------------------------------------------------------------------------------------

    cdef int _write(
        self, int64_t first, list lanes, Py_ssize_t count, Py_ssize_t total, int64_t store_ms
    ) except -1:
        """Write the records to the log, then their entries to the queues. OSError with nothing changed."""
        cdef char *to
        cdef Send *send
        cdef Lane lane
        cdef Py_ssize_t i
        cdef int64_t log_offset = first
        if total > self._records_room:
            to = <char *> realloc(self._records, total)
            if to == NULL:
                raise MemoryError
            self._records = to
            self._records_room = total
        to = self._records
        prefetch_queues(lanes)
        for i in range(count):
            send = self._sends + i
            lane = <Lane> lanes[send.lane]
            if lane.run != self._runs:
                lane.run = self._runs
                lane.next_offset = lane.queue.max_offset
            send.log_offset = log_offset
            send.queue_offset = lane.next_offset
            lane.next_offset += 1
            self._write_record(to, send, lane, store_ms)
            to += send.size
            log_offset += send.size
        self._put(first, total)
        for i in range(count):
            send = self._sends + i
            (<Lane> lanes[send.lane]).queue.add(send.log_offset, <int32_t> send.size, send.tag_code)
        return 0

    cdef int _put(self, int64_t first, Py_ssize_t total) except -1:
        cdef int fd = self._log.fd
        cdef int64_t at = first - <int64_t> self._log.base
        cdef Py_ssize_t done = 0
        cdef ssize_t written
        while done < total:
            written = pwrite(fd, self._records + done, total - done, at + done)
            if written >= 0:
                done += written
            elif errno != EINTR:
                self._log.write(first, PyBytes_FromStringAndSize(self._records, total))  # it words the error
                return 0
        return 0

    cdef void _write_record(self, char *to, Send *send, Lane lane, int64_t store_ms) noexcept:
        cdef Py_ssize_t topic_bytes = PyBytes_GET_SIZE(lane.topic_part)
        put32(to, <uint32_t> send.size)
        put32(to + 4, MAGIC)
        put32(to + 8, crc32_of(send.body, send.body_bytes) & 0x7FFFFFFF)
        put32(to + 12, <uint32_t> lane.queue_id)
        put32(to + 16, <uint32_t> send.message_flag)
        put64(to + 20, <uint64_t> send.queue_offset)
        put64(to + 28, <uint64_t> send.log_offset)
        put32(to + 36, <uint32_t> send.sys_flag)
        put64(to + 40, <uint64_t> send.born_ms)
        memcpy(to + 48, send.born_host, 8)
        put64(to + 56, <uint64_t> store_ms)
        memcpy(to + 64, PyBytes_AS_STRING(self._store_host), 8)
        put32(to + 72, <uint32_t> send.reconsumed)
        put64(to + 76, 0)
        put32(to + 84, <uint32_t> send.body_bytes)
        to += HEAD_BYTES
        memcpy(to, send.body, send.body_bytes)
        to += send.body_bytes
        memcpy(to, PyBytes_AS_STRING(lane.topic_part), topic_bytes)
        to += topic_bytes
        to[0] = <char> (send.properties_bytes >> 8)
        to[1] = <char> (send.properties_bytes & 0xFF)
        memcpy(to + 2, send.properties, send.properties_bytes)

    cdef tuple _columns(self, Py_ssize_t count, int64_t store_ms):
        """Hash, log offset and store time of every key, as the index takes them."""
        cdef bytes hashes = PyBytes_FromStringAndSize(<char *> self._hashes, self._keys * sizeof(uint32_t))
        cdef bytes offsets = PyBytes_FromStringAndSize(NULL, self._keys * sizeof(int64_t))
        cdef bytes times = PyBytes_FromStringAndSize(NULL, self._keys * sizeof(int64_t))
        cdef int64_t *offset = <int64_t *> PyBytes_AS_STRING(offsets)
        cdef int64_t *time = <int64_t *> PyBytes_AS_STRING(times)
        cdef Py_ssize_t i, key
        for i in range(count):
            for key in range(self._sends[i].keys):
                offset[0] = self._sends[i].log_offset
                time[0] = store_ms
                offset += 1
                time += 1
        return hashes, offsets, times

    cdef int _tell(self, list lanes) except -1:
        """Let those know who wait for messages in these queues, and write out tails that are long enough."""
        cdef Lane lane
        cdef list awaited = [listening for listening in self._listeners if listening[0]]
        for item in lanes:
            lane = <Lane> item
            if lane.next_offset < 0:
                continue  # told already
            lane.next_offset = -1
            if lane.queue.max_offset > lane.queue._due:
                lane.queue._write_out_due()
            for queues, listener in awaited:
                if lane.key in queues:
                    listener(lane.topic, lane.queue_id, lane.queue.max_offset)
        return 0

    # --- answering -----------------------------------------------------------------------------------------

    cdef bytes _replies(self, list lanes, Py_ssize_t start, Py_ssize_t end, bint waits):
        """The replies that wait for nothing; None if there are none."""
        cdef Py_ssize_t size = 0, fixed = self._reply_bytes(self._pieces), i
        cdef bytes frames
        cdef Send *send
        cdef char *to
        for i in range(start, end):
            send = self._sends + i
            if send.replies_for and not send.oneway and not (waits and send.wait):
                size += fixed + send.replies_for * self._id_bytes
        if not size:
            return None
        frames = PyBytes_FromStringAndSize(NULL, size)
        to = PyBytes_AS_STRING(frames)
        for i in range(start, end):
            send = self._sends + i
            if send.replies_for and not send.oneway and not (waits and send.wait):
                to = self._put_reply(to, self._pieces, send, (<Lane> lanes[send.lane]).queue_id)
        return frames[: to - PyBytes_AS_STRING(frames)]

    cdef Py_ssize_t _reply_bytes(self, tuple pieces) except -1:
        """More than a reply has, its message ids left out."""
        cdef Py_ssize_t size = FRAME_PREFIX_BYTES + 3 * DECIMAL_BYTES_MAX
        for piece in pieces:
            size += PyBytes_GET_SIZE(piece)
        return size

    cdef char *_put_reply(self, char *frame, tuple pieces, Send *send, int32_t queue_id) noexcept:
        cdef char *to = put_bytes(frame + FRAME_PREFIX_BYTES, <bytes> pieces[0])
        cdef Py_ssize_t i
        to += put_decimal(to, send.opaque)
        to = put_bytes(to, <bytes> pieces[1])
        for i in range(send.replies_for):
            if i:
                to[0] = b","
                to = put_bytes(to + 1, self._id_start)
            to = put_hex(to, <uint64_t> send[i].log_offset)
        to = put_bytes(to, <bytes> pieces[2])
        to += put_decimal(to, queue_id)
        to = put_bytes(to, <bytes> pieces[3])
        to += put_decimal(to, send.queue_offset)
        to = put_bytes(to, <bytes> pieces[4])
        put32(frame, <uint32_t> (to - frame - 4))
        put32(frame + 4, <uint32_t> (to - frame - 8))
        return to

    cdef list _later(self, list lanes, Py_ssize_t start, Py_ssize_t end):
        """What the replies that wait will say: (opaque, queue id, queue offset, log offsets) each."""
        cdef list rows = []
        cdef Send *send
        cdef Py_ssize_t i, at
        for i in range(start, end):
            send = self._sends + i
            if send.replies_for and not send.oneway and send.wait:
                offsets = [send[at].log_offset for at in range(send.replies_for)]
                rows.append((send.opaque, (<Lane> lanes[send.lane]).queue_id, send.queue_offset, offsets))
        return rows

    def replies(self, list rows not None, tuple pieces not None):
        """The frames of `take`'s later replies, with the fixed parts of whatever they are answered with."""
        cdef Py_ssize_t size = 0, fixed = self._reply_bytes(pieces), most = 1, i
        cdef bytes frames
        cdef char *to
        cdef Send *sends
        for row in rows:
            size += fixed + len(row[3]) * self._id_bytes
            most = max(most, len(row[3]))
        frames = PyBytes_FromStringAndSize(NULL, size)
        to = PyBytes_AS_STRING(frames)
        sends = <Send *> malloc(most * sizeof(Send))
        if sends == NULL:
            raise MemoryError
        try:
            for opaque, queue_id, queue_offset, offsets in rows:
                sends[0].opaque = opaque
                sends[0].queue_offset = queue_offset
                sends[0].replies_for = <int32_t> len(offsets)
                for i in range(sends[0].replies_for):
                    sends[i].log_offset = offsets[i]
                to = self._put_reply(to, pieces, sends, queue_id)
        finally:
            free(sends)
        return frames[: to - PyBytes_AS_STRING(frames)]
