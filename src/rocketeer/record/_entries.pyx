# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The loop of a slave, compiled: from log bytes to dispatch entries. `entry.entry_at` says what an entry is.

Only plain records, one behind the other; at whatever is rare or wrong it stops, and `entry_at` decides.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp

from isal.isal_zlib import crc32

from rocketeer.model.topic import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.java_hash import tag_hash

cdef enum:
    HEAD_BYTES = 88
    TAIL_BYTES = 3  # length of the topic, of the properties
    HOSTS_V6 = 0x30
    TOPIC_BYTES_MAX = 127
    TOPICS_MAX = 10_000  # remembered
    MAGIC = 0xDAA320A7
    NAME_END = 1
    PROPERTY_END = 2

cdef object new_entry = tuple.__new__
cdef dict topics = {}
"""Text by bytes; None for topics whose entries are made in another way."""


cdef inline uint32_t get32(const char *data) noexcept nogil:
    cdef const uint8_t *at = <const uint8_t *> data
    return (<uint32_t> at[0] << 24) | (<uint32_t> at[1] << 16) | (<uint32_t> at[2] << 8) | at[3]


cdef inline uint64_t get64(const char *data) noexcept nogil:
    return (<uint64_t> get32(data) << 32) | get32(data + 4)


cdef inline bint is_name(const char *at, Py_ssize_t size, const char *name, Py_ssize_t name_size) noexcept nogil:
    return size == name_size and memcmp(at, name, size) == 0


cdef object hash_of(const char *value, Py_ssize_t size):
    cdef uint32_t result = 0
    cdef Py_ssize_t i
    for i in range(size):
        if <uint8_t> value[i] >= 0x80:
            return tag_hash(PyUnicode_DecodeUTF8(value, size, "replace"))
        result = 31 * result + <uint8_t> value[i]
    return <int32_t> result


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
    if text in (SCHEDULE_TOPIC, TIMER_TOPIC):
        text = None
    if len(topics) >= TOPICS_MAX:
        topics.clear()
    topics[raw] = text
    return text


def plain_entries(object buf not None, Py_ssize_t start, int64_t base):
    """Entries of the plain records of `buf` from `start` on, and where the first that is none begins.

    `base` is the log offset of the buffer's first byte; a record must stand where it says.
    """
    cdef Py_buffer view
    cdef list entries = []
    cdef Py_ssize_t at = start, size
    cdef object entry
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        whole = memoryview(buf)
        while view.len - at >= HEAD_BYTES + TAIL_BYTES:
            entry = plain_entry(<const char *> view.buf + at, view.len - at, whole, at, base + at, &size)
            if entry is None:
                break
            entries.append(entry)
            at += size
    finally:
        PyBuffer_Release(&view)
    return entries, at


cdef object plain_entry(
    const char *record, Py_ssize_t left, object whole, Py_ssize_t at, int64_t log_offset, Py_ssize_t *size_out
):
    cdef Py_ssize_t size = <int32_t> get32(record), body_bytes, topic_bytes, properties_bytes, tail
    cdef uint32_t sys_flag = get32(record + 36)
    if (
        get32(record + 4) != MAGIC
        or size < HEAD_BYTES + TAIL_BYTES
        or size > left
        or sys_flag & HOSTS_V6
        or <int64_t> get64(record + 28) != log_offset
    ):
        return None
    body_bytes = <int32_t> get32(record + 84)
    if body_bytes < 0 or body_bytes > size - HEAD_BYTES - TAIL_BYTES:
        return None
    if body_bytes and (
        <uint32_t> crc32(whole[at + HEAD_BYTES : at + HEAD_BYTES + body_bytes]) & 0x7FFFFFFF
    ) != get32(record + 8):
        return None
    tail = HEAD_BYTES + body_bytes
    topic_bytes = <uint8_t> record[tail]
    if topic_bytes > TOPIC_BYTES_MAX or tail + topic_bytes + TAIL_BYTES > size:
        return None
    properties_bytes = (<uint8_t> record[tail + topic_bytes + 1] << 8) | <uint8_t> record[tail + topic_bytes + 2]
    if tail + topic_bytes + TAIL_BYTES + properties_bytes != size:
        return None
    topic = topic_text(record + tail + 1, topic_bytes)
    if topic is None:
        return None
    tag_code, keys, uniq_key = marks(record + size - properties_bytes, properties_bytes)
    size_out[0] = size
    return new_entry(
        DispatchEntry,
        (
            log_offset,
            size,
            topic,
            <int32_t> get32(record + 12),
            <int64_t> get64(record + 20),
            tag_code,
            <int64_t> get64(record + 56),
            keys,
            uniq_key,
            <int32_t> sys_flag,
            <int64_t> get64(record + 76),
        ),
    )


cdef tuple marks(const char *at, Py_ssize_t left):
    """Tag code, keys and UNIQ_KEY, as `speed_plain.find_marks` finds them."""
    cdef Py_ssize_t piece, name, value_bytes
    cdef const char *stop
    cdef const char *value
    cdef object tag_code = 0, keys = "", uniq_key = None
    while left > 0:
        stop = <const char *> memchr(at, PROPERTY_END, left)
        piece = stop - at if stop != NULL else left
        value = <const char *> memchr(at, NAME_END, piece)
        if value != NULL:
            name = value - at
            value += 1
            value_bytes = piece - name - 1
            if value_bytes > 0:
                if is_name(at, name, b"TAGS", 4):
                    tag_code = hash_of(value, value_bytes)
                elif is_name(at, name, b"KEYS", 4):
                    keys = PyUnicode_DecodeUTF8(value, value_bytes, "replace")
                elif is_name(at, name, b"UNIQ_KEY", 8):
                    uniq_key = PyUnicode_DecodeUTF8(value, value_bytes, "replace")
        at += piece + 1
        left -= piece + 1
    return tag_code, keys, uniq_key
