"""The front of a frame, for compiled code: `frame_layout.py` has the layout."""

from libc.stdint cimport int32_t, uint8_t

from rocketeer.record._bytes cimport get32

cdef enum:
    FRAME_PREFIX_BYTES = 8
    JSON = 0
    ROCKETMQ = 1


cdef struct FrameHead:
    Py_ssize_t frame_bytes  # with the length field itself
    Py_ssize_t header_bytes
    Py_ssize_t body_bytes
    int kind


cdef inline bint read_frame_head(const char *at, Py_ssize_t left, FrameHead *head) noexcept nogil:
    """Whether a whole frame is at the front of so many bytes, and its lengths agree."""
    cdef Py_ssize_t size
    if left < FRAME_PREFIX_BYTES:
        return False
    size = <int32_t> get32(at)
    head.kind = <uint8_t> at[4]
    head.header_bytes = get32(at + 4) & 0xFFFFFF
    head.body_bytes = size - 4 - head.header_bytes
    head.frame_bytes = size + 4
    return size >= 4 and size <= left - 4 and head.body_bytes >= 0
