# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Reads the sockets of a server that are ready, in one call of the event loop: see `streams.py` and ADR 12.

The sockets are in an epoll set of their own, whose descriptor the loop watches; asyncio's way costs some calls in
Python for each of them.
"""

import os
from collections import deque

from rocketeer.remoting import fair_queue as rule
from rocketeer.remoting.fair_queue import fair_queue

from libc.errno cimport errno
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc
from posix.unistd cimport close

cdef extern from "<sys/epoll.h>" nogil:
    ctypedef union epoll_data_t:
        void *ptr
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epfd, int op, int fd, epoll_event *event)
    int epoll_wait(int epfd, epoll_event *events, int size, int timeout)
    int EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL

cdef enum:
    EVENTS_MAX = 256

cdef double ENDS_S = 0.001  # of a turn, for telling that connections have ended
cdef double READS_S = rule.READS_S


cdef object last_error():
    return OSError(errno, os.strerror(errno))


cdef class PolledSocket:
    """What a poller serves: `_stream.Stream`."""

    cdef int serve(self, uint32_t events) except -1:
        """Deal with what has happened on its socket."""
        raise NotImplementedError

    cdef bint has_to_wait(self) except -1:
        """Whether what it brings may take long."""
        raise NotImplementedError

    cdef int wait_for_turn(self) except -1:
        """Do not read until `take_turn(ends_s)` is called."""
        raise NotImplementedError

    cdef void note_cost(self, double took_s) noexcept:
        """Note how long it took to serve it."""

    cdef int end(self, object error) except -1:
        """Close the socket, and tell whoever used it."""
        raise NotImplementedError


cdef class SocketPoller:
    """Reads every socket that is ready, once, but those that have to wait; then does what was put off until then."""

    def __cinit__(self, loop):
        self._epoll = epoll_create1(EPOLL_CLOEXEC)
        self.buffer = <char *> malloc(READ_BYTES)
        if self.buffer == NULL:
            raise MemoryError
        if self._epoll < 0:
            raise last_error()

    def __init__(self, loop):
        self.loop = loop
        self._after = []
        self._polled = set()
        self._ended = deque()

    def start(self):
        """Have the loop call `read` when a socket is ready."""
        self.loop.add_reader(self._epoll, self.read)

    def __dealloc__(self):
        free(self.buffer)
        if self._epoll >= 0:
            close(self._epoll)

    def close(self):
        """Read no socket any more."""
        if self._epoll >= 0:
            self.loop.remove_reader(self._epoll)
            close(self._epoll)
            self._epoll = -1

    def after_reads(self, callback):
        """Have something run when the sockets that are ready now have been read."""
        if self.reading:
            self._after.append(callback)
        else:
            self.loop.call_soon(callback)

    cdef int add(self, PolledSocket polled, int fd, uint32_t events) except -1:
        """Serve it when these happen, from now on."""
        cdef epoll_event event
        self._polled.add(polled)
        event.events = events
        event.data.ptr = <void *> polled
        if epoll_ctl(self._epoll, EPOLL_CTL_ADD, fd, &event) < 0:
            self._polled.discard(polled)
            raise last_error()
        return 0

    cdef int change(self, PolledSocket polled, int fd, uint32_t events) except -1:
        cdef epoll_event event
        if self._epoll < 0:
            return 0
        event.events = events
        event.data.ptr = <void *> polled
        if epoll_ctl(self._epoll, EPOLL_CTL_MOD, fd, &event) < 0:
            raise last_error()
        return 0

    cdef int remove(self, PolledSocket polled, int fd, object error) except -1:
        """Serve it no more; its `end` is called in another turn of the loop."""
        if self._epoll >= 0:
            epoll_ctl(self._epoll, EPOLL_CTL_DEL, fd, NULL)
        if not self._ended:
            self.loop.call_soon(self._tell_ends)
        self._ended.append((polled, error))
        return 0

    def _tell_ends(self):
        cdef double until_s = monotonic_s() + ENDS_S
        cdef PolledSocket polled
        try:
            while self._ended:
                polled, error = self._ended.popleft()
                self._polled.discard(polled)
                polled.end(error)
                if monotonic_s() >= until_s:
                    break
        finally:
            if self._ended:
                self.loop.call_soon(self._tell_ends)

    def call_as_read(self, callback):
        """Call what brings requests as one of the reads: what was put off until they are done is done, too."""
        self.reading = True
        try:
            callback()
        finally:
            self.end_reads()

    def read(self):
        """Serve the sockets that are ready; those that may take long while others wait are queued for a turn."""
        cdef epoll_event events[EVENTS_MAX]
        cdef int count, i
        cdef PolledSocket polled
        cdef double before_s, now_s
        cdef bint others_wait
        if self._epoll < 0:
            return
        others_wait = self._fair_queue is not None and len(self._fair_queue) > 0
        count = epoll_wait(self._epoll, events, EVENTS_MAX, 0)
        self.now_s = now_s = monotonic_s()
        self.reading = True
        try:
            for i in range(count):
                polled = <PolledSocket> events[i].data.ptr  # `_polled` keeps it until the next turn at least
                before_s = now_s
                if (others_wait or now_s - self.now_s > READS_S) and polled.has_to_wait():
                    polled.wait_for_turn()
                    if self._fair_queue is None:
                        self._fair_queue = fair_queue()
                    self._fair_queue.add(polled)
                    others_wait = True
                else:
                    polled.serve(events[i].events)
                    now_s = monotonic_s()
                    polled.note_cost(now_s - before_s)
        finally:
            self.end_reads()

    cdef int end_reads(self) except -1:
        """Call what `after_reads` put off: what came together is stored together, in the time of who brought it."""
        self.reading = False
        after, self._after = self._after, []
        for callback in after:
            try:
                callback()
            except Exception as error:
                self.loop.call_exception_handler(
                    {"message": f"Exception in callback {callback!r}", "exception": error}
                )
        return 0
