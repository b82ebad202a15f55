# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The walk over records, compiled: the twin of `walk_plain.walk_piece`, which says what it does.

What is rare (keys and tags that are not UTF-8, timers) is handed to the plain twin, record by record.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdlib cimport free, realloc

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

from rocketeer.record cimport _layout
from rocketeer.record._bytes cimport get16, get32, get64, hash_text, without_sign
from rocketeer.record._layout cimport TAIL_BYTES, TX_ROLLBACK
from rocketeer.record._property_text cimport Marks, Property, clear_marks, next_property, note_mark, take_key

from rocketeer.record import walk_plain

cdef extern from "_crc32.h":
    uint32_t crc32_of(const char *data, size_t size) nogil

cdef enum:
    BAD_CRC = 1
    BAD_PLACE = 2
    RANGE = 0
    BLANK = 1
    UNWRITTEN = 2
    BAD = 3

cdef packed struct Row:
    int64_t at
    int64_t queue_offset
    int64_t store_ms
    int64_t tag_code
    int32_t size
    int32_t queue_id
    int32_t sys_flag
    int32_t topic
    int32_t level
    int32_t faults

cdef packed struct Key:
    int32_t row
    int32_t hash


cdef class Rows:
    """What was found so far; grows."""
    cdef Row *rows
    cdef Key *keys
    cdef Py_ssize_t row_count, row_room, key_count, key_room

    def __dealloc__(self):
        free(self.rows)
        free(self.keys)

    cdef Row *add_row(self) except NULL:
        cdef Row *more
        if self.row_count == self.row_room:
            self.row_room = self.row_room * 2 + 1024
            more = <Row *> realloc(self.rows, self.row_room * sizeof(Row))
            if more == NULL:
                raise MemoryError
            self.rows = more
        self.row_count += 1
        return self.rows + self.row_count - 1

    cdef int add_key(self, int32_t hashed) except -1:
        cdef Key *more
        if self.key_count == self.key_room:
            self.key_room = self.key_room * 2 + 1024
            more = <Key *> realloc(self.keys, self.key_room * sizeof(Key))
            if more == NULL:
                raise MemoryError
            self.keys = more
        self.keys[self.key_count].row = <int32_t> self.row_count - 1
        self.keys[self.key_count].hash = hashed
        self.key_count += 1
        return 0


cdef bint add_keys(Rows found, Marks *marks, uint32_t prefix) except -1:
    """A key for each; False when one is not UTF-8."""
    cdef const char *key
    cdef Py_ssize_t size
    cdef uint32_t value
    while take_key(marks, &key, &size):
        value = prefix
        if not hash_text(key, size, &value):
            return False
        found.add_key(<int32_t> without_sign(value))
    return True


cdef int add_marks(
    Rows found, Row *row, const char *properties, Py_ssize_t size, uint32_t prefix, int kind, object topics
) except -1:
    """Tag code, level and keys from the properties."""
    cdef const char *at = properties
    cdef Py_ssize_t before = found.key_count
    cdef Property each
    cdef Marks marks
    cdef uint32_t tag = 0
    cdef bint plain = kind == 0
    if plain:
        clear_marks(&marks)
        while next_property(&at, properties + size, &each):
            note_mark(&each, &marks)
        plain = hash_text(marks.tags, marks.tags_bytes, &tag) and (
            row.sys_flag & TX_ROLLBACK == TX_ROLLBACK or add_keys(found, &marks, prefix)
        )
    if plain:
        row.tag_code = <int32_t> tag
        return 0
    found.key_count = before
    tag_code, level, hashes = walk_plain.marks(
        PyBytes_FromStringAndSize(properties, size), topics, row.topic, row.sys_flag
    )
    row.tag_code = tag_code
    row.level = level
    for one in hashes:
        found.add_key(one)
    return 0


def walk_piece(buf, Py_ssize_t start, Py_ssize_t stop, int64_t base, topics):
    cdef Py_buffer view
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        return walk_bytes(<const char *> view.buf, view.len, start, stop, base, topics)
    finally:
        PyBuffer_Release(&view)


cdef object walk_bytes(const char *data, Py_ssize_t end, Py_ssize_t start, Py_ssize_t stop, int64_t base, object topics):
    cdef Rows found = Rows()
    cdef Row *row
    cdef Py_ssize_t at = start, left, head, topic_bytes, known_bytes = -1, properties_bytes
    cdef int64_t size, body_bytes
    cdef uint32_t magic, prefix = 0
    cdef int32_t sys_flag, number = 0
    cdef int why = RANGE, kind = 0, born_extra
    cdef const char *record
    cdef const char *body
    cdef const char *tail
    cdef const char *known = NULL
    reason = ""
    while at < stop:
        left = end - at
        if left < _layout.BLANK_BYTES:
            why = UNWRITTEN
            break
        record = data + at
        size = <int32_t> get32(record)
        magic = get32(record + _layout.MAGIC_AT)
        if magic != _layout.MAGIC:
            if magic == _layout.BLANK_MAGIC:
                why = BLANK
            elif size == 0 and magic == 0:
                why = UNWRITTEN
            else:
                why = BAD
                reason = f"magic is {magic:#010x}"
            break
        if size < _layout.HEAD_BYTES + TAIL_BYTES or size > left:
            why = BAD
            reason = f"size is {size}, with {left} bytes left"
            break
        sys_flag = <int32_t> get32(record + _layout.SYS_FLAG_AT)
        born_extra = _layout.HOST_V6_EXTRA_BYTES if sys_flag & _layout.BORN_HOST_V6 else 0
        head = _layout.HEAD_BYTES + born_extra
        if sys_flag & _layout.STORE_HOST_V6:
            head += _layout.HOST_V6_EXTRA_BYTES
        body = record + head  # the last of the head is the body's length
        if size < head + TAIL_BYTES:
            why = BAD
            reason = f"size is {size}, too small for IPv6 hosts"
            break
        body_bytes = <int32_t> get32(body - 4)
        if body_bytes < 0 or body_bytes > size - head - TAIL_BYTES:
            why = BAD
            reason = f"body length is {body_bytes} in a record of {size} bytes"
            break
        tail = body + body_bytes
        topic_bytes = <uint8_t> tail[0]
        if topic_bytes > _layout.TOPIC_BYTES_MAX or head + body_bytes + TAIL_BYTES + topic_bytes > size:
            why = BAD
            reason = f"topic length is {topic_bytes}, with {size - head - body_bytes - TAIL_BYTES} bytes left"
            break
        properties_bytes = get16(tail + 1 + topic_bytes)
        if properties_bytes & 0x8000:
            properties_bytes -= 0x10000
        if head + body_bytes + TAIL_BYTES + topic_bytes + properties_bytes != size:
            why = BAD
            left = size - head - body_bytes - TAIL_BYTES - topic_bytes
            reason = f"properties length is {properties_bytes}, with {left} bytes left"
            break
        if topic_bytes != known_bytes or memcmp(known, tail + 1, topic_bytes) != 0:
            try:
                number = topics.number(PyBytes_FromStringAndSize(tail + 1, topic_bytes))
            except UnicodeDecodeError:
                why = BAD
                reason = f"topic {PyBytes_FromStringAndSize(tail + 1, topic_bytes)!r} is not UTF-8"
                break
            prefix = topics.prefix_hashes[number]
            kind = topics.kinds[number]
            known = tail + 1
            known_bytes = topic_bytes
        row = found.add_row()
        row.at = at
        row.queue_offset = <int64_t> get64(record + _layout.QUEUE_OFFSET_AT)
        row.store_ms = <int64_t> get64(record + _layout.STORE_MS_AT + born_extra)
        row.tag_code = 0
        row.size = <int32_t> size
        row.queue_id = <int32_t> get32(record + _layout.QUEUE_ID_AT)
        row.sys_flag = sys_flag
        row.topic = number
        row.level = 0
        row.faults = 0
        if body_bytes and (crc32_of(body, body_bytes) & _layout.BODY_CRC_MASK) != get32(record + _layout.BODY_CRC_AT):
            row.faults |= BAD_CRC
        if <int64_t> get64(record + _layout.LOG_OFFSET_AT) != base + at:
            row.faults |= BAD_PLACE
        add_marks(found, row, tail + 3 + topic_bytes, properties_bytes, prefix, kind, topics)
        at += size
    return (
        PyBytes_FromStringAndSize(<char *> found.rows, found.row_count * sizeof(Row)),
        PyBytes_FromStringAndSize(<char *> found.keys, found.key_count * sizeof(Key)),
        at,
        why,
        reason,
    )
