# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Runs an SQL92 program over stored records, compiled: the twin of `scan_plain.py` with `sql_compile`.

A record where anything is rare (a number in another script, a value for which Double.valueOf needs a closer look) is
handed to the plain function.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp

from rocketeer.record cimport _layout
from rocketeer.record._bytes cimport get16, get32, get64, is_name
from rocketeer.record._property_text cimport Property, next_property

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *text, char **end, void *overflow) except? -1.0

cdef enum:
    PUNT = 0
    ALWAYS = 1
    ALL = 2
    ANY = 3
    NOT = 4
    MISSING = 5
    CAST = 6
    ONE_OF = 7
    TEXT = 8
    INTEGER = 9
    DOUBLE = 10

cdef enum:  # truths, and what is none
    TRUE = 1
    FALSE = 0
    UNKNOWN = -1
    FAILED = -2
    RARE = -3

cdef enum:
    PROGRAM_NAMES_MAX = 32
    DOUBLE_BYTES_MAX = 63

cdef struct Span:
    const char *at
    Py_ssize_t size

cdef struct Node:
    int op
    int slot
    int order
    bint flag
    int missing
    int64_t number
    double double_
    int64_t low
    int64_t high
    int first  # of its texts or children
    int count


cdef int read_integer(Span text, int64_t low, int64_t high, int64_t *value) noexcept nogil:
    """TRUE, FAILED where Java throws, RARE where it has to be looked at closely."""
    cdef Py_ssize_t i = 0
    cdef bint negative = False
    cdef int64_t result = 0
    cdef uint8_t c
    if text.at[0] == b"-" or text.at[0] == b"+":
        negative = text.at[0] == b"-"
        i = 1
    if text.size - i > 18:
        return RARE
    if i == text.size:
        return FAILED
    while i < text.size:
        c = <uint8_t> text.at[i]
        if c >= 0x80:
            return RARE
        if c < 48 or c > 57:
            return FAILED
        result = result * 10 + (c - 48)
        i += 1
    if negative:
        result = -result
    if result < low or result > high:
        return FAILED
    value[0] = result
    return TRUE


cdef int read_double(Span text, double *value) except -99:
    """TRUE for plain decimal notation; RARE for everything else, valid or not."""
    cdef char copy[DOUBLE_BYTES_MAX + 1]
    cdef char *end
    cdef Py_ssize_t i
    cdef char c
    cdef bint digit = False
    if text.size > DOUBLE_BYTES_MAX:
        return RARE
    for i in range(text.size):
        c = text.at[i]
        if b"0" <= c <= b"9":
            digit = True
        elif c != b"." and c != b"+" and c != b"-" and c != b"e" and c != b"E":
            return RARE
        copy[i] = c
    if not digit:
        return RARE
    copy[text.size] = 0
    try:
        value[0] = PyOS_string_to_double(copy, &end, NULL)  # infinite when too large
    except ValueError:
        return RARE
    return TRUE if end == copy + text.size else RARE


cdef inline int ordered(int order, bint less, bint same) noexcept nogil:
    if order == 0:
        return less
    if order == 1:
        return less or same
    if order == 2:
        return not less and not same
    if order == 3:
        return not less
    return same


cdef bint holds_text(Span value, const char *search, Py_ssize_t size, int place) noexcept nogil:
    cdef const char *at = value.at
    cdef const char *stop
    if size > value.size:
        return False
    if place == 1:
        return memcmp(at, search, size) == 0
    if place == 2:
        return memcmp(at + value.size - size, search, size) == 0
    stop = at + value.size - size + 1
    while at < stop:
        at = <const char *> memchr(at, search[0], stop - at)
        if at == NULL:
            return False
        if memcmp(at, search, size) == 0:
            return True
        at += 1
    return False


cdef class Scanner:
    """One expression. `plain` is its function of property bytes, for what is rare."""

    cdef Node *nodes
    cdef int root
    cdef int *children
    cdef Span *texts
    cdef Span names[PROGRAM_NAMES_MAX]
    cdef Span values[PROGRAM_NAMES_MAX]
    cdef int slots
    cdef object plain
    cdef object kept  # the bytes that the spans point into

    def __cinit__(self, tuple names not None, tuple rows not None, object plain not None):
        cdef int place, texts = 0, children = 0
        self.plain = plain
        self.kept = (names, rows)
        self.slots = len(names)
        if self.slots > PROGRAM_NAMES_MAX:
            raise ValueError(f"{self.slots} properties: at most {PROGRAM_NAMES_MAX} fit")
        for place in range(self.slots):
            self.names[place] = span_of(names[place])
        self.nodes = <Node *> PyMem_Malloc(len(rows) * sizeof(Node))
        self.children = <int *> PyMem_Malloc((sum([len(row.children) for row in rows]) + 1) * sizeof(int))
        self.texts = <Span *> PyMem_Malloc((sum([len(row.texts) for row in rows]) + 1) * sizeof(Span))
        if self.nodes == NULL or self.children == NULL or self.texts == NULL:
            raise MemoryError
        for place, row in enumerate(rows):
            self.nodes[place].op = row.op
            self.nodes[place].slot = row.slot
            self.nodes[place].order = row.order
            self.nodes[place].flag = row.flag
            self.nodes[place].missing = row.missing
            self.nodes[place].number = row.number
            self.nodes[place].double_ = row.double
            self.nodes[place].low = row.low
            self.nodes[place].high = row.high
            self.nodes[place].count = len(row.texts) + len(row.children)
            self.nodes[place].first = texts if row.texts else children
            for text in row.texts:
                self.texts[texts] = span_of(text)
                texts += 1
            for child in row.children:
                self.children[children] = child
                children += 1
        self.root = len(rows) - 1

    def __dealloc__(self):
        PyMem_Free(self.nodes)
        PyMem_Free(self.children)
        PyMem_Free(self.texts)

    cdef void read_values(self, const char *at, Py_ssize_t size) noexcept nogil:
        """One pass over the properties; of two with one name the last counts, an empty one is none."""
        cdef const char *end = at + size
        cdef Property found
        cdef int slot
        for slot in range(self.slots):
            self.values[slot].at = NULL
        while next_property(&at, end, &found):
            for slot in range(self.slots):
                if is_name(found.name, found.name_bytes, self.names[slot].at, self.names[slot].size):
                    self.values[slot].at = found.value
                    self.values[slot].size = found.value_bytes
                    break

    cdef int evaluate(self, int place) except -99:
        cdef Node *node = &self.nodes[place]
        cdef Span value
        cdef int truth, result, i
        cdef int64_t number = 0
        cdef double double_ = 0.0
        if node.op == ALL or node.op == ANY:
            result = TRUE if node.op == ALL else FALSE
            for i in range(node.first, node.first + node.count):
                truth = self.evaluate(self.children[i])
                if truth < UNKNOWN:
                    return truth
                if truth == UNKNOWN:
                    result = UNKNOWN
                elif truth == (FALSE if node.op == ALL else TRUE):
                    return truth
            return result
        if node.op == NOT:
            truth = self.evaluate(self.children[node.first])
            return truth if truth < 0 else not truth
        if node.op == ALWAYS:
            return node.missing
        if node.op == PUNT:
            return RARE
        value = self.values[node.slot]
        if node.op == MISSING:
            return value.at == NULL
        if value.at == NULL:
            return node.missing
        if node.op == ONE_OF:
            for i in range(node.first, node.first + node.count):
                if self.texts[i].size == value.size and memcmp(self.texts[i].at, value.at, value.size) == 0:
                    return not node.flag
            return node.flag
        if node.op == INTEGER:
            truth = read_integer(value, node.low, node.high, &number)
            if truth != TRUE:
                return truth
            return ordered(node.order, number < node.number, number == node.number)
        if node.op == DOUBLE:
            truth = read_double(value, &double_)
            if truth != TRUE:
                return truth
            return ordered(node.order, double_ < node.double_, double_ == node.double_)
        if node.op == TEXT:
            return holds_text(value, self.texts[node.first].at, self.texts[node.first].size, node.order) != node.flag
        return FALSE  # CAST: a text is never true

    cdef bint test(self, const char *at, Py_ssize_t size) except -1:
        cdef int truth
        self.read_values(at, size)
        truth = self.evaluate(self.root)
        if truth == RARE:
            return self.plain(PyBytes_FromStringAndSize(at, size))
        return truth == TRUE

    def matches(self, bytes properties not None):
        return self.test(PyBytes_AS_STRING(properties), PyBytes_GET_SIZE(properties))

    def scan(self, bytes entries not None, log, int64_t base, int64_t count_max, int64_t bytes_max,
             int64_t record_cost, int64_t byte_cost, int64_t cost_max):
        """(how many entries were looked at, [(log offset, size)] of those that match).

        It ends, too, when what it looked at has cost `cost_max`: for each record and each byte of its properties.
        """
        cdef Py_buffer view
        PyObject_GetBuffer(log, &view, PyBUF_SIMPLE)
        try:
            return self.scan_bytes(entries, <const char *> view.buf, view.len, base, count_max, bytes_max,
                                   record_cost, byte_cost, cost_max)
        finally:
            PyBuffer_Release(&view)

    cdef tuple scan_bytes(
        self, bytes entries, const char *log, int64_t log_bytes, int64_t base, int64_t count_max, int64_t bytes_max,
        int64_t record_cost, int64_t byte_cost, int64_t cost_max,
    ):
        cdef const char *entry = PyBytes_AS_STRING(entries)
        cdef Py_ssize_t count = PyBytes_GET_SIZE(entries) // _layout.QUEUE_ENTRY_BYTES, i, looked_at = 0
        cdef int64_t offset, at, size, total = 0, found_count = 0, cost = 0
        cdef Span properties
        cdef list found = []
        for i in range(count):
            offset = <int64_t> get64(entry)
            size = <int32_t> get32(entry + _layout.ENTRY_SIZE_AT)
            entry += _layout.QUEUE_ENTRY_BYTES
            at = offset - base
            if at < 0 or size <= 0 or at + size > log_bytes:
                break
            if found_count and (found_count >= count_max or total + size > bytes_max):
                break
            if cost > cost_max:
                break
            looked_at += 1
            cost += record_cost
            if not find_properties(log + at, size, &properties):
                continue
            cost += properties.size * byte_cost
            if self.test(properties.at, properties.size):
                found.append((offset, size))
                found_count += 1
                total += size
        return looked_at, found


cdef bint find_properties(const char *record, int64_t size, Span *properties) noexcept nogil:
    """The properties of a record of `size` bytes; False if they would not lie within it."""
    cdef int64_t body_at = _layout.HEAD_BYTES, at
    cdef uint32_t sys_flag
    if size < _layout.HEAD_BYTES:
        return False
    sys_flag = get32(record + _layout.SYS_FLAG_AT)
    if sys_flag & _layout.BORN_HOST_V6:
        body_at += _layout.HOST_V6_EXTRA_BYTES
    if sys_flag & _layout.STORE_HOST_V6:
        body_at += _layout.HOST_V6_EXTRA_BYTES
    if size < body_at:
        return False
    at = body_at + <int64_t> get32(record + body_at - 4)  # behind the body, whose length ends the head
    if at >= size:
        return False
    at += 1 + <uint8_t> record[at]
    if at + 2 > size:
        return False
    properties.size = get16(record + at)
    properties.at = record + at + 2
    return properties.size <= _layout.PROPERTIES_BYTES_MAX and at + 2 + properties.size <= size


cdef Span span_of(bytes text):
    cdef Span span
    span.at = PyBytes_AS_STRING(text)
    span.size = PyBytes_GET_SIZE(text)
    return span
