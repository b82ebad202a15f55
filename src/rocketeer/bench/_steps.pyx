# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The load generator's inner steps, compiled: twins of `steps_plain.py`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from rocketeer.protocol._frame_head cimport FrameHead, read_frame_head
from rocketeer.security._signing cimport SigningKey

cdef extern from "string.h" nogil:
    void *memmem(const void *where, size_t size, const void *what, size_t what_size)

cdef enum:
    NUMBER_WIDTH = 10
    STAMP_WIDTH = 20


cdef inline void put_digits(char *at, int64_t number, Py_ssize_t width) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(width - 1, -1, -1):
        at[i] = 48 + <char> (number % 10)
        number //= 10


cdef class Frames:
    """Copies of one frame, each with its own number, place and stamp."""

    cdef bytes _frame
    cdef Py_ssize_t _topic_at, _queue_at, _stamp_at, _slots
    cdef Py_ssize_t *_numbers_at
    cdef list _places
    cdef Frames _content
    cdef SigningKey _key
    cdef Py_ssize_t _signature_at
    cdef char *_scratch

    def __cinit__(self, bytes frame, list numbers_at, Py_ssize_t topic_at, Py_ssize_t queue_at,
                  Py_ssize_t stamp_at, list places):
        self._frame, self._places = frame, places
        self._topic_at, self._queue_at, self._stamp_at = topic_at, queue_at, stamp_at
        self._slots = len(numbers_at)
        self._numbers_at = <Py_ssize_t *> malloc(self._slots * sizeof(Py_ssize_t))
        if self._numbers_at == NULL:
            raise MemoryError
        for i, at in enumerate(numbers_at):
            self._numbers_at[i] = at

    def __dealloc__(self):
        free(self._numbers_at)
        free(self._scratch)

    def sign(self, Frames content not None, bytes secret not None, Py_ssize_t signature_at):
        """As the twin's."""
        self._content, self._key, self._signature_at = content, SigningKey(secret), signature_at
        self._scratch = <char *> malloc(PyBytes_GET_SIZE(content._frame))
        if self._scratch == NULL:
            raise MemoryError

    def make(self, int64_t first, list due_ns):
        cdef Py_ssize_t size = PyBytes_GET_SIZE(self._frame), count = len(due_ns), i
        cdef bytes made = PyBytes_FromStringAndSize(NULL, size * count)
        cdef char *at = PyBytes_AS_STRING(made)
        for i in range(count):
            self._fill(at, first + i, due_ns[i])
            if self._content is not None:
                self._content._fill(self._scratch, first + i, due_ns[i])
                self._key.sign_parts(
                    self._scratch, PyBytes_GET_SIZE(self._content._frame), at, 0, at + self._signature_at
                )
            at += size
        return made

    cdef int _fill(self, char *at, int64_t number, int64_t due_ns) except -1:
        cdef char digits[NUMBER_WIDTH]
        cdef bytes topic, queue
        cdef Py_ssize_t slot
        memcpy(at, PyBytes_AS_STRING(self._frame), PyBytes_GET_SIZE(self._frame))
        put_digits(digits, number, NUMBER_WIDTH)
        for slot in range(self._slots):
            memcpy(at + self._numbers_at[slot], digits, NUMBER_WIDTH)
        topic, queue = self._places[number % len(self._places)]
        memcpy(at + self._topic_at, PyBytes_AS_STRING(topic), PyBytes_GET_SIZE(topic))
        at[self._queue_at] = PyBytes_AS_STRING(queue)[0]
        if self._stamp_at >= 0:
            put_digits(at + self._stamp_at, due_ns, STAMP_WIDTH)
        return 0


cdef class Flight:
    """The requests of a connection that wait for their replies, in a ring by their numbers."""

    cdef readonly int under_way, mismatched, refused
    cdef int64_t *_since
    cdef int64_t _mask
    cdef Py_ssize_t _most

    def __cinit__(self, int most):
        cdef int64_t room = 1
        while room < most:
            room *= 2
        self._most = most
        self._mask = room - 1
        self._since = <int64_t *> malloc(room * sizeof(int64_t))
        if self._since == NULL:
            raise MemoryError
        memset(self._since, 0, room * sizeof(int64_t))

    def __dealloc__(self):
        free(self._since)

    def begin(self, int64_t first, list due_ns):
        cdef int64_t due, number
        if self.under_way + len(due_ns) > self._most:
            return False
        for number in range(first, first + len(due_ns)):
            if self._since[number & self._mask]:
                return False
        number = first
        for due in due_ns:
            self._since[number & self._mask] = due
            number += 1
        self.under_way += len(due_ns)
        return True

    def end(self, bytes data, int64_t now_ns, uint32_t[::1] by_us, slow):
        cdef const char *at = PyBytes_AS_STRING(data)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data), done = 0, begin = 0, i
        cdef FrameHead head
        cdef const char *found
        cdef int64_t number, since, us
        cdef int answered = 0
        self.refused = 0
        while read_frame_head(at + done, size - done, &head):
            begin = done
            done += head.frame_bytes
            answered += 1
            if memmem(at + begin, head.frame_bytes, b'"code":0,', 9) == NULL:
                self.refused += 1
            found = <const char *> memmem(at + begin, head.frame_bytes, b'"opaque":', 9)
            if found == NULL:
                self.mismatched += 1
                continue
            number = 0
            i = 9
            while 48 <= found[i] <= 57:
                number = number * 10 + (found[i] - 48)
                i += 1
            since = self._since[number & self._mask]
            if not since:
                self.mismatched += 1
                continue
            self._since[number & self._mask] = 0
            self.under_way -= 1
            us = (now_ns - since) // 1000
            if us < by_us.shape[0]:
                by_us[us] += 1
            else:
                slow(us)
        return answered, begin, done
