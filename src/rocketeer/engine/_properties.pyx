# cython: language_level=3, boundscheck=False, wraparound=False
"""The properties of plain messages: what is stored of them, and what queues and index want to know."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcpy

from rocketeer.record._bytes cimport is_name
from rocketeer.record._layout cimport PROPERTY_END
from rocketeer.record._property_text cimport (
    IndexedProperties, Property, clear_indexed_properties, is_among, lengths_of, next_property, note_indexed_property,
)


cdef bint read_flag(const char *at, Py_ssize_t size, bint *flag) noexcept nogil:
    """true or false as everybody writes them; False for anything else."""
    if is_name(at, size, b"true", 4):
        flag[0] = True
        return True
    if is_name(at, size, b"false", 5):
        flag[0] = False
        return True
    return False


cdef inline void clear(IndexedProperties *indexed, MessageId *message_id) noexcept nogil:
    clear_indexed_properties(indexed)
    message_id.producer_bytes = message_id.id_bytes = 0
    message_id.numbered = False


cdef void override(IndexedProperties *indexed, IndexedProperties *later) noexcept nogil:
    """Of properties that come twice the later ones count."""
    if later.tags_bytes:
        indexed.tags = later.tags
        indexed.tags_bytes = later.tags_bytes
    if later.keys_bytes:
        indexed.keys = later.keys
        indexed.keys_bytes = later.keys_bytes
    if later.uniq_key_bytes:
        indexed.uniq_key = later.uniq_key
        indexed.uniq_key_bytes = later.uniq_key_bytes


cdef class PropertyRules:
    """Which properties make a message other than plain, and what every stored message gets.

    With `takes_ids` PRODUCER_ID does not for messages of batches: `SendIds` looks at their ids.
    """

    def __init__(self, frozenset claims not None, str cluster_property not None, bint takes_ids=False):
        self._claims = frozenset([claim.encode() for claim in claims])
        self._claim_lengths = lengths_of(self._claims)
        self._takes_ids = takes_ids
        self.cluster = b"\x02" + cluster_property.encode()

    cdef Py_ssize_t store(
        self, const char *at, Py_ssize_t size, char *to, IndexedProperties *indexed, bint *wait
    ) except -2:
        """Write a message's properties as they are stored; -1 if it is not plain.

        WAIT goes (it is between client and broker), empty ones go, the cluster's name comes: RocketMQ's rules.
        """
        cdef Py_ssize_t piece, written = 0, cluster_bytes
        cdef const char *end = at + size
        cdef Property found
        cdef MessageId message_id
        clear(indexed, &message_id)
        while next_property(&at, end, &found):
            if is_name(found.name, found.name_bytes, b"WAIT", 4):
                if not read_flag(found.value, found.value_bytes, wait):
                    return -1
            else:
                if not self._note(&found, indexed, &message_id):
                    return -1
                piece = found.value + found.value_bytes - found.name
                memcpy(to + written, found.name, piece)
                written += piece
                to[written] = PROPERTY_END
                written += 1
        if message_id.producer_bytes:
            return -1
        cluster_bytes = PyBytes_GET_SIZE(self.cluster) - 1
        memcpy(to + written, PyBytes_AS_STRING(self.cluster) + 1, cluster_bytes)
        return written + cluster_bytes

    cdef bint find_indexed_properties(
        self, const char *at, Py_ssize_t size, IndexedProperties *indexed, MessageId *message_id, bint *wait
    ) except -1:
        """Look at properties of a batch, which are stored as they came; False if they are not plain."""
        cdef const char *end = at + size
        cdef Property found
        clear(indexed, message_id)
        while next_property(&at, end, &found):
            if is_name(found.name, found.name_bytes, b"WAIT", 4):
                if not read_flag(found.value, found.value_bytes, wait):
                    return False
            elif not self._note(&found, indexed, message_id):
                return False
        return True

    cdef bint _note(self, const Property *found, IndexedProperties *indexed, MessageId *message_id) except -1:
        """Remember a property that queues and index want, or that names the message; False if some feature wants it."""
        if note_indexed_property(found, indexed):
            return True
        if self._takes_ids:
            if is_name(found.name, found.name_bytes, b"PRODUCER_ID", 11):
                message_id.producer = found.value
                message_id.producer_bytes = found.value_bytes
                return True
            if is_name(found.name, found.name_bytes, b"DEDUP_ID", 8):
                message_id.id = found.value
                message_id.id_bytes = found.value_bytes
                return True
            if is_name(found.name, found.name_bytes, b"PRODUCER_SEQ", 12):
                message_id.numbered = True
                return True
        return not is_among(found, self._claims, self._claim_lengths)
