"""Properties as requests and records have them, `record/properties.py` says how: inline, for the compiled modules."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint64_t
from libc.string cimport memchr

from rocketeer.record._bytes cimport is_name
from rocketeer.record._layout cimport NAME_END, PROPERTY_END


cdef struct Property:
    const char *name
    Py_ssize_t name_bytes
    const char *value
    Py_ssize_t value_bytes


cdef struct IndexedProperties:  # what queues and index want to know of a message
    const char *tags
    Py_ssize_t tags_bytes
    const char *keys
    Py_ssize_t keys_bytes
    const char *uniq_key
    Py_ssize_t uniq_key_bytes


cdef inline bint next_property(const char **at, const char *end, Property *found) noexcept nogil:
    """Find the next property with a name and a value, neither of them empty; False behind the last."""
    cdef const char *mark
    cdef const char *stop
    while at[0] < end:
        mark = <const char *> memchr(at[0], PROPERTY_END, end - at[0])
        stop = mark if mark != NULL else end
        mark = <const char *> memchr(at[0], NAME_END, stop - at[0])
        found.name = at[0]
        at[0] = stop + 1
        if mark != NULL and mark > found.name and mark + 1 < stop:
            found.name_bytes = mark - found.name
            found.value = mark + 1
            found.value_bytes = stop - found.value
            return True
    return False


cdef inline bint note_indexed_property(const Property *found, IndexedProperties *indexed) noexcept nogil:
    """Remember a property that queues and index want; False for any other. Of two with one name the last counts."""
    if is_name(found.name, found.name_bytes, b"UNIQ_KEY", 8):
        indexed.uniq_key = found.value
        indexed.uniq_key_bytes = found.value_bytes
    elif is_name(found.name, found.name_bytes, b"KEYS", 4):
        indexed.keys = found.value
        indexed.keys_bytes = found.value_bytes
    elif is_name(found.name, found.name_bytes, b"TAGS", 4):
        indexed.tags = found.value
        indexed.tags_bytes = found.value_bytes
    else:
        return False
    return True


cdef inline void clear_indexed_properties(IndexedProperties *indexed) noexcept nogil:
    indexed.tags = indexed.keys = indexed.uniq_key = NULL
    indexed.tags_bytes = indexed.keys_bytes = indexed.uniq_key_bytes = 0


cdef inline bint take_key(IndexedProperties *indexed, const char **key, Py_ssize_t *key_bytes) noexcept nogil:
    """Take the next key of the index out of the properties: the client's id, then each word of KEYS; False without one."""
    cdef const char *stop
    if indexed.uniq_key_bytes:
        key[0] = indexed.uniq_key
        key_bytes[0] = indexed.uniq_key_bytes
        indexed.uniq_key_bytes = 0
        return True
    while indexed.keys_bytes > 0:
        key[0] = indexed.keys
        stop = <const char *> memchr(indexed.keys, b" ", indexed.keys_bytes)
        key_bytes[0] = stop - indexed.keys if stop != NULL else indexed.keys_bytes
        indexed.keys += key_bytes[0] + 1
        indexed.keys_bytes -= key_bytes[0] + 1
        if key_bytes[0]:
            return True
    return False


cdef inline uint64_t lengths_of(frozenset names) except? 0:
    """The mask for `is_among`."""
    cdef uint64_t lengths = 0
    for name in names:
        lengths |= length_bit(len(name))
    return lengths


cdef inline bint is_among(const Property *found, frozenset names, uint64_t lengths) except -1:
    """Whether a property has one of these names, which are bytes."""
    if not lengths & length_bit(found.name_bytes):
        return False
    return PyBytes_FromStringAndSize(found.name, found.name_bytes) in names


cdef inline uint64_t length_bit(Py_ssize_t name_bytes) noexcept nogil:
    """For masks of names' lengths: a name whose bit is not in the mask needs no look into the set."""
    return <uint64_t> 1 << min(name_bytes, 63)  # longer ones share the last bit
