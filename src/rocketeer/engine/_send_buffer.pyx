# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The plain sends that sockets bring at about the same time: read one by one, appended to the log as one.

No Python object is made for a message. What is not plain is left where it is: whoever calls leads it the general way.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EINTR, errno
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from rocketeer.engine._access cimport SendAccess
from rocketeer.engine._properties cimport PropertyRules
from rocketeer.engine._queues cimport QueueAppendState, SendQueues, prefetch_queues
from rocketeer.engine._record cimport write_record
from rocketeer.engine._replies cimport ReplyFormat
from rocketeer.engine._send cimport Send
from rocketeer.engine._send_ids cimport SendIds
from rocketeer.engine._send_reader cimport SendReader, renewed
from rocketeer.record._layout cimport HOST_BYTES
from rocketeer.store._key_columns cimport KeyColumns

cdef extern from "unistd.h":
    ssize_t pwrite(int fd, const void *data, size_t size, long long at) noexcept nogil


cdef double APPEND_SLOW_S = 0.01  # what an append never takes but when the disk holds it up


cdef double monotonic_s() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <double> now.tv_sec + <double> now.tv_nsec / 1e9


cdef enum:
    BYTES_MAX = 3 << 20  # of records: with so many the buffer is appended before more is read


cdef class SendBuffer:
    """Collects plain sends for one store: `read` puts them in, `append` stores and answers them.

    `queues_of(topic)` says how many queues of a topic plain sends may go to, None if they may not; it is remembered,
    with the queues, until `forget_queues`. `on_first` is called when the buffer is no longer empty, `on_full` when it
    has to be appended before more fits in. With `access`, only sends that it lets pass are plain; with `ids`, batches of
    messages with new ids are.
    """

    cdef object _log
    cdef object _dispatch
    cdef SendQueues _known
    cdef SendReader _reader
    cdef ReplyFormat _replies
    cdef bytes _store_host
    cdef public bint enabled
    cdef public object on_first
    cdef public object on_full
    cdef list _requests  # (peer, data, how much of it was read, its first send)
    cdef char *_records
    cdef Py_ssize_t _records_room

    def __dealloc__(self):
        free(self._records)

    def __init__(
        self,
        *,
        queues_of,
        log,
        dispatch,
        PropertyRules rules not None,
        ReplyFormat replies not None,
        bytes store_host not None,
        Py_ssize_t message_bytes_max,
        Py_ssize_t batch_messages_max,
        Py_ssize_t batch_keys_max,
        SendAccess access=None,
        SendIds ids=None,
    ):
        assert len(store_host) == HOST_BYTES, "IPv4 only"
        self._log = log
        self._dispatch = dispatch
        self._known = SendQueues(queues_of, dispatch.queues.get_or_make)
        self._reader = SendReader(
            self._known, rules, message_bytes_max, batch_messages_max, batch_keys_max, access, ids
        )
        self._replies = replies
        self._store_host = store_host
        self._requests = []

    def __len__(self):
        """How many messages are in the buffer."""
        return self._reader.count

    def forget_queues(self):
        """A topic changed: ask again. Only when empty: sends in the buffer have queues that are made anew then."""
        assert self._reader.count == 0
        self._known.forget()

    def read(self, bytes data not None, object peer):
        """Put the plain sends at the front of `data` into the buffer; how many bytes they have.

        `peer` is whom `append` answers; its `remote_host` is where they were born.
        """
        cdef Py_ssize_t read, more
        if not self.enabled:
            return 0
        read = self._read(data, peer)
        if read < 0:
            self.on_full()
            read = self._read(data, peer)
        while self._reader.has_many_keys() and read < PyBytes_GET_SIZE(data):
            self.on_full()
            if not self.enabled:
                return read
            more = self._read(data[read:], peer)
            read += max(more, 0)
        if self._reader.total >= BYTES_MAX:
            self.on_full()  # now: what it takes is the time of who brought it
        elif read and len(self._requests) == 1:
            self.on_first()
        return read

    cdef Py_ssize_t _read(self, bytes data, object peer) except -2:
        cdef Py_ssize_t before = self._reader.count, read = self._reader.read(data, peer.remote_host)
        if self._reader.count > before:
            self._requests.append((peer, data, read, before))
        return read

    def append(self, int64_t now_ms, bint waits):
        """Store all sends and empty the buffer: the end in the log, and (peer, replies to write now, later replies).

        Later is when the log below that end is durable: `ReplyFormat.frames` makes frames of what is returned here.
        Raises StoreRefused, with nothing stored and the sends still there: `discard` says which they were.
        """
        cdef list queues = self._reader.queues, requests = self._requests, answers = [], grown = []
        cdef Py_ssize_t count = self._reader.count, total = self._reader.total, at, start, end
        cdef int64_t first
        cdef double began_s, took_s
        cdef QueueAppendState state
        if not count:
            return 0, answers
        began_s = monotonic_s()
        first = self._log.max_offset
        if first + total > <int64_t> self._log.mark:
            first = self._log.make_room(total)
        self._write(first, now_ms)
        took_s = monotonic_s() - began_s
        if took_s > APPEND_SLOW_S:
            self._log.append_took(took_s)
        self._log.max_offset = first + total  # copied first, published second
        if self._reader.ids is not None:
            self._reader.ids.remember(self._reader.sends, count)
        for at in range(len(requests)):
            start = requests[at][3]
            end = requests[at + 1][3] if at + 1 < len(requests) else count
            later = self._later(start, end) if waits else None
            answers.append((requests[at][0], self._answer(start, end, waits), later))
        for item in queues:
            state = <QueueAppendState> item
            if state.appended == self._reader.filling:
                grown.append(state.queue)
                if state.queue.max_offset > state.queue._due:
                    state.queue._write_out_due()
        keys = self._key_columns(now_ms)
        self._clear()
        self._dispatch.apply_run(grown, keys, count, first, first + total, now_ms)
        return first + total, answers

    def discard(self):
        """Empty the buffer; (peer, the bytes of its requests) each."""
        cdef list requests = [(peer, data[:read]) for peer, data, read, first in self._requests]
        self._clear()
        return requests

    cdef int _clear(self) except -1:
        self._requests = []
        return self._reader.clear()

    # --- writing -------------------------------------------------------------------------------------------

    cdef int _write(self, int64_t first, int64_t store_ms) except -1:
        """Write the records to the log, then their entries to the queues. OSError with nothing changed."""
        cdef char *to
        cdef Send *send
        cdef QueueAppendState state
        cdef Py_ssize_t i
        cdef int64_t log_offset = first
        if self._reader.total > self._records_room:
            self._records = renewed(self._records, self._reader.total)
            self._records_room = self._reader.total
        to = self._records
        prefetch_queues(self._reader.queues)
        for i in range(self._reader.count):
            send = self._reader.sends + i
            state = <QueueAppendState> self._reader.queues[send.queue]
            if state.appended != self._reader.filling:
                state.appended = self._reader.filling
                state.next_offset = state.queue.max_offset
            send.log_offset = log_offset
            send.queue_offset = state.next_offset
            state.next_offset += 1
            write_record(to, send, state.queue_id, state.topic_part, self._store_host, store_ms)
            to += send.size
            log_offset += send.size
        self._write_log(first)
        for i in range(self._reader.count):
            send = self._reader.sends + i
            (<QueueAppendState> self._reader.queues[send.queue]).queue.add(
                send.log_offset, <int32_t> send.size, send.tag_code
            )
        return 0

    cdef int _write_log(self, int64_t first) except -1:
        cdef int fd = self._log.fd
        cdef int64_t at = first - <int64_t> self._log.base
        cdef Py_ssize_t done = 0
        cdef ssize_t written
        while done < self._reader.total:
            written = pwrite(fd, self._records + done, self._reader.total - done, at + done)
            if written >= 0:
                done += written
            elif errno != EINTR:
                self._log.write(first, PyBytes_FromStringAndSize(self._records, self._reader.total))  # it words the error
                return 0
        return 0

    cdef tuple _key_columns(self, int64_t store_ms):
        cdef Py_ssize_t i
        cdef KeyColumns columns = self._reader.keys.columns(0, self._reader.keys.used)
        for i in range(self._reader.count):
            columns.fill(self._reader.sends[i].keys, self._reader.sends[i].log_offset, store_ms)
        return columns.as_tuple()

    # --- answering -----------------------------------------------------------------------------------------

    cdef bytes _answer(self, Py_ssize_t start, Py_ssize_t end, bint waits):
        """The replies that wait for nothing; None if there are none."""
        cdef Py_ssize_t size = 0, i
        cdef bytes frames
        cdef Send *send
        cdef char *to
        for i in range(start, end):
            send = self._reader.sends + i
            if send.replies_for and not send.oneway and not (waits and send.wait):
                size += self._replies.bytes_max(send.replies_for)
        if not size:
            return None
        frames = PyBytes_FromStringAndSize(NULL, size)
        to = PyBytes_AS_STRING(frames)
        for i in range(start, end):
            send = self._reader.sends + i
            if send.replies_for and not send.oneway and not (waits and send.wait):
                to = self._replies.put(to, send, (<QueueAppendState> self._reader.queues[send.queue]).queue_id)
        return frames[: to - PyBytes_AS_STRING(frames)]

    cdef list _later(self, Py_ssize_t start, Py_ssize_t end):
        """What the replies that wait will say: (opaque, queue id, queue offset, log offsets) each."""
        cdef list rows = []
        cdef Send *send
        cdef Py_ssize_t i, at
        for i in range(start, end):
            send = self._reader.sends + i
            if send.replies_for and not send.oneway and send.wait:
                log_offsets = [send[at].log_offset for at in range(send.replies_for)]
                queue_id = (<QueueAppendState> self._reader.queues[send.queue]).queue_id
                rows.append((send.opaque, queue_id, send.queue_offset, log_offsets))
        return rows
