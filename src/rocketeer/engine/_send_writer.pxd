from libc.stdint cimport int64_t

from rocketeer.engine._send_list cimport SendList


cdef class SendWriter:
    cdef object _log
    cdef bytes _store_host
    cdef char *_records
    cdef Py_ssize_t _records_room

    cdef int64_t write(self, SendList sends, int64_t store_ms) except -1
    cdef int _make_records(self, SendList sends, int64_t first, int64_t store_ms) except -1
    cdef int _add_entries(self, SendList sends) except -1
    cdef int _write_log(self, int64_t first, Py_ssize_t size) except -1
    cdef list grown_queues(self, SendList sends)
    cdef tuple key_columns(self, SendList sends, int64_t store_ms)
