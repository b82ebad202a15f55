from libc.stdint cimport uint32_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec
from posix.types cimport clockid_t

cdef extern from "<sys/epoll.h>" nogil:
    uint32_t EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP

cdef enum:
    READ_BYTES = 256 << 10


cdef inline double clock_s(clockid_t clock) noexcept:
    cdef timespec now
    clock_gettime(clock, &now)
    return <double> now.tv_sec + <double> now.tv_nsec / 1e9


cdef inline double monotonic_s() noexcept:
    return clock_s(CLOCK_MONOTONIC)


cdef object last_error()


cdef class PolledSocket:
    cdef int serve(self, uint32_t events) except -1
    cdef bint has_to_wait(self) except -1
    cdef int wait_for_turn(self) except -1
    cdef void note_cost(self, double took_s) noexcept
    cdef int end(self, object error) except -1


cdef class SocketPoller:
    cdef readonly object loop
    cdef char *buffer  # READ_BYTES, for one read
    cdef double now_s  # when the reads under way began
    cdef bint reading  # sockets that are ready; `end_reads` ends it
    cdef int _epoll
    cdef list _after
    cdef set _polled
    cdef object _ended  # those that are lost, and why; they are ended a few at a time: thousands may go together
    cdef object _fair_queue  # where they wait; None until one had to

    cdef int add(self, PolledSocket polled, int fd, uint32_t events) except -1
    cdef int change(self, PolledSocket polled, int fd, uint32_t events) except -1
    cdef int remove(self, PolledSocket polled, int fd, object error) except -1
    cdef int end_reads(self) except -1
