from libc.stdint cimport uint64_t

from rocketeer.record._property_text cimport IndexedProperties, Property


cdef struct MessageId:  # what makes a message known when it is sent again
    const char *producer
    Py_ssize_t producer_bytes
    const char *id
    Py_ssize_t id_bytes
    bint numbered


cdef class PropertyRules:
    cdef frozenset _claims
    cdef uint64_t _claim_lengths
    cdef bint _takes_ids
    cdef readonly bytes cluster  # a separator, then the cluster's property

    cdef Py_ssize_t store(
        self, const char *at, Py_ssize_t size, char *to, IndexedProperties *indexed, bint *wait
    ) except -2
    cdef bint find_indexed_properties(
        self, const char *at, Py_ssize_t size, IndexedProperties *indexed, MessageId *message_id, bint *wait
    ) except -1
    cdef bint _note(self, const Property *found, IndexedProperties *indexed, MessageId *message_id) except -1


cdef void override(IndexedProperties *indexed, IndexedProperties *later) noexcept nogil
