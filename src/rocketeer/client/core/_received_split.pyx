# cython: language_level=3, boundscheck=False, wraparound=False
"""Cuts the body of a pull reply into messages, compiled: the twin of `received.split_plain`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t

from rocketeer.record._bytes cimport get32, get64
from rocketeer.record._layout cimport HEAD_BYTES, LOG_OFFSET_AT, MAGIC, MAGIC_AT, QUEUE_OFFSET_AT, SIZE_AT, TAIL_BYTES


def split(bytes body not None, object make, object queue, object namespace, object min_offset, object max_offset):
    """The messages at the front of `body`, made by `make`, and where they end: behind it is no record."""
    cdef const char *data = PyBytes_AS_STRING(body)
    cdef Py_ssize_t at = 0, end = PyBytes_GET_SIZE(body)
    cdef int32_t size
    cdef list found = []
    while end - at >= LOG_OFFSET_AT:  # up to the queue offset
        size = <int32_t> get32(data + at + SIZE_AT)
        if get32(data + at + MAGIC_AT) != MAGIC or size < HEAD_BYTES + TAIL_BYTES or size > end - at:
            break
        found.append(
            make(
                PyBytes_FromStringAndSize(data + at, size),
                queue,
                <int64_t> get64(data + at + QUEUE_OFFSET_AT),
                size,
                namespace,
                min_offset,
                max_offset,
            )
        )
        at += size
    return found, at
