# cython: language_level=3
"""The thread of `page_prefault.py`, in C alone.

It runs only when a core has nothing else to do, so it must hold nothing that others wait for: not the interpreter
lock, no other one. What it is told comes through a pipe and is its own from then on; the end of the pipe is its end.
"""

from libc.stdint cimport int64_t, intptr_t
from libc.string cimport memset
from posix.unistd cimport close, read

cdef extern from "<fcntl.h>" nogil:
    int posix_fadvise(int fd, int64_t offset, int64_t length, int advice)
    int fcntl(int fd, int command, int value)
    int POSIX_FADV_WILLNEED, F_SETFL, O_NONBLOCK

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd *fds, unsigned long count, int timeout)
    short POLLHUP

cdef extern from "<signal.h>" nogil:
    ctypedef struct sigset_t:
        pass
    int sigfillset(sigset_t *signals)
    int pthread_sigmask(int how, const sigset_t *signals, sigset_t *before)
    int SIG_SETMASK

cdef extern from "<sched.h>" nogil:
    struct sched_param:
        int sched_priority
    int sched_setscheduler(int pid, int policy, const sched_param *param)
    int sched_yield()
    int SCHED_IDLE

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t:
        pass
    int pthread_create(pthread_t *thread, void *attributes, void *(*work)(void *) noexcept nogil, void *argument)
    int pthread_detach(pthread_t thread)

cdef struct PrefaultOrder:
    int64_t fd
    int64_t start
    int64_t end

cdef enum:
    PIECE_BYTES = 16 << 10  # the kernel looks for others to run only between two calls
    LOOK_BYTES = 1 << 20


def start(int pipe):
    """Begin a thread that reads orders (fd, start, end: int64 each) from `pipe`; all descriptors become its own."""
    cdef pthread_t thread
    if pthread_create(&thread, NULL, &_work, <void *> <intptr_t> pipe):
        close(pipe)
        raise OSError("no thread for bringing pages of the log into memory")
    pthread_detach(thread)


cdef void *_work(void *argument) noexcept nogil:
    cdef int pipe = <int> <intptr_t> argument
    cdef PrefaultOrder order
    cdef sched_param param
    cdef sigset_t signals
    sigfillset(&signals)
    pthread_sigmask(SIG_SETMASK, &signals, NULL)  # they are for Python's threads
    memset(&param, 0, sizeof(param))
    sched_setscheduler(0, SCHED_IDLE, &param)
    while not _is_over(pipe) and read(pipe, &order, sizeof(order)) == sizeof(order):
        _prefault(&order, pipe)
        close(<int> order.fd)
    fcntl(pipe, F_SETFL, O_NONBLOCK)
    while read(pipe, &order, sizeof(order)) == sizeof(order):
        close(<int> order.fd)
    close(pipe)
    return NULL


cdef void _prefault(PrefaultOrder *order, int pipe) noexcept nogil:
    cdef int64_t at = order.start - order.start % PIECE_BYTES
    while at < order.end:
        if posix_fadvise(<int> order.fd, at, min(<int64_t> PIECE_BYTES, order.end - at), POSIX_FADV_WILLNEED):
            return
        at += PIECE_BYTES
        if at % LOOK_BYTES == 0 and _is_over(pipe):
            return
        sched_yield()


cdef bint _is_over(int pipe) noexcept nogil:
    cdef pollfd asked
    asked.fd = pipe
    asked.events = asked.revents = 0
    poll(&asked, 1, 0)
    return asked.revents & POLLHUP
