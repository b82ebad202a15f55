# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Connections of a server, read and written in compiled code, when `_poller.pyx` says: see ADR 12."""

from rocketeer.remoting import fair_queue as rule

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport PyObject
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint32_t
from libc.string cimport memset
from posix.time cimport CLOCK_THREAD_CPUTIME_ID

from rocketeer.remoting._poller cimport (
    EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, READ_BYTES, PolledSocket, SocketPoller, clock_s, last_error, monotonic_s,
)

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len

cdef extern from "<sys/socket.h>" nogil:
    struct msghdr:
        iovec *msg_iov
        size_t msg_iovlen
    ssize_t recv(int fd, void *buffer, size_t size, int flags)
    ssize_t send(int fd, const void *buffer, size_t size, int flags)
    ssize_t sendmsg(int fd, const msghdr *message, int flags)
    int MSG_NOSIGNAL

cdef extern from "<sys/ioctl.h>" nogil:
    int ioctl(int fd, unsigned long request, int *answer)
    unsigned long FIONREAD

cdef extern from "Python.h":
    # Under other names: an object that is being filled is not yet for anybody to count references of.
    PyObject *PyBytes_FromStringAndSize_ "PyBytes_FromStringAndSize"(const char *data, Py_ssize_t size)
    char *PyBytes_AS_STRING_ "PyBytes_AS_STRING"(PyObject *data)
    int _PyBytes_Resize(PyObject **data, Py_ssize_t size)
    void Py_DECREF_ "Py_DECREF"(PyObject *data)

cdef enum:
    PARTS_MAX = 64

cdef Py_ssize_t MUCH_BYTES = rule.MUCH_BYTES
cdef Py_ssize_t KNOWN_READS = rule.KNOWN_READS

cdef double EXPENSIVE_S = 0.0015  # a read that takes so long to serve was too large
cdef double CHEAP_S = rule.CHEAP_S


cdef class Stream(PolledSocket):
    """A transport in the sense of asyncio, for one accepted socket.

    | flag | set by | the socket is | until |
    |---|---|---|---|
    | none | | read and served | |
    | `_waits` | the poller: what it brings may take long | not read | `take_turn` |
    | `_paused` | `pause_reading` | not read; lost if the peer has gone | `resume_reading` |
    | `_closing` | `close`, also at the peer's end | not read; what was written still leaves | all has left: `_lost` |
    | `_lost` | `abort`, an error, the end of `_closing` | no longer the poller's | for good |

    `_waits` and `_paused` end each by itself; one that waits is served in its turn even if its peer has gone. `_lost`
    implies `_closing`. The protocol sees `_waits` as slow reading: for it the connection is READING all the time.
    """

    cdef SocketPoller _poller
    cdef object _protocol
    cdef object _serve_front
    cdef object _sock
    cdef dict _extra
    cdef int _fd
    cdef uint32_t _watched
    cdef bint _paused
    cdef bint _closing
    cdef bint _lost
    cdef bint _told_to_pause
    cdef bint _brings_much
    cdef bint _was_expensive
    cdef bint _waits
    cdef double _cost_s
    """What its reads take to serve, about."""
    cdef Py_ssize_t _reads
    cdef Py_ssize_t _read_bytes
    """How much is read at a time: less from a peer whose bytes are expensive to serve, as others wait meanwhile."""
    cdef list _unsent
    cdef Py_ssize_t _unsent_bytes
    cdef Py_ssize_t _high
    cdef readonly double last_read_s
    cdef readonly Py_ssize_t taken_bytes
    """How much the kernel has taken so far."""
    cdef public bint between_frames
    """Set by the protocol: nothing of what came before waits for what comes next."""

    def __init__(self, SocketPoller poller not None, sock, protocol, serve_front):
        """`serve_front(data, protocol)` is asked first, between frames; the protocol gets what it does not serve."""
        self._poller = poller
        self._sock = sock
        self._fd = sock.fileno()
        self._protocol = protocol
        self._serve_front = serve_front
        self._unsent = []
        self._high = 64 << 10
        self._read_bytes = READ_BYTES
        self.last_read_s = monotonic_s()
        self.between_frames = True
        self._extra = {"socket": sock}
        try:
            self._extra["sockname"] = sock.getsockname()
            self._extra["peername"] = sock.getpeername()
        except OSError:
            pass  # gone already: the protocol sees that there is no name
        self._watched = EPOLLIN
        poller.add(self, self._fd, EPOLLIN)
        protocol.stream_made(self)

    # --- reading -----------------------------------------------------------------------------

    cdef int serve(self, uint32_t events) except -1:
        try:
            if events & EPOLLOUT and not self._lost:
                self._send_unsent()
            if events & (EPOLLIN | EPOLLHUP | EPOLLERR) and not self._lost:
                if self._waits:
                    pass  # also if the peer has gone: what it sent is served in its turn
                elif self._paused or self._closing:
                    if events & (EPOLLHUP | EPOLLERR):
                        self._lose(ConnectionResetError("the peer has gone"))
                else:
                    self._read()
        except Exception as error:
            self._poller.loop.call_exception_handler(
                {"message": "Fatal error on a connection", "exception": error, "transport": self,
                 "protocol": self._protocol}
            )
            self._lose(error)
        return 0

    cdef bint has_to_wait(self) except -1:
        """Whether what it brings may take long: all but small reads of peers whose reads are cheap."""
        cdef int waiting_bytes = 0
        if self._waits or self._paused or self._closing or self._lost:
            return False
        if self._reads < KNOWN_READS or self._cost_s > CHEAP_S or self._brings_much or not self.between_frames:
            return True
        return ioctl(self._fd, FIONREAD, &waiting_bytes) == 0 and waiting_bytes >= MUCH_BYTES

    cdef int wait_for_turn(self) except -1:
        self._waits = True
        self._watch()
        return 0

    def take_turn(self, double ends_s):
        """Read again: those who came before had their turns."""
        cdef double began_s = monotonic_s()
        self._waits = False
        if self._lost:
            return
        self._watch()
        self._poller.reading = True
        try:
            self.serve(EPOLLIN)
        finally:
            self._poller.end_reads()
        self.note_cost(monotonic_s() - began_s)

    cdef void note_cost(self, double took_s) noexcept:
        """Adapt what a read costs; one that took long is no sign: the machine may have had something else to do."""
        self._reads += 1
        if took_s < self._cost_s:
            self._cost_s = took_s
        else:
            self._cost_s += (min(took_s, 2 * CHEAP_S) - self._cost_s) / 8

    cdef int _read(self) except -1:
        cdef PyObject *whole = NULL
        cdef ssize_t size
        cdef bytes data
        cdef double began_s
        if self._brings_much:  # it will again: spare the copy
            whole = PyBytes_FromStringAndSize_(NULL, self._read_bytes)
            if whole == NULL:
                raise MemoryError
            size = recv(self._fd, PyBytes_AS_STRING_(whole), self._read_bytes, 0)
            if size <= 0:
                Py_DECREF_(whole)
        else:
            size = recv(self._fd, self._poller.buffer, self._read_bytes, 0)
        if size < 0:
            if errno != EAGAIN and errno != EINTR:
                self._lose(last_error())
            return 0
        if size == 0:
            self._protocol.eof_received()
            self.close()
            return 0
        self.last_read_s = self._poller.now_s
        if whole != NULL:
            if _PyBytes_Resize(&whole, size) < 0:
                raise MemoryError
            data = <bytes> whole
            Py_DECREF_(whole)
        else:
            data = PyBytes_FromStringAndSize(self._poller.buffer, size)
        self._brings_much = size >= MUCH_BYTES
        if not self._brings_much:
            return self._give(data)
        began_s = clock_s(CLOCK_THREAD_CPUTIME_ID)
        self._give(data)
        self._adapt_read_size(clock_s(CLOCK_THREAD_CPUTIME_ID) - began_s)
        return 0

    cdef int _give(self, bytes data) except -1:
        cdef Py_ssize_t served = -1
        if self.between_frames and self._serve_front is not None:
            served = self._serve_front(data, self._protocol)
            if served == len(data):
                return 0
        self._protocol.data_received(data, served)
        return 0

    cdef int _adapt_read_size(self, double took_s) except -1:
        """How much to read the next time, after what this time took."""
        cdef bint was_expensive = self._was_expensive
        self._was_expensive = took_s > EXPENSIVE_S
        if self._was_expensive:
            if was_expensive:  # once may be the turn of somebody else's messages as well, which wait in the send buffer
                self._read_bytes = max(self._read_bytes // 2, MUCH_BYTES)
        elif took_s < EXPENSIVE_S / 4:
            self._read_bytes = min(self._read_bytes * 2, <Py_ssize_t> READ_BYTES)
        return 0

    def pause_reading(self):
        self._paused = True
        self._watch()

    def resume_reading(self):
        self._paused = False
        self._watch()

    cdef int _watch(self) except -1:
        """Tell the kernel what is of interest now, if that has changed."""
        cdef uint32_t events = 0 if self._paused or self._closing or self._waits else EPOLLIN
        if self._unsent:
            events |= EPOLLOUT
        if events == self._watched or self._lost:
            return 0
        self._watched = events
        return self._poller.change(self, self._fd, events)

    # --- writing -----------------------------------------------------------------------------

    def write(self, data):
        """Send now what the kernel takes; the rest when it takes more."""
        cdef Py_buffer view
        cdef ssize_t sent = 0
        cdef Py_ssize_t size
        if self._closing:
            return
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            size = view.len
            if not self._unsent:
                sent = send(self._fd, view.buf, size, MSG_NOSIGNAL)
                if sent < 0:
                    sent = self._not_sent()
                self.taken_bytes += sent
        finally:
            PyBuffer_Release(&view)
        if sent < size and not self._lost:
            self._keep(memoryview(data)[sent:] if sent else data, size - sent)
            self._unsent_grew()

    def writelines(self, list parts not None):
        """As `write`, for the pieces of something."""
        if self._closing:
            return
        for part in parts:
            self._keep(part, len(part))
        if self._unsent_bytes and not self._watched & EPOLLOUT:
            self._send_unsent()
        if self._unsent:
            self._unsent_grew()

    cdef int _keep(self, object part, Py_ssize_t size) except -1:
        if size:
            self._unsent.append(part)
            self._unsent_bytes += size
        return 0

    cdef int _unsent_grew(self) except -1:
        self._watch()
        if self._unsent_bytes > self._high and not self._told_to_pause:
            self._told_to_pause = True
            self._protocol.pause_writing()
        self._protocol.replies_unread(self._unsent_bytes)
        return 0

    cdef ssize_t _not_sent(self) except -1:
        """After a call that sent nothing: 0 if the kernel only has no room now."""
        if errno != EAGAIN and errno != EINTR:
            self._lose(last_error())
        return 0

    cdef int _send_unsent(self) except -1:
        """Send pieces that wait, in their order, until the kernel takes no more."""
        cdef ssize_t sent
        cdef Py_ssize_t wanted
        while self._unsent:
            sent = self._send_some(&wanted)
            if self._lost:
                return 0
            self._drop_sent(sent)
            if sent < wanted:
                break
        self._watch()
        if self._told_to_pause and self._unsent_bytes <= self._high // 4:
            self._told_to_pause = False
            self._protocol.resume_writing()
        if self._closing and not self._unsent:
            self._lose(None)
        return 0

    cdef ssize_t _send_some(self, Py_ssize_t *wanted) except -1:
        """One call for the first pieces that wait; how many bytes of the `wanted` ones it sent."""
        cdef Py_buffer views[PARTS_MAX]
        cdef iovec parts[PARTS_MAX]
        cdef msghdr message
        cdef Py_ssize_t count = 0, i
        cdef ssize_t sent
        wanted[0] = 0
        try:
            for part in self._unsent[:PARTS_MAX]:
                PyObject_GetBuffer(part, &views[count], PyBUF_SIMPLE)
                parts[count].iov_base = views[count].buf
                parts[count].iov_len = views[count].len
                wanted[0] += views[count].len
                count += 1
            memset(&message, 0, sizeof(message))
            message.msg_iov = parts
            message.msg_iovlen = count
            sent = sendmsg(self._fd, &message, MSG_NOSIGNAL)
            return sent if sent >= 0 else self._not_sent()
        finally:
            for i in range(count):
                PyBuffer_Release(&views[i])

    cdef int _drop_sent(self, Py_ssize_t sent) except -1:
        cdef Py_ssize_t whole = 0, size
        self._unsent_bytes -= sent
        self.taken_bytes += sent
        for part in self._unsent:
            size = len(part)
            if size > sent:
                break
            sent -= size
            whole += 1
        del self._unsent[:whole]
        if sent:
            self._unsent[0] = memoryview(self._unsent[0])[sent:]
        return 0

    def get_write_buffer_size(self):
        return self._unsent_bytes

    def set_write_buffer_limits(self, Py_ssize_t high):
        self._high = high

    # --- the end -----------------------------------------------------------------------------

    def is_closing(self):
        return self._closing

    def close(self):
        """Close once what was written has left."""
        if not self._closing:
            self._closing = True
            if self._unsent:
                self._watch()
            else:
                self._lose(None)

    def abort(self):
        """Close immediately; what was not sent is dropped."""
        self._lose(None)

    cdef int _lose(self, object error) except -1:
        if self._lost:
            return 0
        self._closing = self._lost = True
        self._unsent.clear()
        self._unsent_bytes = 0
        return self._poller.remove(self, self._fd, error)

    cdef int end(self, object error) except -1:
        try:
            self._protocol.connection_lost(error)
        finally:
            self._sock.close()
            self._serve_front = None
        return 0

    def get_extra_info(self, name, default=None):
        return self._extra.get(name, default)
