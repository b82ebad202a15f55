"""Limits what is in flight: where threads wait when too many of their async sends are unanswered."""

import threading
import time

from rocketeer.client.core.in_flight import InFlight
from rocketeer.errors import ClientClosed, TooManyInFlight


class ThreadSendLimit:
    """`enter(size)`, then `leave(size)` when the answer is there; from any thread.

    Whoever waits does so as long as others are answered; TooManyInFlight when none was for `stalled_s`.
    """

    def __init__(self, in_flight: InFlight, stalled_s: float) -> None:
        self._in_flight = in_flight
        self._stalled_s = stalled_s
        self._changed = threading.Condition(threading.Lock())
        self._answered = 0
        self._waiting = 0
        self._closed = False

    def enter(self, size: int) -> None:
        with self._changed:
            if not self._closed and not self._waiting and self._in_flight.try_enter(size):
                return
            self._waiting += 1
            try:
                self._wait(size)
            finally:
                self._waiting -= 1
            if self._closed:
                raise ClientClosed("the producer is closed")

    def _wait(self, size: int) -> None:
        while True:
            answered = self._answered
            if self._changed.wait_for(
                lambda: self._closed or self._in_flight.try_enter(size), self._stalled_s
            ):
                return
            if self._answered == answered:
                text = f"{self._in_flight}, and no place got free within {self._stalled_s:g} s"
                raise TooManyInFlight(f"{text} (place_timeout_s)")

    def leave(self, size: int, *, answered: bool = True) -> None:
        with self._changed:
            self._answered += answered
            self._in_flight.leave(size)
            if self._waiting:
                self._changed.notify_all()

    def close(self, timeout_s: float) -> bool:
        """Refuse new sends and wait until none is in flight; False when the time was over first."""
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
