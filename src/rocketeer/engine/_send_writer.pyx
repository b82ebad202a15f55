# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Plain sends into the store: all records in one write to the log, their queue entries, columns of the index."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport EINTR, errno
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from rocketeer.engine._queues cimport QueueAppendState, prefetch_queues
from rocketeer.engine._record cimport write_record
from rocketeer.engine._send cimport Send
from rocketeer.engine._send_list cimport SendList, renewed
from rocketeer.record._layout cimport HOST_BYTES
from rocketeer.store._key_columns cimport KeyColumns

cdef extern from "unistd.h":
    ssize_t pwrite(int fd, const void *data, size_t size, long long at) noexcept nogil


cdef double APPEND_SLOW_S = 0.01  # what an append never takes but when the disk holds it up


cdef double monotonic_s() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <double> now.tv_sec + <double> now.tv_nsec / 1e9


cdef class SendWriter:
    """Appends to one store; the calls after `write` are about the sends that it wrote."""

    def __dealloc__(self):
        free(self._records)

    def __init__(self, log, bytes store_host not None):
        assert len(store_host) == HOST_BYTES, "IPv4 only"
        self._log = log
        self._store_host = store_host

    cdef int64_t write(self, SendList sends, int64_t store_ms) except -1:
        """Write the records to the log and their entries to the queues, then publish; the log offset of the first.

        Raises StoreRefused, OSError or MemoryError, with nothing changed: what nobody was told of is overwritten by
        the next. Between entries and publishing nobody looks: all readers run in the loop's thread.
        """
        cdef int64_t first
        cdef double began_s = monotonic_s(), took_s
        first = self._log.max_offset
        if first + sends.total > <int64_t> self._log.mark:
            first = self._log.make_room(sends.total)
        self._make_records(sends, first, store_ms)
        self._write_log(first, sends.total)
        took_s = monotonic_s() - began_s
        if took_s > APPEND_SLOW_S:
            self._log.append_took(took_s)
        self._add_entries(sends)
        self._log.max_offset = first + sends.total  # copied first, published second
        return first

    cdef int _add_entries(self, SendList sends) except -1:
        """An entry for each, or for none."""
        cdef Send *send
        cdef Py_ssize_t i, added = 0
        try:
            for i in range(sends.count):
                send = sends.sends + i
                (<QueueAppendState> sends.queues[send.queue]).queue.add(
                    send.log_offset, <int32_t> send.size, send.tag_code
                )
                added += 1
        except BaseException:
            for i in range(added):
                (<QueueAppendState> sends.queues[sends.sends[i].queue]).queue.take_back()
            raise
        return 0

    cdef int _make_records(self, SendList sends, int64_t first, int64_t store_ms) except -1:
        """Give every send its offsets, and make its record."""
        cdef char *to
        cdef Send *send
        cdef QueueAppendState state
        cdef Py_ssize_t i
        cdef int64_t log_offset = first
        if sends.total > self._records_room:
            self._records = renewed(self._records, sends.total)
            self._records_room = sends.total
        to = self._records
        prefetch_queues(sends.queues)
        for i in range(sends.count):
            send = sends.sends + i
            state = <QueueAppendState> sends.queues[send.queue]
            if state.appended != sends.run_number:
                state.appended = sends.run_number
                state.next_offset = state.queue.max_offset
            send.log_offset = log_offset
            send.queue_offset = state.next_offset
            state.next_offset += 1
            write_record(to, send, state.queue_id, state.topic_part, self._store_host, store_ms)
            to += send.size
            log_offset += send.size
        return 0

    cdef int _write_log(self, int64_t first, Py_ssize_t size) except -1:
        cdef int fd = self._log.fd
        cdef int64_t at = first - <int64_t> self._log.base
        cdef Py_ssize_t done = 0
        cdef ssize_t written
        while done < size:
            written = pwrite(fd, self._records + done, size - done, at + done)
            if written >= 0:
                done += written
            elif errno != EINTR:
                self._log.write(first, PyBytes_FromStringAndSize(self._records, size))  # it words the error
                return 0
        return 0

    cdef list grown_queues(self, SendList sends):
        """The queues that got entries; those that are due write them out first."""
        cdef list grown = []
        cdef QueueAppendState state
        for item in sends.queues:
            state = <QueueAppendState> item
            if state.appended == sends.run_number:
                grown.append(state.queue)
                state.queue.write_out_if_due()
        return grown

    cdef tuple key_columns(self, SendList sends, int64_t store_ms):
        """The keys of all sends, as the index takes them."""
        cdef Py_ssize_t i
        cdef KeyColumns columns = sends.keys.columns(0, sends.keys.used)
        for i in range(sends.count):
            columns.fill(sends.sends[i].keys, sends.sends[i].log_offset, store_ms)
        return columns.as_tuple()
