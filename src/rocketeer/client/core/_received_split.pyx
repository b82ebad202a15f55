# cython: language_level=3, boundscheck=False, wraparound=False
"""Cuts the body of a pull reply into messages, compiled: the twin of `received_split_plain.py`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t

from rocketeer.record._bytes cimport get64
from rocketeer.record._layout cimport QUEUE_OFFSET_AT
from rocketeer.record._plain_record cimport whole_size


def split(bytes body not None, object make, object queue, object namespace, object min_offset, object max_offset):
    """The messages at the front of `body`, made by `make`, and where they end: behind it is no record."""
    cdef const char *data = PyBytes_AS_STRING(body)
    cdef Py_ssize_t at = 0, end = PyBytes_GET_SIZE(body)
    cdef Py_ssize_t size
    cdef list found = []
    while True:
        size = whole_size(data + at, end - at)
        if not size:
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
