# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The loop of `touching.py`, without the interpreter lock: nobody ever waits for this thread to let go of it."""

from libc.stdint cimport int64_t

cdef extern from "<fcntl.h>" nogil:
    int posix_fadvise(int fd, int64_t offset, int64_t length, int advice)
    int POSIX_FADV_WILLNEED

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef enum:
    PIECE_BYTES = 16 << 10  # the kernel looks for others to run only between two calls


def touch(int fd, int64_t base, int64_t start, int64_t end, const int64_t[::1] orders):
    """Bring log offsets [start, end) of the file that begins at `base` into memory; where it stopped.

    `orders`: whether to stop, and where the writer is; what lies behind the writer is left out.
    """
    with nogil:
        while start < end and not orders[0]:
            if start < orders[1]:
                start = orders[1] - orders[1] % PIECE_BYTES
            if posix_fadvise(fd, start - base, min(<int64_t> PIECE_BYTES, end - start), POSIX_FADV_WILLNEED):
                break
            start += PIECE_BYTES
            sched_yield()
    return start
