# cython: language_level=3, boundscheck=False, wraparound=False
"""What queues and index want to know of stored properties, compiled: the twin of `indexed_properties_plain.py`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8

from rocketeer.record._bytes cimport is_name
from rocketeer.record._property_text cimport IndexedProperties, Property, clear_indexed_properties, next_property, note_indexed_property


cdef inline object text(const char *at, Py_ssize_t size):
    return PyUnicode_DecodeUTF8(at, size, "replace")


def find_indexed_properties(bytes properties not None):
    cdef const char *at = PyBytes_AS_STRING(properties)
    cdef const char *end = at + PyBytes_GET_SIZE(properties)
    cdef Property found
    cdef IndexedProperties indexed
    cdef object level = ""
    clear_indexed_properties(&indexed)
    while next_property(&at, end, &found):
        if not note_indexed_property(&found, &indexed) and is_name(found.name, found.name_bytes, b"DELAY", 5):
            level = text(found.value, found.value_bytes)
    return (
        text(indexed.tags, indexed.tags_bytes) if indexed.tags_bytes else None,
        text(indexed.keys, indexed.keys_bytes),
        text(indexed.uniq_key, indexed.uniq_key_bytes) if indexed.uniq_key_bytes else None,
        level,
    )
