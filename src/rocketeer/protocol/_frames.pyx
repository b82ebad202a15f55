# cython: language_level=3, boundscheck=False, wraparound=False
"""Cuts whole frames off the front of bytes, fills large ones, compiled: the twins of what `frame.py` has."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcpy

from rocketeer.record._bytes cimport get32

cdef extern from "<sys/mman.h>" nogil:
    int madvise(void *address, size_t size, int advice)
    int MADV_DONTNEED

cdef enum:
    PAGE = 4096


def split_frames(bytes data not None, Py_ssize_t limit):
    cdef const char *at = PyBytes_AS_STRING(data)
    cdef Py_ssize_t start = 0, end = PyBytes_GET_SIZE(data), size, header_bytes, stop
    cdef list frames = []
    while end - start >= 8:
        size = <int32_t> get32(at + start)
        header_bytes = get32(at + start + 4) & 0xFFFFFF
        stop = start + 4 + size
        if size < 4 or size + 4 > limit or header_bytes > size - 4 or <uint8_t> at[start + 4] > 1 or stop > end:
            break
        frames.append(
            (
                <int> <uint8_t> at[start + 4],
                PyBytes_FromStringAndSize(at + start + 8, header_bytes),
                PyBytes_FromStringAndSize(at + start + 8 + header_bytes, size - 4 - header_bytes),
            )
        )
        start = stop
    return frames, start


cdef class Filling:
    """As `frame.FillingPlain`, without a copy at the end: the bytes are made at once and filled in their place."""

    cdef bytes _whole
    cdef Py_ssize_t _filled

    def __init__(self, Py_ssize_t size):
        if size < 0:
            raise ValueError(size)
        self._whole = PyBytes_FromStringAndSize(NULL, size)
        self._filled = 0

    def fill(self, bytes data not None, Py_ssize_t start):
        cdef Py_ssize_t size
        if start < 0 or start > PyBytes_GET_SIZE(data):
            raise ValueError(start)
        size = min(PyBytes_GET_SIZE(data) - start, PyBytes_GET_SIZE(self._whole) - self._filled)
        memcpy(PyBytes_AS_STRING(self._whole) + self._filled, PyBytes_AS_STRING(data) + start, size)
        self._filled += size
        return start + size

    def release(self, Py_ssize_t start, Py_ssize_t end):
        cdef char *at = PyBytes_AS_STRING(self._whole)
        cdef size_t first = (<size_t> (at + max(start, 0)) + PAGE - 1) // PAGE * PAGE
        cdef size_t last = <size_t> (at + min(end, self._filled)) // PAGE * PAGE
        if first < last:
            madvise(<void *> first, last - first, MADV_DONTNEED)

    def whole(self):
        return self._whole if self._filled == PyBytes_GET_SIZE(self._whole) else None
