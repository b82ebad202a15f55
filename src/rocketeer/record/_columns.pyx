# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Columns of many records, compiled: twins of the functions in `columns_plain.py`, which say what they do."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdlib cimport free, realloc

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy

from rocketeer.record._plain_record cimport whole_size
from rocketeer.record._property_text cimport Property, next_property

cdef class GrowableBuffer:
    """Memory that becomes more when it is needed."""

    cdef char *at
    cdef Py_ssize_t room

    def __dealloc__(self):
        free(self.at)

    cdef int hold(self, Py_ssize_t size) except -1:
        cdef char *more
        if size > self.room:
            more = <char *> realloc(self.at, size + size // 2)
            if more == NULL:
                raise MemoryError
            self.at = more
            self.room = size + size // 2
        return 0


def step_through(buf, Py_ssize_t start, Py_ssize_t end):
    cdef Py_buffer view
    cdef GrowableBuffer found = GrowableBuffer()
    cdef Py_ssize_t at = start, count = 0
    cdef Py_ssize_t size
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        end = min(end, view.len)
        found.hold(((end - at) // 512 + 64) * 8)
        while True:
            size = whole_size(<const char *> view.buf + at, end - at)
            if not size:
                break
            if (count + 1) * 8 > found.room:
                found.hold((count + 1) * 8)
            (<int64_t *> found.at)[count] = at
            count += 1
            at += size
        return PyBytes_FromStringAndSize(found.at, count * 8), at
    finally:
        PyBuffer_Release(&view)


def gather(const uint8_t[::1] data, const int64_t[::1] begin, const int64_t[::1] end):
    cdef Py_ssize_t count = begin.shape[0], i
    cdef int64_t total = 0, size
    cdef bytes ends = PyBytes_FromStringAndSize(NULL, 4 * (count + 1))
    cdef int32_t *end_at = <int32_t *> PyBytes_AS_STRING(ends)
    cdef bytes values
    cdef char *to
    for i in range(count):
        if begin[i] < 0 or end[i] < begin[i] or end[i] > data.shape[0]:
            raise ValueError(f"span {i} is [{begin[i]}, {end[i]}) in {data.shape[0]} bytes")
        total += end[i] - begin[i]
    if total > 0x7FFFFFFF:
        raise OverflowError(f"{total} bytes in one column")
    values = PyBytes_FromStringAndSize(NULL, total)
    to = PyBytes_AS_STRING(values)
    total = 0
    end_at[0] = 0
    for i in range(count):
        size = end[i] - begin[i]
        memcpy(to + total, &data[0] + begin[i], size)
        total += size
        end_at[i + 1] = <int32_t> total
    return ends, values


def find_property(
    const uint8_t[::1] data, const int64_t[::1] begin, const int64_t[::1] end, bytes name,
    int64_t[::1] value_begin, int64_t[::1] value_end,
):
    cdef Py_ssize_t count = begin.shape[0], i, length = len(name), missing = 0
    cdef const char *wanted = PyBytes_AS_STRING(name)
    cdef const char *base
    cdef const char *at
    cdef Property piece
    if not count:
        return 0
    base = <const char *> &data[0]
    for i in range(count):
        value_begin[i] = value_end[i] = -1
        at = base + begin[i]
        while next_property(&at, base + end[i], &piece):
            if piece.name_bytes == length and memcmp(piece.name, wanted, length) == 0:
                value_begin[i] = piece.value - base
                value_end[i] = value_begin[i] + piece.value_bytes
        missing += value_begin[i] < 0
    return missing


cdef bint is_repeated(const Property *pieces, Py_ssize_t at, Py_ssize_t stop) noexcept nogil:
    """Whether a later piece of the record has the same name."""
    cdef Py_ssize_t other
    for other in range(at + 1, stop):
        if (
            pieces[other].name_bytes == pieces[at].name_bytes
            and memcmp(pieces[other].name, pieces[at].name, pieces[at].name_bytes) == 0
        ):
            return True
    return False


def split_properties(const uint8_t[::1] data, const int64_t[::1] begin, const int64_t[::1] end):
    cdef GrowableBuffer held = GrowableBuffer()
    cdef Py_ssize_t count = begin.shape[0], first, found = 0, kept, i, j
    cdef int64_t name_bytes = 0, value_bytes = 0
    cdef bytes starts = PyBytes_FromStringAndSize(NULL, 4 * (count + 1))
    cdef int32_t *start_at = <int32_t *> PyBytes_AS_STRING(starts)
    cdef const char *base = NULL
    cdef const char *at
    cdef Property *pieces
    cdef bytes name_ends, names, value_ends, values
    cdef int32_t *name_end
    cdef int32_t *value_end
    cdef char *to_name
    cdef char *to_value
    start_at[0] = 0
    if count:
        base = <const char *> &data[0]
    held.hold(count * 8 * sizeof(Property))
    for i in range(count):
        at = base + begin[i]
        first = found
        while True:
            if (found + 1) * <Py_ssize_t> sizeof(Property) > held.room:
                held.hold((found + 1) * sizeof(Property))
            pieces = <Property *> held.at
            if not next_property(&at, base + end[i], pieces + found):
                break
            found += 1
        kept = first
        for j in range(first, found):
            if not is_repeated(pieces, j, found):
                name_bytes += pieces[j].name_bytes
                value_bytes += pieces[j].value_bytes
                if kept != j:
                    pieces[kept] = pieces[j]
                kept += 1
        found = kept
        start_at[i + 1] = <int32_t> found
    pieces = <Property *> held.at
    name_ends = PyBytes_FromStringAndSize(NULL, 4 * (found + 1))
    value_ends = PyBytes_FromStringAndSize(NULL, 4 * (found + 1))
    names = PyBytes_FromStringAndSize(NULL, name_bytes)
    values = PyBytes_FromStringAndSize(NULL, value_bytes)
    name_end = <int32_t *> PyBytes_AS_STRING(name_ends)
    value_end = <int32_t *> PyBytes_AS_STRING(value_ends)
    to_name = PyBytes_AS_STRING(names)
    to_value = PyBytes_AS_STRING(values)
    name_end[0] = value_end[0] = 0
    for i in range(found):
        memcpy(to_name + name_end[i], pieces[i].name, pieces[i].name_bytes)
        memcpy(to_value + value_end[i], pieces[i].value, pieces[i].value_bytes)
        name_end[i + 1] = name_end[i] + <int32_t> pieces[i].name_bytes
        value_end[i + 1] = value_end[i] + <int32_t> pieces[i].value_bytes
    return starts, (name_ends, names), (value_ends, values)
