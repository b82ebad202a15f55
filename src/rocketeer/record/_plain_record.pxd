"""The record that most are: whole, in its place, IPv4 hosts. Taken apart for the compiled modules, inline."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from rocketeer.record cimport _layout
from rocketeer.record._bytes cimport get16, get32, get64
from rocketeer.record._layout cimport HEAD_BYTES, TAIL_BYTES

cdef extern from "_crc32.h":
    uint32_t crc32_of(const char *data, size_t size) nogil


cdef struct PlainRecord:
    const char *start
    Py_ssize_t size
    Py_ssize_t body_bytes
    const char *topic
    Py_ssize_t topic_bytes
    const char *properties
    Py_ssize_t properties_bytes
    uint32_t sys_flag


cdef inline bint take_apart(
    const char *start, Py_ssize_t left, int64_t log_offset, PlainRecord *record
) noexcept nogil:
    """False if there is no whole record of which it says itself that it is at `log_offset`. Bodies: `has_its_body`."""
    cdef Py_ssize_t size, body_bytes, topic_bytes, properties_bytes, tail
    if left < HEAD_BYTES + TAIL_BYTES:
        return False
    size = <int32_t> get32(start)
    record.sys_flag = get32(start + _layout.SYS_FLAG_AT)
    if (
        get32(start + _layout.MAGIC_AT) != _layout.MAGIC
        or size < HEAD_BYTES + TAIL_BYTES
        or size > left
        or record.sys_flag & _layout.HOSTS_V6
        or <int64_t> get64(start + _layout.LOG_OFFSET_AT) != log_offset
    ):
        return False
    body_bytes = <int32_t> get32(start + _layout.BODY_BYTES_AT)
    if body_bytes < 0 or body_bytes > size - HEAD_BYTES - TAIL_BYTES:
        return False
    tail = HEAD_BYTES + body_bytes
    topic_bytes = <uint8_t> start[tail]
    if topic_bytes > _layout.TOPIC_BYTES_MAX or tail + topic_bytes + TAIL_BYTES > size:
        return False
    properties_bytes = get16(start + tail + topic_bytes + 1)
    if tail + topic_bytes + TAIL_BYTES + properties_bytes != size:
        return False
    record.start = start
    record.size = size
    record.body_bytes = body_bytes
    record.topic = start + tail + 1
    record.topic_bytes = topic_bytes
    record.properties = start + size - properties_bytes
    record.properties_bytes = properties_bytes
    return True


cdef inline bint has_its_body(const PlainRecord *record) noexcept nogil:
    """Whether the body is the one whose checksum the record has."""
    return record.body_bytes == 0 or (
        crc32_of(record.start + HEAD_BYTES, record.body_bytes) & _layout.BODY_CRC_MASK
    ) == get32(record.start + _layout.BODY_CRC_AT)
