# cython: language_level=3, boundscheck=False, wraparound=False
"""Cuts whole frames off the front of bytes, fills large ones, compiled: the twins of `frames_plain.py`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

from rocketeer.protocol._frame_head cimport FRAME_PREFIX_BYTES, ROCKETMQ, FrameHead, read_frame_head

cdef extern from "<sys/mman.h>" nogil:
    int madvise(void *address, size_t size, int advice)
    int MADV_DONTNEED

cdef enum:
    PAGE = 4096


def split_frames(bytes data not None, Py_ssize_t limit):
    cdef const char *at = PyBytes_AS_STRING(data)
    cdef const char *header
    cdef Py_ssize_t start = 0, end = PyBytes_GET_SIZE(data)
    cdef FrameHead head
    cdef list frames = []
    while read_frame_head(at + start, end - start, &head) and head.frame_bytes <= limit and head.kind <= ROCKETMQ:
        header = at + start + FRAME_PREFIX_BYTES
        frames.append(
            (
                head.kind,
                PyBytes_FromStringAndSize(header, head.header_bytes),
                PyBytes_FromStringAndSize(header + head.header_bytes, head.body_bytes),
            )
        )
        start += head.frame_bytes
    return frames, start


cdef class PieceBuffer:
    """As the twin, without a copy at the end: the bytes are made at once and filled in their place."""

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
