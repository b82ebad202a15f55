# cython: language_level=3, boundscheck=False, wraparound=False
"""The properties of plain messages: what is stored of them, and what queues and index want to know."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memchr, memcpy

from rocketeer.record._bytes cimport is_name
from rocketeer.record._layout cimport NAME_END, PROPERTY_END


cdef bint read_flag(const char *at, Py_ssize_t size, bint *flag) noexcept nogil:
    """true or false as everybody writes them; False for anything else."""
    if is_name(at, size, b"true", 4):
        flag[0] = True
        return True
    if is_name(at, size, b"false", 5):
        flag[0] = False
        return True
    return False


cdef bint is_ascii(const char *at, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(size):
        if <uint8_t> at[i] >= 0x80:
            return False
    return True


cdef inline void clear(Marks *marks) noexcept nogil:
    marks.tags_bytes = marks.keys_bytes = marks.uniq_key_bytes = marks.producer_bytes = marks.id_bytes = 0
    marks.numbered = False


cdef void override(Marks *marks, Marks *later) noexcept nogil:
    """Of properties that come twice the later ones count."""
    if later.tags_bytes:
        marks.tags = later.tags
        marks.tags_bytes = later.tags_bytes
    if later.keys_bytes:
        marks.keys = later.keys
        marks.keys_bytes = later.keys_bytes
    if later.uniq_key_bytes:
        marks.uniq_key = later.uniq_key
        marks.uniq_key_bytes = later.uniq_key_bytes


cdef class PropertyRules:
    """Which properties make a message other than plain, and what every stored message gets.

    With `takes_ids` PRODUCER_ID does not for messages of batches: `SendIds` looks at their ids.
    """

    def __init__(self, frozenset claims not None, str cluster_property not None, bint takes_ids=False):
        self._claims = claims
        self._takes_ids = takes_ids
        self._claim_lengths = 0
        for claim in claims:  # of the names as UTF-8; what is longer than the mask shares its last bit
            self._claim_lengths |= <uint64_t> 1 << min(<int> len(claim.encode()), 63)
        self.cluster = b"\x02" + cluster_property.encode()

    cdef Py_ssize_t store(
        self, const char *at, Py_ssize_t left, char *to, Marks *marks, bint *wait
    ) except -2:
        """Write a message's properties as they are stored; -1 if it is not plain.

        WAIT goes (it is between client and broker), empty ones go, the cluster's name comes: RocketMQ's rules.
        """
        cdef Py_ssize_t piece, name, value_bytes, written = 0, cluster_bytes
        cdef const char *stop
        cdef const char *value
        clear(marks)
        while left > 0:
            stop = <const char *> memchr(at, PROPERTY_END, left)
            piece = stop - at if stop != NULL else left
            value = <const char *> memchr(at, NAME_END, piece)
            name = value - at if value != NULL else piece
            value_bytes = piece - name - 1
            if name > 0 and value_bytes > 0:
                if is_name(at, name, b"WAIT", 4):
                    if not read_flag(value + 1, value_bytes, wait):
                        return -1
                else:
                    if not self._note(at, name, value + 1, value_bytes, marks):
                        return -1
                    memcpy(to + written, at, piece)
                    written += piece
                    to[written] = PROPERTY_END
                    written += 1
            at += piece + 1
            left -= piece + 1
        if marks.producer_bytes:
            return -1
        cluster_bytes = PyBytes_GET_SIZE(self.cluster) - 1
        memcpy(to + written, PyBytes_AS_STRING(self.cluster) + 1, cluster_bytes)
        return written + cluster_bytes

    cdef bint find_marks(self, const char *at, Py_ssize_t left, Marks *marks, bint *wait) except -1:
        """Look at properties of a batch, which are stored as they came; False if they are not plain."""
        cdef Py_ssize_t piece, name, value_bytes
        cdef const char *stop
        cdef const char *value
        clear(marks)
        while left > 0:
            stop = <const char *> memchr(at, PROPERTY_END, left)
            piece = stop - at if stop != NULL else left
            value = <const char *> memchr(at, NAME_END, piece)
            if value != NULL:
                name = value - at
                value_bytes = piece - name - 1
                if is_name(at, name, b"WAIT", 4):
                    if value_bytes > 0 and not read_flag(value + 1, value_bytes, wait):
                        return False
                elif value_bytes > 0 and not self._note(at, name, value + 1, value_bytes, marks):
                    return False
            at += piece + 1
            left -= piece + 1
        return True

    cdef bint _note(
        self, const char *at, Py_ssize_t name, const char *value, Py_ssize_t value_bytes, Marks *marks
    ) except -1:
        """Remember a property that queues and index want; False if some feature wants it or it is unusual."""
        if is_name(at, name, b"UNIQ_KEY", 8):
            marks.uniq_key = value
            marks.uniq_key_bytes = value_bytes
        elif is_name(at, name, b"KEYS", 4):
            marks.keys = value
            marks.keys_bytes = value_bytes
        elif is_name(at, name, b"TAGS", 4):
            marks.tags = value
            marks.tags_bytes = value_bytes
        elif self._takes_ids and is_name(at, name, b"PRODUCER_ID", 11):
            marks.producer = value
            marks.producer_bytes = value_bytes
            return True
        elif self._takes_ids and is_name(at, name, b"DEDUP_ID", 8):
            marks.id = value
            marks.id_bytes = value_bytes
            return True
        elif self._takes_ids and is_name(at, name, b"PRODUCER_SEQ", 12):
            marks.numbered = True
            return True
        else:
            if self._claim_lengths >> min(name, 63) & 1:
                return PyUnicode_DecodeUTF8(at, name, "replace") not in self._claims
            return True
        return is_ascii(value, value_bytes)
