"""Properties as requests and records have them, `record/properties.py` says how: inline, for the compiled modules."""

from libc.stdint cimport uint64_t
from libc.string cimport memchr

from rocketeer.record._bytes cimport is_name
from rocketeer.record._layout cimport NAME_END, PROPERTY_END


cdef struct Property:
    const char *name
    Py_ssize_t name_bytes
    const char *value
    Py_ssize_t value_bytes


cdef struct Marks:  # what queues and index want to know of a message
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


cdef inline bint note_mark(const Property *found, Marks *marks) noexcept nogil:
    """Remember a property that queues and index want; False for any other. Of two with one name the last counts."""
    if is_name(found.name, found.name_bytes, b"UNIQ_KEY", 8):
        marks.uniq_key = found.value
        marks.uniq_key_bytes = found.value_bytes
    elif is_name(found.name, found.name_bytes, b"KEYS", 4):
        marks.keys = found.value
        marks.keys_bytes = found.value_bytes
    elif is_name(found.name, found.name_bytes, b"TAGS", 4):
        marks.tags = found.value
        marks.tags_bytes = found.value_bytes
    else:
        return False
    return True


cdef inline void clear_marks(Marks *marks) noexcept nogil:
    marks.tags = marks.keys = marks.uniq_key = NULL
    marks.tags_bytes = marks.keys_bytes = marks.uniq_key_bytes = 0


cdef inline bint take_key(Marks *marks, const char **key, Py_ssize_t *key_bytes) noexcept nogil:
    """Take the next key of the index out of the marks: the client's id, then each word of KEYS; False without one."""
    cdef const char *stop
    if marks.uniq_key_bytes:
        key[0] = marks.uniq_key
        key_bytes[0] = marks.uniq_key_bytes
        marks.uniq_key_bytes = 0
        return True
    while marks.keys_bytes > 0:
        key[0] = marks.keys
        stop = <const char *> memchr(marks.keys, b" ", marks.keys_bytes)
        key_bytes[0] = stop - marks.keys if stop != NULL else marks.keys_bytes
        marks.keys += key_bytes[0] + 1
        marks.keys_bytes -= key_bytes[0] + 1
        if key_bytes[0]:
            return True
    return False


cdef inline uint64_t length_bit(Py_ssize_t name_bytes) noexcept nogil:
    """For masks of names' lengths: a name whose bit is not in the mask needs no look into the set."""
    return <uint64_t> 1 << min(name_bytes, 63)  # longer ones share the last bit
