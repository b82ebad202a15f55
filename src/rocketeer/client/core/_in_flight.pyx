# cython: language_level=3
"""Places in flight, compiled: the twin of `in_flight_plain.py`, which says what is what."""

from collections import deque


cdef class InFlight:
    """Places and bytes taken, and who waits for some."""

    def __init__(self, Py_ssize_t count_max, Py_ssize_t bytes_max, str state="unanswered"):
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._count = 0
        self._bytes = 0
        self._state = state
        self.waiting = deque()

    def __str__(self):
        return f"{self._count} sends are {self._state}"

    @property
    def count(self):
        return self._count

    cpdef bint try_enter(self, Py_ssize_t size) except -1:
        if self._count and (self._count >= self._count_max or self._bytes + size > self._bytes_max):
            return False
        self._count += 1
        self._bytes += size
        return True

    cpdef bint seek(self, object seeker) except -1:
        if not len(self.waiting) and self.try_enter(seeker.size):
            seeker.enter()
            return True
        self.waiting.append(seeker)
        return False

    def leave(self, Py_ssize_t size, Py_ssize_t count=1):
        self._count -= count
        self._bytes -= size
        assert self._count >= 0, "left more often than entered"

    def admit(self):
        waiting = self.waiting
        while len(waiting):
            seeker = waiting[0]
            if seeker.done():  # given up
                waiting.popleft()
                continue
            if not self.try_enter(seeker.size):
                return
            waiting.popleft()
            seeker.enter()
