"""Whether a send is tried once more, and after which pause. Pure.

An attempt that certainly stored nothing (no connection came about, or the broker takes no messages) costs nothing:
the other brokers are tried at once, then all again after growing pauses, until the send's time is over. One without
an answer may have been stored: of those there are as many as RocketMQ's clients make.
"""

from typing import Final

from rocketeer.client.core.transient import backoffs, stored_nothing
from rocketeer.errors import (
    BrokerRefused,
    CallTimeout,
    ClientError,
    ConnectFailed,
    NoBroker,
    SendFailed,
    SendTimeout,
)
from rocketeer.model.queue import MessageQueue

PAUSE_S: Final = 0.05
PAUSE_S_MAX: Final = 0.3
"""A group elects its leader within seconds: longer pauses would be most of what a sender notices of it."""
TIMEOUT_S_MAX: Final = 366 * 86_400
KEPT: Final = 10
"""Attempts that an error tells of."""


def check_timeout(timeout_s: float) -> None:
    """Raise ClientError for a time that no send can have."""
    try:
        fits = 0 < timeout_s <= TIMEOUT_S_MAX
    except TypeError:
        fits = False
    if not fits:
        raise ClientError(
            f"timeout_s is {timeout_s!r}: a send needs some time, it must be more than 0 and at most a year"
        )


class Attempts:
    """The failed attempts of one send. `most` counts those that may have been stored."""

    def __init__(self, topic: str, *, most: int, patient: bool, timeout_s: float, deadline_s: float) -> None:
        self._topic = topic
        self._left = most
        self._patient = patient
        self._timeout_s = timeout_s
        self._deadline_s = deadline_s
        self._count = 0
        self._tried: list[tuple[object, Exception]] = []
        self._unreachable: set[str] = set()
        """Brokers since the last pause."""
        self._pauses_s = backoffs(PAUSE_S, PAUSE_S_MAX)

    def failed(
        self, queue: MessageQueue, error: Exception, now_s: float, brokers: int, *, another_may: bool = True
    ) -> float | None:
        """How long to pause before the next attempt; None when there is none. The topic has so many `brokers`."""
        self._count += 1
        self._tried = [*self._tried[1 - KEPT :], (queue, error)]
        if self._patient and stored_nothing(error):
            self._unreachable.add(queue.broker_name)
            if len(self._unreachable) < brokers:
                return 0.0
            self._unreachable.clear()
            left_s = self._deadline_s - now_s
            return min(next(self._pauses_s), left_s) if left_s > 0 else None
        self._left -= 1
        return 0.0 if self._left > 0 and another_may and now_s < self._deadline_s else None

    def not_safe(self, now_s: float) -> bool:
        """Whether another broker is tried for a message that is stored, but not safely (FLUSH_DISK_TIMEOUT, say)."""
        self._left -= 1
        return self._left > 0 and now_s < self._deadline_s

    def error(self, now_s: float) -> ClientError:
        """What the sender is told."""
        last = self._tried[-1][1] if self._tried else None
        if isinstance(last, BrokerRefused | NoBroker):
            for queue, error in self._tried[:-1]:
                last.add_note(f"tried before: {queue}: {error}")
            return last
        failure: SendFailed
        if isinstance(last, ConnectFailed):
            many = f"{self._count} attempt{'s' if self._count != 1 else ''} failed"
            within = f" within {self._timeout_s:g} s" if now_s >= self._deadline_s else ""
            failure = SendFailed(self._topic, self._tried, many + within)
        elif now_s >= self._deadline_s or isinstance(last, CallTimeout) or last is None:
            failure = SendTimeout(self._topic, self._tried, f"no answer within {self._timeout_s:g} s")
        else:
            failure = SendFailed(self._topic, self._tried)
        failure.__cause__ = last
        return failure
