# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The walk over records, compiled: the twin of `walk_plain.walk_piece`, which says what it does.

What is rare (keys and tags that are not UTF-8, timers, why a walk ended) is handed to the plain twin, record by record.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdlib cimport free, realloc

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcmp

from rocketeer.record cimport _layout
from rocketeer.record._bytes cimport get32, get64, hash_text, without_sign
from rocketeer.record._layout cimport TX_ROLLBACK
from rocketeer.record._plain_record cimport RecordParts, born_extra_bytes, has_its_body, take_any
from rocketeer.record._property_text cimport IndexedProperties, Property, clear_indexed_properties, next_property, note_indexed_property, take_key

from rocketeer.record import walk_plain

cdef enum:
    BAD_CRC = 1
    BAD_PLACE = 2
    RANGE = 0

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


cdef class RowBuffer:
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


cdef bint add_keys(RowBuffer found, IndexedProperties *indexed, uint32_t prefix) except -1:
    """A key for each; False when one is not UTF-8."""
    cdef const char *key
    cdef Py_ssize_t size
    cdef uint32_t value
    while take_key(indexed, &key, &size):
        value = prefix
        if not hash_text(key, size, &value):
            return False
        found.add_key(<int32_t> without_sign(value))
    return True


cdef int add_indexed_properties(
    RowBuffer found, Row *row, const char *properties, Py_ssize_t size, uint32_t prefix, int kind, object topics
) except -1:
    """Tag code, level and keys from the properties."""
    cdef const char *at = properties
    cdef Py_ssize_t before = found.key_count
    cdef Property each
    cdef IndexedProperties indexed
    cdef uint32_t tag = 0
    cdef bint plain = kind == 0
    if plain:
        clear_indexed_properties(&indexed)
        while next_property(&at, properties + size, &each):
            note_indexed_property(&each, &indexed)
        plain = hash_text(indexed.tags, indexed.tags_bytes, &tag) and (
            row.sys_flag & TX_ROLLBACK == TX_ROLLBACK or add_keys(found, &indexed, prefix)
        )
    if plain:
        row.tag_code = <int32_t> tag
        return 0
    found.key_count = before
    tag_code, level, hashes = walk_plain.derived_values(
        PyBytes_FromStringAndSize(properties, size), topics, row.topic, row.sys_flag
    )
    row.tag_code = tag_code
    row.level = level
    for one in hashes:
        found.add_key(one)
    return 0


def walk_piece(buf, Py_ssize_t start, Py_ssize_t stop, int64_t base, topics):
    cdef Py_buffer view
    cdef RowBuffer found = RowBuffer()
    cdef Py_ssize_t at, passed
    why, reason = RANGE, ""
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        at = walk_bytes(found, <const char *> view.buf, view.len, start, stop, base, topics)
        while at < stop:  # the plain twin says what is wrong there
            rows, _, _, why, reason = walk_plain.walk_piece(buf, at, at + 1, base, topics)
            if not rows:
                break
            # Nothing, by now: it may be memory of a file to which somebody is writing just this record.
            passed = walk_bytes(found, <const char *> view.buf, view.len, at, stop, base, topics)
            assert passed > at, "the twins agree"
            at = passed
            why, reason = RANGE, ""
    finally:
        PyBuffer_Release(&view)
    return (
        PyBytes_FromStringAndSize(<char *> found.rows, found.row_count * sizeof(Row)),
        PyBytes_FromStringAndSize(<char *> found.keys, found.key_count * sizeof(Key)),
        at,
        why,
        reason,
    )


cdef Py_ssize_t walk_bytes(
    RowBuffer found, const char *data, Py_ssize_t end, Py_ssize_t start, Py_ssize_t stop, int64_t base, object topics
) except -1:
    """A row for each record; where the first begins that is none, or that begins at or behind `stop`."""
    cdef Row *row
    cdef RecordParts record
    cdef Py_ssize_t at = start, known_bytes = -1
    cdef uint32_t prefix = 0
    cdef int32_t number = 0
    cdef int kind = 0
    cdef const char *known = NULL
    while at < stop and take_any(data + at, end - at, &record):
        if record.topic_bytes != known_bytes or memcmp(known, record.topic, record.topic_bytes) != 0:
            try:
                number = topics.number(PyBytes_FromStringAndSize(record.topic, record.topic_bytes))
            except UnicodeDecodeError:
                break
            prefix = topics.prefix_hashes[number]
            kind = topics.kinds[number]
            known = record.topic
            known_bytes = record.topic_bytes
        row = found.add_row()
        row.at = at
        row.queue_offset = <int64_t> get64(record.start + _layout.QUEUE_OFFSET_AT)
        row.store_ms = <int64_t> get64(record.start + _layout.STORE_MS_AT + born_extra_bytes(&record))
        row.tag_code = 0
        row.size = <int32_t> record.size
        row.queue_id = <int32_t> get32(record.start + _layout.QUEUE_ID_AT)
        row.sys_flag = <int32_t> record.sys_flag
        row.topic = number
        row.level = 0
        row.faults = 0 if has_its_body(&record) else BAD_CRC
        if <int64_t> get64(record.start + _layout.LOG_OFFSET_AT) != base + at:
            row.faults |= BAD_PLACE
        add_indexed_properties(found, row, record.properties, record.properties_bytes, prefix, kind, topics)
        at += record.size
    return at
