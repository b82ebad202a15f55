# cython: language_level=3, boundscheck=False, wraparound=False
"""What queues and index want to know of stored properties, compiled: the twin of `marks_plain.py`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memchr

from rocketeer.record._bytes cimport is_name
from rocketeer.record._layout cimport NAME_END, PROPERTY_END


def find_marks(bytes properties not None):
    cdef const char *at = PyBytes_AS_STRING(properties)
    cdef Py_ssize_t left = PyBytes_GET_SIZE(properties), piece, name, value_bytes
    cdef const char *stop
    cdef const char *value
    cdef object tags = None, keys = "", uniq_key = None, level = ""
    while left > 0:
        stop = <const char *> memchr(at, PROPERTY_END, left)
        piece = stop - at if stop != NULL else left
        value = <const char *> memchr(at, NAME_END, piece)
        if value != NULL:
            name = value - at
            value += 1
            value_bytes = piece - name - 1
            if value_bytes > 0:
                if is_name(at, name, b"TAGS", 4):
                    tags = PyUnicode_DecodeUTF8(value, value_bytes, "replace")
                elif is_name(at, name, b"KEYS", 4):
                    keys = PyUnicode_DecodeUTF8(value, value_bytes, "replace")
                elif is_name(at, name, b"UNIQ_KEY", 8):
                    uniq_key = PyUnicode_DecodeUTF8(value, value_bytes, "replace")
                elif is_name(at, name, b"DELAY", 5):
                    level = PyUnicode_DecodeUTF8(value, value_bytes, "replace")
        at += piece + 1
        left -= piece + 1
    return tags, keys, uniq_key, level
