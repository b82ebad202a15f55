# cython: language_level=3, boundscheck=False, wraparound=False
"""Consume-queue entries in bulk, compiled: the twins of `queue_entries_plain.py`, which says what each one does."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from rocketeer.record._bytes cimport get32, get64, prefetch, put32, put64
from rocketeer.record._layout cimport (
    ENTRY_SIZE_AT, ENTRY_TAG_CODE_AT, HEAD_BYTES, LOG_OFFSET_AT, MAGIC, MAGIC_AT, QUEUE_ENTRY_BYTES, QUEUE_ID_AT,
    QUEUE_OFFSET_AT, SIZE_AT,
)
from rocketeer.store._key_columns cimport key_prefix

cdef class QueueEnds:
    pass


cdef class QueueTail:
    def __cinit__(self, *args, **kwargs):
        self._ends = QueueEnds()  # never None: `put` does not look

    def put(self, int64_t queue_offset, int64_t log_offset, int32_t size, int64_t tag_code):
        """Add the next entry; False if the queue has that offset already (dispatch may repeat itself)."""
        if queue_offset != self.max_offset and not self._move_to(queue_offset):
            return False
        self.add(log_offset, size, tag_code)
        self.write_out_if_due()
        return True

    cdef int add(self, int64_t log_offset, int32_t size, int64_t tag_code) except -1:
        cdef Py_ssize_t used = PyByteArray_GET_SIZE(self._tail)
        cdef char *to
        PyByteArray_Resize(self._tail, used + QUEUE_ENTRY_BYTES)
        to = PyByteArray_AS_STRING(self._tail) + used
        put64(to, <uint64_t> log_offset)
        put32(to + ENTRY_SIZE_AT, <uint32_t> size)
        put64(to + ENTRY_TAG_CODE_AT, <uint64_t> tag_code)
        self.max_offset += 1
        self._ends.total += 1
        return 0

    cdef int take_back(self) except -1:
        """Remove the entry that was added last, before it went into a file."""
        PyByteArray_Resize(self._tail, PyByteArray_GET_SIZE(self._tail) - QUEUE_ENTRY_BYTES)
        self.max_offset -= 1
        self._ends.total -= 1
        return 0

    cdef int write_out_if_due(self) except -1:
        """After entries were added: a tail that is long enough goes into files."""
        if self.max_offset > self._due:
            self._write_out_due()
        return 0


cdef class QueueInRun:
    """A queue that messages in bulk are for: what all of its keys have in common, and where it is in their run."""

    def __init__(self, bytes topic not None, QueueTail queue not None):
        assert topic.isascii(), "no other is plain"
        self.queue = queue
        self.key_prefix = key_prefix(topic)
        self.run_number = -1


def run_bounds(bytes entries not None):
    """Of consume-queue entries: where in the log the first record begins, where the last ends, the bytes of all."""
    cdef const char *at = PyBytes_AS_STRING(entries)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(entries) // QUEUE_ENTRY_BYTES, i
    cdef int64_t total = 0
    if not count:
        raise ValueError("no entries")
    for i in range(count):
        total += <int32_t> get32(at + i * QUEUE_ENTRY_BYTES + ENTRY_SIZE_AT)
    at += (count - 1) * QUEUE_ENTRY_BYTES
    return (
        <int64_t> get64(PyBytes_AS_STRING(entries)),
        <int64_t> get64(at) + <int32_t> get32(at + ENTRY_SIZE_AT),
        total,
    )


cdef inline bint leads_to_record(
    const char *entry, const char *window, Py_ssize_t size, int64_t first, int64_t queue_offset, int32_t queue_id
) noexcept nogil:
    """Whether an entry leads to a record within the window: of its size, at its place, of that queue and offset."""
    cdef int64_t log_offset = <int64_t> get64(entry)
    cdef int64_t record_bytes = <int32_t> get32(entry + ENTRY_SIZE_AT)
    cdef const char *record
    if log_offset < first or record_bytes < HEAD_BYTES or log_offset - first > size - record_bytes:
        return False
    record = window + (log_offset - first)
    return (
        <int32_t> get32(record + SIZE_AT) == record_bytes
        and get32(record + MAGIC_AT) == <uint32_t> MAGIC
        and <int32_t> get32(record + QUEUE_ID_AT) == queue_id
        and <int64_t> get64(record + QUEUE_OFFSET_AT) == queue_offset
        and <int64_t> get64(record + LOG_OFFSET_AT) == log_offset
    )


def gather_records(window, bytes entries not None, int64_t first, int64_t total, int64_t queue_offset, int32_t queue_id):
    cdef const char *at = PyBytes_AS_STRING(entries)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(entries) // QUEUE_ENTRY_BYTES, i
    cdef int64_t size
    cdef Py_buffer source
    cdef bytes records
    cdef char *to
    if total < 0:  # a size in an entry was damaged
        return None
    records = PyBytes_FromStringAndSize(NULL, total)
    to = PyBytes_AS_STRING(records)
    PyObject_GetBuffer(window, &source, PyBUF_SIMPLE)
    try:
        for i in range(count):
            size = <int32_t> get32(at + ENTRY_SIZE_AT)
            if size > total or not leads_to_record(
                at, <const char *> source.buf, source.len, first, queue_offset + i, queue_id
            ):
                return None
            memcpy(to, <const char *> source.buf + (<int64_t> get64(at) - first), size)
            to += size
            total -= size
            at += QUEUE_ENTRY_BYTES
    finally:
        PyBuffer_Release(&source)
    return records if total == 0 else None


def entries_hold(window, bytes entries not None, int64_t first, int64_t queue_offset, int32_t queue_id):
    cdef const char *at = PyBytes_AS_STRING(entries)
    cdef int64_t place
    cdef Py_ssize_t count = PyBytes_GET_SIZE(entries) // QUEUE_ENTRY_BYTES, i
    cdef Py_buffer source
    PyObject_GetBuffer(window, &source, PyBUF_SIMPLE)
    try:
        for i in range(count):  # the heads come from memory side by side
            place = <int64_t> get64(at + i * QUEUE_ENTRY_BYTES)
            if first <= place < first + source.len:
                prefetch(<const char *> source.buf + (place - first))
        for i in range(count):
            if not leads_to_record(
                at + i * QUEUE_ENTRY_BYTES, <const char *> source.buf, source.len, first, queue_offset + i, queue_id
            ):
                return False
    finally:
        PyBuffer_Release(&source)
    return True
