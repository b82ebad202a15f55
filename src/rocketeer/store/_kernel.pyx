# cython: language_level=3
"""What of `kernel.py` every pull asks, without ctypes."""

cdef extern from "<sys/mman.h>":
    int madvise(void *address, size_t length, int advice)

cdef enum:
    POPULATE_READ = 22  # Linux 5.14
    PAGE_BYTES = 4096


def can_read(Py_ssize_t address, Py_ssize_t start, Py_ssize_t end):
    start &= ~<Py_ssize_t> (PAGE_BYTES - 1)
    return madvise(<void *> (address + start), end - start, POPULATE_READ) == 0
