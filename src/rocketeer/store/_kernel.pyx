# cython: language_level=3
"""What of `kernel.py` every pull and every send asks: the twin of `kernel_plain.py`, which says what it does."""

import mmap
import os

from libc.errno cimport EINTR, errno

cdef extern from "<sys/mman.h>":
    int madvise(void *address, size_t length, int advice)

cdef extern from "unistd.h":
    ssize_t pwrite(int fd, const void *data, size_t size, long long at)

cdef enum:
    POPULATE_READ = 22  # Linux 5.14

cdef Py_ssize_t page_bytes = mmap.PAGESIZE


def can_read(Py_ssize_t address, Py_ssize_t start, Py_ssize_t end):
    start &= -page_bytes
    return madvise(<void *> (address + start), end - start, POPULATE_READ) == 0


def write_at(int fd, const unsigned char[::1] data, long long at):
    cdef Py_ssize_t size = data.shape[0], done = 0
    cdef ssize_t written
    while done < size:
        written = pwrite(fd, &data[done], size - done, at + done)
        if written >= 0:
            done += written
        elif errno != EINTR:
            raise OSError(errno, os.strerror(errno))
