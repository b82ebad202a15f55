# cython: language_level=3, boundscheck=False, wraparound=False
"""The record of a plain send: the compiled form of `record.layout.encode_pending`, for IPv4 hosts."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from rocketeer.engine._send cimport Send
from rocketeer.record._bytes cimport put32, put64
from rocketeer.record cimport _layout
from rocketeer.record._plain_record cimport crc32_of


cdef void write_record(
    char *to, Send *send, int32_t queue_id, bytes topic_part, bytes store_host, int64_t store_ms
) noexcept:
    """`topic_part` is the topic with its length in front."""
    cdef Py_ssize_t topic_bytes = PyBytes_GET_SIZE(topic_part)
    put32(to + _layout.SIZE_AT, <uint32_t> send.size)
    put32(to + _layout.MAGIC_AT, _layout.MAGIC)
    put32(to + _layout.BODY_CRC_AT, crc32_of(send.body, send.body_bytes) & _layout.BODY_CRC_MASK)
    put32(to + _layout.QUEUE_ID_AT, <uint32_t> queue_id)
    put32(to + _layout.FLAG_AT, <uint32_t> send.message_flag)
    put64(to + _layout.QUEUE_OFFSET_AT, <uint64_t> send.queue_offset)
    put64(to + _layout.LOG_OFFSET_AT, <uint64_t> send.log_offset)
    put32(to + _layout.SYS_FLAG_AT, <uint32_t> send.sys_flag)
    put64(to + _layout.BORN_MS_AT, <uint64_t> send.born_ms)
    memcpy(to + _layout.BORN_HOST_AT, send.born_host, _layout.HOST_BYTES)
    put64(to + _layout.STORE_MS_AT, <uint64_t> store_ms)
    memcpy(to + _layout.STORE_HOST_AT, PyBytes_AS_STRING(store_host), _layout.HOST_BYTES)
    put32(to + _layout.RECONSUME_TIMES_AT, <uint32_t> send.reconsume_times)
    put64(to + _layout.PREPARED_OFFSET_AT, 0)
    put32(to + _layout.BODY_BYTES_AT, <uint32_t> send.body_bytes)
    to += _layout.HEAD_BYTES
    memcpy(to, send.body, send.body_bytes)
    to += send.body_bytes
    memcpy(to, PyBytes_AS_STRING(topic_part), topic_bytes)
    to += topic_bytes
    to[0] = <char> (send.properties_bytes >> 8)
    to[1] = <char> (send.properties_bytes & 0xFF)
    memcpy(to + 2, send.properties, send.properties_bytes)
