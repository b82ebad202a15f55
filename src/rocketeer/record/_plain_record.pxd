"""A whole record, taken apart for the compiled modules, inline: any, and the one that most are."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from rocketeer.record cimport _layout
from rocketeer.record._bytes cimport get16, get32, get64
from rocketeer.record._layout cimport HEAD_BYTES, TAIL_BYTES

cdef extern from "_crc32.h":
    uint32_t crc32_of(const char *data, size_t size) nogil


cdef struct RecordParts:
    const char *start
    Py_ssize_t size
    const char *body
    Py_ssize_t body_bytes
    const char *topic
    Py_ssize_t topic_bytes
    const char *properties
    Py_ssize_t properties_bytes
    uint32_t sys_flag


cdef inline Py_ssize_t whole_size(const char *start, Py_ssize_t left) noexcept nogil:
    """The size that a record's head says; 0 if `left` bytes cannot begin with a whole record."""
    cdef Py_ssize_t size
    if left < HEAD_BYTES + TAIL_BYTES or get32(start + _layout.MAGIC_AT) != _layout.MAGIC:
        return 0
    size = <int32_t> get32(start + _layout.SIZE_AT)
    return size if HEAD_BYTES + TAIL_BYTES <= size <= left else 0


cdef inline bint take_any(const char *start, Py_ssize_t left, RecordParts *record) noexcept nogil:
    """False if there is no whole record: `layout.py` draws it. Whether it has its body is for `has_its_body` to say."""
    cdef Py_ssize_t size, head = HEAD_BYTES, body_bytes, topic_bytes, properties_bytes, tail
    size = whole_size(start, left)
    if not size:
        return False
    record.sys_flag = get32(start + _layout.SYS_FLAG_AT)
    if record.sys_flag & _layout.HOSTS_V6:
        head += born_extra_bytes(record)
        if record.sys_flag & _layout.STORE_HOST_V6:
            head += _layout.HOST_V6_EXTRA_BYTES
        if size < head + TAIL_BYTES:
            return False
    body_bytes = <int32_t> get32(start + head - 4)  # the last of the head
    if body_bytes < 0 or body_bytes > size - head - TAIL_BYTES:
        return False
    tail = head + body_bytes
    topic_bytes = <uint8_t> start[tail]
    if topic_bytes > _layout.TOPIC_BYTES_MAX or tail + topic_bytes + TAIL_BYTES > size:
        return False
    properties_bytes = get16(start + tail + topic_bytes + 1)
    if properties_bytes > _layout.PROPERTIES_BYTES_MAX or tail + topic_bytes + TAIL_BYTES + properties_bytes != size:
        return False
    record.start = start
    record.size = size
    record.body = start + head
    record.body_bytes = body_bytes
    record.topic = start + tail + 1
    record.topic_bytes = topic_bytes
    record.properties = start + size - properties_bytes
    record.properties_bytes = properties_bytes
    return True


cdef inline bint take_apart(
    const char *start, Py_ssize_t left, int64_t log_offset, RecordParts *record
) noexcept nogil:
    """As `take_any`, for the record that most are: with IPv4 hosts, and saying itself that it is at `log_offset`."""
    return (
        take_any(start, left, record)
        and not record.sys_flag & _layout.HOSTS_V6
        and <int64_t> get64(start + _layout.LOG_OFFSET_AT) == log_offset
    )


cdef inline Py_ssize_t born_extra_bytes(const RecordParts *record) noexcept nogil:
    """So far all moves that stands behind the born host."""
    return _layout.HOST_V6_EXTRA_BYTES if record.sys_flag & _layout.BORN_HOST_V6 else 0


cdef inline bint has_its_body(const RecordParts *record) noexcept nogil:
    """Whether the body is the one whose checksum the record has."""
    return record.body_bytes == 0 or (
        crc32_of(record.body, record.body_bytes) & _layout.BODY_CRC_MASK
    ) == get32(record.start + _layout.BODY_CRC_AT)
