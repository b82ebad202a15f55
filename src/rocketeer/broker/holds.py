"""Held pulls: waiters on (topic, queue) with a callback, woken by an arriving message or by their deadline.

Pure of frames: the pull handler, and later POP and the in-process broker, hold with the same call.
"""

import heapq
import itertools
from collections.abc import Callable

Key = tuple[str, int]


class Waiter:
    """One held pull. `retry(last)` tries again; it returns False when it wants to be held on."""

    __slots__ = ("deadline_s", "key", "retry")

    def __init__(self, key: Key, deadline_s: float, retry: Callable[[bool], bool]) -> None:
        self.key = key
        self.deadline_s = deadline_s
        self.retry = retry


class HeldPulls:
    """All waiters; `schedule` runs a function once, soon, on the loop (arrivals of one run wake together)."""

    def __init__(self, schedule: Callable[[Callable[[], None]], object]) -> None:
        self._schedule = schedule
        self._waiting: dict[Key, set[Waiter]] = {}
        self._deadlines: list[tuple[float, int, Waiter]] = []
        self._order = itertools.count()
        self._arrived: set[Key] = set()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def hold(self, topic: str, queue_id: int, deadline_s: float, retry: Callable[[bool], bool]) -> Waiter:
        key = (topic, queue_id)
        waiter = Waiter(key, deadline_s, retry)
        self._waiting.setdefault(key, set()).add(waiter)
        heapq.heappush(self._deadlines, (deadline_s, next(self._order), waiter))
        return waiter

    def arrived(self, topic: str, queue_id: int, max_offset: int) -> None:
        """Messages were stored; called after every run, so it only takes a note."""
        key = (topic, queue_id)
        if key in self._waiting:
            if not self._arrived:
                self._schedule(self._wake_arrived)
            self._arrived.add(key)

    def expire(self, now_s: float) -> None:
        """Give every waiter whose time is over its last try."""
        while self._deadlines and self._deadlines[0][0] <= now_s:
            waiter = heapq.heappop(self._deadlines)[2]
            if self._release(waiter):
                waiter.retry(True)

    def wake_all(self) -> None:
        """The broker stops: everybody gets the last try now."""
        self.expire(float("inf"))

    def _wake_arrived(self) -> None:
        keys, self._arrived = self._arrived, set()
        for key in keys:
            for waiter in list(self._waiting.get(key, ())):
                if waiter.retry(False):
                    self._release(waiter)

    def _release(self, waiter: Waiter) -> bool:
        waiters = self._waiting.get(waiter.key)
        if waiters is None or waiter not in waiters:
            return False
        waiters.remove(waiter)
        if not waiters:
            del self._waiting[waiter.key]
        return True
