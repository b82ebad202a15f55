# cython: language_level=3, boundscheck=False, wraparound=False
"""Cuts whole frames off the front of bytes, compiled: the twin of `frame.split_frames_plain`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t

from rocketeer.record._bytes cimport get32


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
