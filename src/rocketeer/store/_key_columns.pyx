# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The keys of messages that are dispatched in bulk, as `Index.extend_columns` takes them."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, realloc

from rocketeer.record._bytes cimport hash_text, without_sign
from rocketeer.record._property_text cimport IndexedProperties, take_key


cdef uint32_t key_prefix(bytes topic) except? 0:
    """The hash of "topic#", which every key's goes on from; the topic is ASCII."""
    cdef bytes start = topic + b"#"
    cdef uint32_t value = 0
    is_text = hash_text(PyBytes_AS_STRING(start), PyBytes_GET_SIZE(start), &value)
    assert is_text
    return value


cdef class KeyHashes:
    """Hashes of the keys of many messages, one behind the other; `used` may be set back."""

    def __dealloc__(self):
        free(self._hashes)

    cdef int32_t add(self, uint32_t prefix, IndexedProperties *indexed) except -2:
        """Hash the client's id, then each of the keys; how many, -1 with nothing changed when one is not UTF-8."""
        cdef Py_ssize_t before = self.used, room = self.used + indexed.keys_bytes // 2 + 2, size
        cdef const char *key
        cdef uint32_t *more
        cdef uint32_t value
        if room > self._room:
            more = <uint32_t *> realloc(self._hashes, 2 * room * sizeof(uint32_t))
            if more == NULL:
                raise MemoryError
            self._hashes = more
            self._room = 2 * room
        while take_key(indexed, &key, &size):
            value = prefix
            if not hash_text(key, size, &value):
                self.used = before
                return -1
            self._hashes[self.used] = without_sign(value)
            self.used += 1
        return <int32_t> (self.used - before)

    cdef KeyColumns columns(self, Py_ssize_t first, Py_ssize_t last):
        """The columns of these hashes; `fill` says where the messages are, in their order."""
        cdef KeyColumns made = KeyColumns.__new__(KeyColumns)
        made._hashes = PyBytes_FromStringAndSize(<char *> (self._hashes + first), (last - first) * sizeof(uint32_t))
        made._offsets = PyBytes_FromStringAndSize(NULL, (last - first) * sizeof(int64_t))
        made._times = PyBytes_FromStringAndSize(NULL, (last - first) * sizeof(int64_t))
        made._offset = <int64_t *> PyBytes_AS_STRING(made._offsets)
        made._time = <int64_t *> PyBytes_AS_STRING(made._times)
        return made


cdef class KeyColumns:
    """Hash, log offset and store time of every key."""

    cdef void fill(self, int32_t keys, int64_t log_offset, int64_t store_ms) noexcept:
        cdef int32_t i
        for i in range(keys):
            self._offset[i] = log_offset
            self._time[i] = store_ms
        self._offset += keys
        self._time += keys

    cdef tuple as_tuple(self):
        return self._hashes, self._offsets, self._times
