cdef class InFlight:
    cdef Py_ssize_t _count, _count_max, _bytes, _bytes_max
    cdef str _state
    cdef readonly object waiting

    cpdef bint try_enter(self, Py_ssize_t size) except -1
    cpdef bint seek(self, object seeker) except -1
