from libc.stdint cimport uint64_t


cdef struct Marks:  # what queues and index want to know of a message's properties
    const char *tags
    Py_ssize_t tags_bytes
    const char *keys
    Py_ssize_t keys_bytes
    const char *uniq_key
    Py_ssize_t uniq_key_bytes
    const char *producer  # what makes a message known when it is sent again
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
        self, const char *at, Py_ssize_t left, char *to, Marks *marks, bint *wait
    ) except -2
    cdef bint find_marks(self, const char *at, Py_ssize_t left, Marks *marks, bint *wait) except -1
    cdef bint _note(
        self, const char *at, Py_ssize_t name, const char *value, Py_ssize_t value_bytes, Marks *marks
    ) except -1


cdef void override(Marks *marks, Marks *later) noexcept nogil
