from rocketeer.engine._request cimport JsonText, ParsedSendHeader


cdef class KeyAccess:
    cdef bytes name
    cdef bint signs  # else the address is enough
    cdef tuple secrets  # of SigningKey
    cdef object may_send
    cdef dict topics
    cdef bytes last_topic  # that it may send to

    cdef bint is_signed(
        self, const char *head, Py_ssize_t head_bytes, const char *body, Py_ssize_t body_bytes, JsonText *given
    ) except -1
    cdef bint may_send_to(self, JsonText *topic) except -1


cdef class HostAccess:
    cdef str address
    cdef bint white
    cdef dict keys
    cdef KeyAccess last


cdef class SendAccess:
    cdef object _checks
    cdef dict _hosts  # what is known of each address, by its bytes
    cdef HostAccess _host  # of the read under way
    cdef bint _has_failures  # of anybody, when it began
    cdef char *_scratch
    cdef Py_ssize_t _scratch_bytes

    cdef int begin(self, bytes born_host) except -1
    cdef bint passes(self, ParsedSendHeader *header, const char *body, Py_ssize_t body_bytes) except -1
    cdef bint takes_nonce(self, ParsedSendHeader *header) except -1
    cdef KeyAccess _find_key(self, HostAccess host, JsonText *text)
    cdef Py_ssize_t _content(self, ParsedSendHeader *header) except -2
    cdef int _grow(self, Py_ssize_t size) except -1
