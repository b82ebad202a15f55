# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""From log bytes to dispatch entries, compiled. `entry.entry_at` says what an entry is.

Only plain records, one behind the other; at whatever is rare or wrong it stops, and `entry_at` decides.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint32_t

from rocketeer.record cimport _layout
from rocketeer.record._bytes cimport get32, get64, hash_text
from rocketeer.record._plain_record cimport RecordParts, has_its_body, take_apart
from rocketeer.record._property_text cimport IndexedProperties, Property, clear_indexed_properties, next_property, note_indexed_property

from rocketeer.model.topic import WAITING_TOPICS
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.java_hash import tag_hash

cdef enum:
    TOPICS_MAX = 10_000  # remembered

cdef object new_entry = tuple.__new__
cdef dict topics = {}
"""Text by bytes; None for topics whose entries are made in another way."""


cdef object hash_of(const char *value, Py_ssize_t size):
    """tag_hash of UTF-8 bytes."""
    cdef uint32_t result = 0
    if hash_text(value, size, &result):
        return <int32_t> result
    return tag_hash(PyUnicode_DecodeUTF8(value, size, "replace"))


cdef object topic_text(const char *at, Py_ssize_t size):
    """None for the topics that are not plain."""
    cdef bytes raw = PyBytes_FromStringAndSize(at, size)
    try:
        return topics[raw]
    except KeyError:
        pass
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    if text in WAITING_TOPICS:
        text = None
    if len(topics) >= TOPICS_MAX:
        topics.clear()
    topics[raw] = text
    return text


def plain_entries(object buf not None, Py_ssize_t start, int64_t base, int64_t count=1 << 62):
    """Entries of up to `count` plain records of `buf` from `start` on, and where the first that is none begins.

    `base` is the log offset of the buffer's first byte; a record must stand where it says.
    """
    cdef Py_buffer view
    cdef list entries = []
    cdef Py_ssize_t at = start, size = 0
    cdef object entry
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        while count > len(entries):
            entry = plain_entry(<const char *> view.buf + at, view.len - at, base + at, &size)
            if entry is None:
                break
            entries.append(entry)
            at += size
    finally:
        PyBuffer_Release(&view)
    return entries, at


cdef object plain_entry(
    const char *start, Py_ssize_t left, int64_t log_offset, Py_ssize_t *size_out
):
    cdef RecordParts record
    if not take_apart(start, left, log_offset, &record) or not has_its_body(&record):
        return None
    topic = topic_text(record.topic, record.topic_bytes)
    if topic is None:
        return None
    tag_code, keys, uniq_key = indexed(record.properties, record.properties_bytes)
    size_out[0] = record.size
    return new_entry(
        DispatchEntry,
        (
            log_offset,
            record.size,
            topic,
            <int32_t> get32(start + _layout.QUEUE_ID_AT),
            <int64_t> get64(start + _layout.QUEUE_OFFSET_AT),
            tag_code,
            <int64_t> get64(start + _layout.STORE_MS_AT),
            keys,
            uniq_key,
            <int32_t> record.sys_flag,
            <int64_t> get64(start + _layout.PREPARED_OFFSET_AT),
            PyBytes_FromStringAndSize(record.properties, record.properties_bytes),
        ),
    )


cdef tuple indexed(const char *at, Py_ssize_t size):
    """Tag code, keys and UNIQ_KEY, as `find_indexed_properties` finds them."""
    cdef const char *end = at + size
    cdef Property found
    cdef IndexedProperties noted
    clear_indexed_properties(&noted)
    while next_property(&at, end, &found):
        note_indexed_property(&found, &noted)
    return (
        hash_of(noted.tags, noted.tags_bytes),
        PyUnicode_DecodeUTF8(noted.keys, noted.keys_bytes, "replace"),
        PyUnicode_DecodeUTF8(noted.uniq_key, noted.uniq_key_bytes, "replace") if noted.uniq_key_bytes else None,
    )
