# cython: language_level=3
"""What of `kernel.py` every pull asks, without ctypes: the twin of `kernel_plain.py`, which says what it does."""

import mmap

cdef extern from "<sys/mman.h>":
    int madvise(void *address, size_t length, int advice)

cdef enum:
    POPULATE_READ = 22  # Linux 5.14

cdef Py_ssize_t page_bytes = mmap.PAGESIZE


def can_read(Py_ssize_t address, Py_ssize_t start, Py_ssize_t end):
    start &= -page_bytes
    return madvise(<void *> (address + start), end - start, POPULATE_READ) == 0
