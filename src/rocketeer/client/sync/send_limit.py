"""Limits what is in flight: where threads wait when too many of their async sends are unanswered."""

import threading
import time

from rocketeer.client.core.in_flight import InFlight
from rocketeer.errors import ClientClosed, TooManyInFlight


class ThreadSendLimit:
    """`enter(size, timeout_s)`, then `leave(size)` when the answer is there; from any thread."""

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight
        self._changed = threading.Condition(threading.Lock())
        self._waiting = 0
        self._closed = False

    def enter(self, size: int, timeout_s: float) -> None:
        with self._changed:
            if not self._closed and not self._waiting and self._in_flight.try_enter(size):
                return
            self._waiting += 1
            try:
                if not self._changed.wait_for(
                    lambda: self._closed or self._in_flight.try_enter(size), timeout_s
                ):
                    raise TooManyInFlight(f"{self._in_flight} and none ended within {timeout_s:g} s")
            finally:
                self._waiting -= 1
            if self._closed:
                raise ClientClosed("the producer is closed")

    def leave(self, size: int) -> None:
        with self._changed:
            self._in_flight.leave(size)
            if self._waiting:
                self._changed.notify_all()

    def close(self, timeout_s: float) -> bool:
        """Let nobody in any more, and wait until all are out; False when it takes longer."""
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            while self._in_flight.count:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    return False
                self._waiting += 1
                self._changed.wait(left_s)
                self._waiting -= 1
        return True
