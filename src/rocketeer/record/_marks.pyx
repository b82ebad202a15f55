# cython: language_level=3, boundscheck=False, wraparound=False
"""What queues and index want to know of stored properties, compiled: the twin of `marks_plain.py`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8

from rocketeer.record._bytes cimport is_name
from rocketeer.record._property_text cimport Marks, Property, clear_marks, next_property, note_mark


cdef inline object text(const char *at, Py_ssize_t size):
    return PyUnicode_DecodeUTF8(at, size, "replace")


def find_marks(bytes properties not None):
    cdef const char *at = PyBytes_AS_STRING(properties)
    cdef const char *end = at + PyBytes_GET_SIZE(properties)
    cdef Property found
    cdef Marks marks
    cdef object level = ""
    clear_marks(&marks)
    while next_property(&at, end, &found):
        if not note_mark(&found, &marks) and is_name(found.name, found.name_bytes, b"DELAY", 5):
            level = text(found.value, found.value_bytes)
    return (
        text(marks.tags, marks.tags_bytes) if marks.tags_bytes else None,
        text(marks.keys, marks.keys_bytes),
        text(marks.uniq_key, marks.uniq_key_bytes) if marks.uniq_key_bytes else None,
        level,
    )
