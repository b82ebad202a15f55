# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The plain sends that sockets bring at about the same time: read one by one, appended to the log as one.

No Python object is made for a message. What is not plain is left where it is: whoever calls leads it the general way.
"""

from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport int64_t

from rocketeer.engine._access cimport SendAccess
from rocketeer.engine._properties cimport PropertyRules
from rocketeer.engine._queues cimport SendQueues
from rocketeer.engine._replies cimport ReplyFormat
from rocketeer.engine._send_ids cimport SendIds
from rocketeer.engine._send_list cimport SendList
from rocketeer.engine._send_reader cimport SendReader
from rocketeer.engine._send_writer cimport SendWriter

cdef enum:
    BYTES_MAX = 3 << 20  # of records: with so many the buffer is appended before more is read


cdef class SendBuffer:
    """Collects plain sends for one store: `read` puts them in, `append` stores and answers them.

    `queues_of(topic)` says how many queues of a topic plain sends may go to, None if they may not; it is remembered,
    with the queues, until `forget_queues`. `on_first` is called when the buffer is no longer empty, `on_full` when it
    has to be appended before more fits in. With `access`, only sends that it lets pass are plain; with `ids`, batches
    of messages with new ids are.
    """

    cdef object _dispatch
    cdef SendQueues _known
    cdef SendList _sends
    cdef SendIds _ids
    cdef SendReader _reader
    cdef SendWriter _writer
    cdef ReplyFormat _replies
    cdef bint _enabled
    cdef object _on_first
    cdef object _on_full
    cdef list _requests  # (peer, data, how much of it was read, its first send)

    def __init__(
        self,
        *,
        queues_of,
        log,
        dispatch,
        PropertyRules rules not None,
        ReplyFormat replies not None,
        bytes store_host not None,
        limits,
        Py_ssize_t header_bytes_max,
        on_first,
        on_full,
        SendAccess access=None,
        SendIds ids=None,
    ):
        self._dispatch = dispatch
        self._known = SendQueues(queues_of, dispatch.queues.get_or_make)
        self._sends = SendList(limits.message_bytes_max, limits.batch_messages_max)
        self._ids = ids
        self._reader = SendReader(self._sends, self._known, rules, limits, header_bytes_max, access, ids)
        self._writer = SendWriter(log, store_host)
        self._replies = replies
        self._enabled = True
        self._on_first = on_first
        self._on_full = on_full
        self._requests = []

    def __len__(self):
        """How many messages are in the buffer."""
        return self._sends.count

    def enable(self, bint enabled):
        """While it is not enabled it takes no sends."""
        self._enabled = enabled

    def forget_queues(self):
        """A topic changed: ask again. Only when empty: sends in the buffer have queues that are made anew then."""
        assert self._sends.count == 0
        self._known.forget()

    def read(self, bytes data not None, object peer):
        """Put the plain sends at the front of `data` into the buffer; how many bytes they have.

        `peer` is whom `append` answers; its `remote_host` is where they were born.
        """
        cdef Py_ssize_t read, more
        if not self._enabled:
            return 0
        read = self._read(data, peer)
        if read < 0:
            self._on_full()
            read = self._read(data, peer)
        while self._sends.has_many_keys() and read < PyBytes_GET_SIZE(data):
            self._on_full()
            if not self._enabled:
                return read
            more = self._read(data[read:], peer)
            read += max(more, 0)
        if self._sends.total >= BYTES_MAX:
            self._on_full()  # now: what it takes is the time of who brought it
        elif read and len(self._requests) == 1:
            self._on_first()
        return read

    cdef Py_ssize_t _read(self, bytes data, object peer) except -2:
        cdef Py_ssize_t before = self._sends.count, read = self._reader.read(data, peer.remote_host)
        if self._sends.count > before:
            self._requests.append((peer, data, read, before))
        return read

    def append(self, int64_t now_ms, bint waits):
        """Store all sends and empty the buffer: the end in the log, and (peer, replies to write now, later replies).

        Later is when the log below that end is durable: `ReplyFormat.frames` makes frames of what is returned here.
        Raises StoreRefused, with nothing stored and the sends still there: `discard` says which they were.
        """
        cdef SendList sends = self._sends
        cdef list requests = self._requests, answers = []
        cdef Py_ssize_t count = sends.count, i, start, end
        cdef int64_t first, log_end
        if not count:
            return 0, answers
        first = self._writer.write(sends, now_ms)
        log_end = first + sends.total
        if self._ids is not None:
            self._ids.remember(sends.sends, count)
        for i in range(len(requests)):
            start = requests[i][3]
            end = requests[i + 1][3] if i + 1 < len(requests) else count
            later = self._replies.later(sends, start, end) if waits else None
            answers.append((requests[i][0], self._replies.answer(sends, start, end, waits), later))
        grown = self._writer.grown_queues(sends)
        keys = self._writer.key_columns(sends, now_ms)
        self._clear()
        self._dispatch.apply_run(grown, keys, count, first, log_end, now_ms)
        return log_end, answers

    def discard(self):
        """Empty the buffer; (peer, the bytes of its requests) each."""
        cdef list requests = [(peer, data[:read]) for peer, data, read, first in self._requests]
        self._clear()
        return requests

    cdef int _clear(self) except -1:
        self._requests = []
        self._sends.clear()
        if self._ids is not None:
            self._ids.forget_buffered()
        return 0
