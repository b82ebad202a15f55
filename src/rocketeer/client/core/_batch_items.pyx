# cython: language_level=3, boundscheck=False, wraparound=False
"""The items of a batch request, compiled: the twin of `batch_items_plain.py`, which says what it does.

What is rare (timed messages, half surrogate pairs, separators in texts, properties that are too long) is handed to the
plain twin, which does it or says what is wrong.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcpy

from rocketeer.record._bytes cimport put32
from rocketeer.record._layout cimport (
    ITEM_BODY_BYTES_AT, ITEM_BYTES, ITEM_CRC_AT, ITEM_FLAG_AT, ITEM_MAGIC_AT, NAME_END, PROPERTIES_BYTES_MAX,
    PROPERTY_END,
)

from rocketeer.client.core import batch_items_plain

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL


cdef class GrowableBytes:
    """A buffer that grows as it is filled: `size` bytes of `capacity` are used."""
    cdef char *data
    cdef Py_ssize_t size, capacity

    def __cinit__(self, Py_ssize_t capacity):
        self.data = <char *> malloc(capacity)
        if self.data == NULL:
            raise MemoryError
        self.capacity = capacity
        self.size = 0

    def __dealloc__(self):
        free(self.data)

    cdef char *add(self, Py_ssize_t more) except NULL:
        """Where so many more bytes may be written; valid until the next call."""
        cdef char *grown
        if self.size + more > self.capacity:
            grown = <char *> realloc(self.data, (self.size + more) * 2)
            if grown == NULL:
                raise MemoryError
            self.data = grown
            self.capacity = (self.size + more) * 2
        self.size += more
        return self.data + self.size - more


cdef bint _put(GrowableBytes out, object name, object value, bint first) except -1:
    """One property; False when a separator is in it."""
    cdef Py_ssize_t name_bytes, value_bytes
    cdef const char *name_at
    cdef const char *value_at
    cdef char *to
    name_at = PyUnicode_AsUTF8AndSize(name, &name_bytes)
    value_at = PyUnicode_AsUTF8AndSize(value, &value_bytes)
    to = out.add(name_bytes + value_bytes + (1 if first else 2))
    if not first:
        to[0] = PROPERTY_END
        to += 1
    memcpy(to, name_at, name_bytes)
    to[name_bytes] = NAME_END
    memcpy(to + name_bytes + 1, value_at, value_bytes)
    return not (
        _holds_separator(name_at, name_bytes) or _holds_separator(value_at, value_bytes)
    )


cdef inline bint _holds_separator(const char *at, Py_ssize_t size) noexcept nogil:
    return memchr(at, NAME_END, size) != NULL or memchr(at, PROPERTY_END, size) != NULL


cdef bint _put_item(GrowableBytes out, object message, object identity, object instance, bint whole) except -1:
    """False for what the plain twin shall see to."""
    cdef bytes body = message.body
    cdef Py_ssize_t body_bytes = PyBytes_GET_SIZE(body), start = out.size, properties_at, properties_bytes
    cdef dict properties = message.properties
    cdef bint first = True
    cdef char *at
    cdef int flag = message.flag
    if message.delay_level or message.deliver_at is not None or message.delay is not None:
        return False
    at = out.add(ITEM_BYTES + body_bytes + 2)
    put32(at + ITEM_MAGIC_AT, 0)
    put32(at + ITEM_CRC_AT, 0)
    put32(at + ITEM_FLAG_AT, <uint32_t> flag)
    put32(at + ITEM_BODY_BYTES_AT, <uint32_t> body_bytes)
    memcpy(at + ITEM_BYTES, PyBytes_AS_STRING(body), body_bytes)
    properties_at = out.size
    for name, value in properties.items():
        if not _put(out, name, value, first):
            return False
        first = False
    value = message.tags
    if value is not None:
        if not _put(out, "TAGS", value, first):
            return False
        first = False
    value = message.keys
    if value is not None:
        if not _put(out, "KEYS", value, first):
            return False
        first = False
    value = message.sharding_key
    if value is not None:
        if not _put(out, "__SHARDINGKEY", value, first):
            return False
        first = False
    if whole:
        _put(out, "WAIT", "true" if message.wait_stored else "false", first)
        first = False
    if not _put(out, "UNIQ_KEY", identity, first):
        return False
    if instance is not None and not _put(out, "INSTANCE_ID", instance, False):
        return False
    properties_bytes = out.size - properties_at
    if properties_bytes > PROPERTIES_BYTES_MAX:
        return False
    at = out.data + properties_at - 2
    at[0] = <char> (properties_bytes >> 8)
    at[1] = <char> (properties_bytes & 0xFF)
    put32(out.data + start, <uint32_t> (out.size - start))
    return True


def pack_items(list messages not None, list identities not None, str instance, bint whole):
    cdef GrowableBytes out
    cdef Py_ssize_t expected = 0
    assert len(messages) == len(identities)
    for message in messages:
        expected += len(message.body) + 256
    out = GrowableBytes(max(expected, 64))
    try:
        for message, identity in zip(messages, identities):
            if not _put_item(out, message, identity, instance, whole):
                return batch_items_plain.pack_items(messages, identities, instance, whole)
    except UnicodeEncodeError:
        return batch_items_plain.pack_items(messages, identities, instance, whole)
    return PyBytes_FromStringAndSize(out.data, out.size)
