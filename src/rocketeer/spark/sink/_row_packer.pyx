# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Rows into batches without a Python object for a row: byte for byte what `RowEncoder` and `RequestBatcher` make.

Only of rows that are as most are: `pack` stops at any other, which then goes the general way.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE, _PyBytes_Resize
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcpy, memset

from rocketeer.record._blake2b cimport blake2b_hash, blake2b_key, blake2b_set_key, swapped
from rocketeer.record._bytes cimport put32, put_bytes
from rocketeer.record._layout cimport (
    ITEM_BODY_BYTES_AT, ITEM_BYTES, ITEM_MAGIC_AT, NAME_END, PROPERTIES_BYTES_MAX, PROPERTY_END,
)

cdef enum:
    ID_BYTES = 16
    HASHED_BYTES_MAX = 1024  # of a topic and an id
    ROOM_MIN = 65536
    COUNTER_DIGITS = 4

cdef bytes TAGS = b"\x02TAGS\x01"
cdef bytes KEYS = b"\x02KEYS\x01"
cdef bytes DEDUP_ID = b"\x02DEDUP_ID\x01"
cdef bytes UNIQ_KEY = b"\x02UNIQ_KEY\x01"
cdef const char *HEX = b"0123456789abcdef"
cdef const char *UPPER_HEX = b"0123456789ABCDEF"

cdef extern from *:
    """
    static PyObject *new_bytes(Py_ssize_t size) { return PyBytes_FromStringAndSize(NULL, size); }
    """
    PyObject *new_bytes(Py_ssize_t size) except NULL


cdef class BytesColumn:
    """A column of texts or bytes in Arrow's layout: offsets, data and, if there are nulls, a bit for each value."""

    cdef const uint8_t[::1] _offsets
    cdef const uint8_t[::1] _data
    cdef const uint8_t[::1] _valid
    cdef Py_ssize_t _first
    cdef Py_ssize_t _count
    cdef bint _wide
    cdef bint _nulls

    def __init__(self, offsets, data, valid, Py_ssize_t first, Py_ssize_t count, bint wide):
        assert first >= 0 and count >= 0
        self._offsets, self._data = offsets, data
        self._nulls = valid is not None
        if self._nulls:
            self._valid = valid
            assert 8 * self._valid.shape[0] >= first + count
        assert self._offsets.shape[0] >= (first + count + 1) * (8 if wide else 4)
        self._first, self._count, self._wide = first, count, wide

    cdef bint get(self, Py_ssize_t at, const char **value, Py_ssize_t *size) except -1:
        """Where a value is; False for null."""
        cdef int64_t start, end
        assert 0 <= at < self._count
        at += self._first
        if self._nulls and not self._valid[at >> 3] >> (at & 7) & 1:
            return False
        if self._wide:
            start, end = (<const int64_t *> &self._offsets[0])[at], (<const int64_t *> &self._offsets[0])[at + 1]
        else:
            start, end = (<const int32_t *> &self._offsets[0])[at], (<const int32_t *> &self._offsets[0])[at + 1]
        assert 0 <= start <= end <= self._data.shape[0]
        value[0] = <const char *> &self._data[0] + start if end > start else NULL
        size[0] = end - start
        return True


cdef bint has_separator(const char *at, Py_ssize_t size) noexcept nogil:
    if not size:
        return False
    return memchr(at, NAME_END, size) != NULL or memchr(at, PROPERTY_END, size) != NULL


cdef char *put_property(char *to, bytes name, const char *value, Py_ssize_t size) noexcept:
    to = put_bytes(to, name)
    if size:
        memcpy(to, value, size)
    return to + size


cdef char *put_digest(char *to, const uint64_t *words) noexcept nogil:
    """In hexadecimal; the words are little-endian."""
    cdef Py_ssize_t i
    cdef uint8_t byte
    for i in range(ID_BYTES):
        byte = words[i >> 3] >> 8 * (i & 7) & 0xFF
        to[2 * i] = HEX[byte >> 4]
        to[2 * i + 1] = HEX[byte & 15]
    return to + 2 * ID_BYTES


cdef char *put_counter(char *to, uint64_t counter) noexcept nogil:
    """The end of a UNIQ_KEY: 16 bits."""
    cdef int i
    for i in range(COUNTER_DIGITS):
        to[i] = UPPER_HEX[counter >> 4 * (COUNTER_DIGITS - 1 - i) & 15]
    return to + COUNTER_DIGITS


cdef struct OpenBatch:
    PyObject *body  # bytes, written in place: nobody else has them before they are closed
    Py_ssize_t room
    Py_ssize_t used


cdef class RowPacker:
    """`pack` adds rows to the open batches of their queues; `full` are those that are closed: (queue, body, rows)."""

    cdef OpenBatch *_open
    cdef list _rows  # of each open batch
    cdef readonly list full
    cdef Py_ssize_t _queues
    cdef object _index
    cdef bytes _producer
    cdef bytes _topic
    cdef Py_ssize_t _batch_bytes
    cdef Py_ssize_t _batch_rows
    cdef Py_ssize_t _message_bytes_max
    cdef blake2b_key _digest

    def __init__(
        self, *, bytes topic not None, bytes producer, Py_ssize_t queues, index, Py_ssize_t batch_bytes,
        Py_ssize_t batch_rows, Py_ssize_t message_bytes_max,
    ):
        """`producer`: its property, if rows have ids, which choose among `queues`: by `index`, or in turn if None."""
        assert queues > 0
        self._queues = queues
        self._index = index
        self._producer = None if producer is None else b"\x02" + producer
        self._topic = topic + b"\0"
        self._batch_bytes = batch_bytes
        self._batch_rows = batch_rows
        self._message_bytes_max = message_bytes_max
        self._rows = [[] for _ in range(queues)]
        self.full = []
        blake2b_set_key(&self._digest, <const uint8_t *> b"", 0, ID_BYTES)
        self._open = <OpenBatch *> realloc(NULL, queues * sizeof(OpenBatch))
        if self._open == NULL:
            raise MemoryError
        for at in range(queues):
            self._open[at].body = NULL
            self._open[at].room = self._open[at].used = 0

    def __dealloc__(self):
        if self._open != NULL:
            for at in range(self._queues):
                Py_XDECREF(self._open[at].body)
            free(self._open)

    def pack(
        self, Py_ssize_t at, Py_ssize_t end, Py_ssize_t first_row, BytesColumn bodies not None, BytesColumn tags,
        BytesColumn keys, BytesColumn ids, bytes uniq_prefix not None, list counters not None,
    ):
        """Add rows from `at` on; where it stopped: at `end`, or at a row that is not as most are.

        Row 0 of the columns is row `first_row` of the partition. A row's UNIQ_KEY is the prefix and its counter.
        """
        assert len(counters) >= end
        while at < end:
            if not self._add(at, first_row + at, bodies, tags, keys, ids, uniq_prefix, counters[at]):
                break
            at += 1
        return at

    def flush(self):
        """Close all batches."""
        for queue in range(self._queues):
            if self._open[queue].used:
                self._close(queue)

    cdef bint _add(
        self, Py_ssize_t at, Py_ssize_t row, BytesColumn bodies, BytesColumn tags, BytesColumn keys,
        BytesColumn ids, bytes uniq_prefix, uint64_t counter,
    ) except -1:
        cdef const char *body
        cdef const char *tag = NULL
        cdef const char *key = NULL
        cdef Py_ssize_t body_bytes, tag_bytes = 0, key_bytes = 0, uniq_bytes, size, properties_bytes
        cdef uint64_t digest[8]
        cdef Py_ssize_t queue = 0
        cdef OpenBatch *batch
        cdef list rows
        cdef char *to
        cdef char *start
        if not bodies.get(at, &body, &body_bytes) or not 0 < body_bytes <= self._message_bytes_max:
            return False
        if tags is not None:
            tags.get(at, &tag, &tag_bytes)
        if keys is not None:
            keys.get(at, &key, &key_bytes)
        if has_separator(tag, tag_bytes) or has_separator(key, key_bytes):
            return False
        if ids is not None:
            if not self._hash_id(ids, at, digest):
                return False
            queue = self._queue_of(digest)
        uniq_bytes = PyBytes_GET_SIZE(uniq_prefix) + COUNTER_DIGITS
        properties_bytes = PyBytes_GET_SIZE(UNIQ_KEY) + uniq_bytes - 1  # without a separator before the first
        if tag_bytes:
            properties_bytes += PyBytes_GET_SIZE(TAGS) + tag_bytes
        if key_bytes:
            properties_bytes += PyBytes_GET_SIZE(KEYS) + key_bytes
        if ids is not None:
            properties_bytes += PyBytes_GET_SIZE(self._producer) + PyBytes_GET_SIZE(DEDUP_ID) + 2 * ID_BYTES
        size = ITEM_BYTES + body_bytes + 2 + properties_bytes
        if properties_bytes > PROPERTIES_BYTES_MAX or size > self._batch_bytes:
            return False
        batch = self._open + queue
        rows = <list> self._rows[queue]
        if batch.used + size > self._batch_bytes or len(rows) >= self._batch_rows:
            self._close(queue)
            rows = <list> self._rows[queue]
        to = self._room(batch, size)
        put32(to, <int32_t> size)
        memset(to + ITEM_MAGIC_AT, 0, ITEM_BODY_BYTES_AT - ITEM_MAGIC_AT)  # magic, checksum and flag
        put32(to + ITEM_BODY_BYTES_AT, <int32_t> body_bytes)
        memcpy(to + ITEM_BYTES, body, body_bytes)
        to += ITEM_BYTES + body_bytes
        to[0] = <char> (properties_bytes >> 8)
        to[1] = <char> (properties_bytes & 0xFF)
        start = to + 1  # each property begins with its separator; the first one's gives way to the length
        to = start
        if tag_bytes:
            to = put_property(to, TAGS, tag, tag_bytes)
        if key_bytes:
            to = put_property(to, KEYS, key, key_bytes)
        if ids is not None:
            to = put_property(to, self._producer, NULL, 0)
            to = put_digest(put_property(to, DEDUP_ID, NULL, 0), digest)
        to = put_property(to, UNIQ_KEY, PyBytes_AS_STRING(uniq_prefix), PyBytes_GET_SIZE(uniq_prefix))
        to = put_counter(to, counter)
        assert to - start == properties_bytes + 1
        start[0] = <char> (properties_bytes & 0xFF)
        batch.used += size
        rows.append(row)
        return True

    cdef bint _hash_id(self, BytesColumn ids, Py_ssize_t at, uint64_t *digest) except -1:
        """What tells the row from all others; False if it has no id, or a very long one."""
        cdef char text[HASHED_BYTES_MAX]
        cdef const char *value
        cdef Py_ssize_t size, topic_bytes = PyBytes_GET_SIZE(self._topic)
        if not ids.get(at, &value, &size) or topic_bytes + size > HASHED_BYTES_MAX:
            return False
        memcpy(text, PyBytes_AS_STRING(self._topic), topic_bytes)
        if size:
            memcpy(text + topic_bytes, value, size)
        blake2b_hash(&self._digest, <const uint8_t *> text, topic_bytes + size, digest)
        return True

    cdef Py_ssize_t _queue_of(self, uint64_t *digest) except -1:
        cdef uint64_t hashed = swapped(digest[0])
        cdef Py_ssize_t queue
        if self._index is None:
            return hashed % <uint64_t> self._queues
        queue = self._index(hashed)
        assert 0 <= queue < self._queues
        return queue

    cdef char *_room(self, OpenBatch *batch, Py_ssize_t size) except NULL:
        """Where the next `size` bytes of the batch go."""
        if batch.body == NULL:
            # As large as the one before it, which was full.
            batch.room = max(batch.room, size, ROOM_MIN)
            batch.body = new_bytes(batch.room)
        elif size > batch.room - batch.used:
            batch.room = max(2 * batch.room, batch.used + size)
            _PyBytes_Resize(&batch.body, batch.room)
        return PyBytes_AS_STRING(<object> batch.body) + batch.used

    cdef int _close(self, Py_ssize_t queue) except -1:
        cdef OpenBatch *batch = self._open + queue
        _PyBytes_Resize(&batch.body, batch.used)
        self.full.append((queue, <object> batch.body, self._rows[queue]))
        Py_XDECREF(batch.body)
        batch.body = NULL
        batch.used = 0
        self._rows[queue] = []
        return 0
