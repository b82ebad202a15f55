"""Places in flight in plain Python: what `_in_flight.pyx` does compiled."""

from collections import deque
from typing import Protocol


class SlotWaiter(Protocol):
    """A send that waits for a place."""

    @property
    def size(self) -> int: ...

    def done(self) -> bool:
        """Whether it has given up waiting."""

    def enter(self) -> None:
        """Called when it has a place."""

    def set_exception(self, error: Exception, /) -> None:
        """Called when it will get none."""


class InFlight:
    """Places and bytes taken, and who waits for some. Something larger than all the bytes still passes when it is
    alone."""

    __slots__ = ("_bytes", "_bytes_max", "_count", "_count_max", "_state", "waiting")

    def __init__(self, count_max: int, bytes_max: int, state: str = "unanswered") -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._count = 0
        self._bytes = 0
        self._state = state
        self.waiting: deque[SlotWaiter] = deque()
        """Sends that wait for a place, the oldest first."""

    def __str__(self) -> str:
        """For the text of an error."""
        return f"{self._count} sends are {self._state}"

    @property
    def count(self) -> int:
        return self._count

    def try_enter(self, size: int) -> bool:
        """Take a place if there is one, whoever waits."""
        if self._count and (self._count >= self._count_max or self._bytes + size > self._bytes_max):
            return False
        self._count += 1
        self._bytes += size
        return True

    def seek(self, seeker: SlotWaiter) -> bool:
        """Give it a place now, or have it wait for one."""
        if not self.waiting and self.try_enter(seeker.size):
            seeker.enter()
            return True
        self.waiting.append(seeker)
        return False

    def leave(self, size: int, count: int = 1) -> None:
        """Give `count` places back, of `size` bytes together; who waits does not notice before `admit`."""
        self._count -= count
        self._bytes -= size
        assert self._count >= 0, "left more often than entered"

    def admit(self) -> None:
        """Let in who waits, as far as there are places."""
        waiting = self.waiting
        while waiting:
            seeker = waiting[0]
            if seeker.done():  # given up
                waiting.popleft()
                continue
            if not self.try_enter(seeker.size):
                return
            waiting.popleft()
            seeker.enter()
