# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Passing over records that nobody wants to see, compiled: the twin of `skip_plain.py`; `skip.py` says which those are."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memchr

from rocketeer.record cimport _layout
from rocketeer.record._bytes cimport get64
from rocketeer.record._plain_record cimport RecordParts, has_its_body, take_apart
from rocketeer.record._property_text cimport Property, is_among, lengths_of, next_property

cdef enum:
    TOPICS_MAX = 10_000  # remembered


cdef class Skipper:
    cdef object _is_wanted
    cdef dict _skipped
    cdef frozenset _properties
    cdef uint64_t _lengths
    cdef int64_t _boundary
    cdef readonly int64_t last_store_ms
    cdef readonly bint passed_boundary

    def __init__(self, wanted, int64_t boundary=-1):
        self._is_wanted = wanted.is_topic
        self._skipped = {}
        self._properties = frozenset(name.encode() for name in wanted.properties)
        self._lengths = lengths_of(self._properties)
        self._boundary = boundary

    def take(self, object buf not None, Py_ssize_t at, int64_t base, int64_t stop):
        cdef Py_buffer view
        cdef RecordParts record
        PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
        try:
            while (
                base + at < stop
                and 0 <= at <= view.len
                and take_apart(<const char *> view.buf + at, view.len - at, base + at, &record)
                and self._is_skipped(&record)
            ):
                at += record.size
                self.last_store_ms = <int64_t> get64(record.start + _layout.STORE_MS_AT)
                if base + at == self._boundary:
                    self.passed_boundary = True
        finally:
            PyBuffer_Release(&view)
        return at

    cdef bint _is_skipped(self, const RecordParts *record) except -1:
        cdef bytes topic
        if (
            record.sys_flag & _layout.TX_ROLLBACK  # any state of a transaction
            or get64(record.start + _layout.PREPARED_OFFSET_AT) != 0
            or memchr(record.properties, 0, record.properties_bytes) != NULL
            or not has_its_body(record)
        ):
            return False
        topic = PyBytes_FromStringAndSize(record.topic, record.topic_bytes)
        skipped = self._skipped.get(topic)
        if skipped is None:
            if len(self._skipped) >= TOPICS_MAX:
                self._skipped.clear()
            skipped = self._skipped[topic] = self._may_skip(topic)
        return skipped is True and not self._has_wanted(record.properties, record.properties_bytes)

    cdef object _may_skip(self, bytes topic):
        try:
            return not self._is_wanted(topic.decode())
        except UnicodeDecodeError:
            return False

    cdef bint _has_wanted(self, const char *at, Py_ssize_t size) except -1:
        cdef const char *end = at + size
        cdef Property found
        if not self._lengths:
            return False
        while next_property(&at, end, &found):
            if is_among(&found, self._properties, self._lengths):
                return True
        return False
