# cython: language_level=3
"""What of `kernel.py` every pull and every send asks: the twin of `kernel_plain.py`, which says what it does."""

import mmap
import os

from libc.errno cimport EINTR, EIO, errno

cdef extern from "<sys/mman.h>":
    int madvise(void *address, size_t length, int advice)

cdef extern from "unistd.h":
    ssize_t pwrite(int fd, const void *data, size_t size, long long at) nogil

cdef enum:
    POPULATE_READ = 22  # Linux 5.14
    SHORT_BYTES = 64 << 10

cdef Py_ssize_t page_bytes = mmap.PAGESIZE


def can_read(Py_ssize_t address, Py_ssize_t start, Py_ssize_t end):
    start &= -page_bytes
    return madvise(<void *> (address + start), end - start, POPULATE_READ) == 0


def write_at(int fd, const unsigned char[::1] data, long long at):
    cdef Py_ssize_t size = data.shape[0], done = 0
    cdef const unsigned char *left
    cdef ssize_t written
    cdef int error
    while done < size:
        left = &data[done]
        if size - done <= SHORT_BYTES:
            written = pwrite(fd, left, size - done, at + done)
        else:
            with nogil:
                written = pwrite(fd, left, size - done, at + done)
        if written > 0:
            done += written
        elif written == 0 or errno != EINTR:
            error = errno if written else EIO
            raise OSError(error, os.strerror(error))
