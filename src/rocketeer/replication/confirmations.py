"""Who waits for a slave: SYNC_MASTER's sends, answered when one slave has them, or when it takes too long.

Pure but for the clock it is given. `SlaveProgress` values say how far slaves are; nothing here knows sockets.
"""

import math
from collections import deque
from collections.abc import Callable, Collection
from enum import Enum
from typing import Protocol

from rocketeer.answers import AnswersInOrder, Schedule, at_once
from rocketeer.clock import Clock
from rocketeer.model.offsets import LogOffset


class SlaveOutcome(Enum):
    """What became of a send that waited for a slave; it is stored on the master either way."""

    CONFIRMED = "a slave has it"
    NO_SLAVE = "no slave is near enough"
    TIMEOUT = "no slave had it in time"


class SlaveProgress(Protocol):
    """One connected slave."""

    @property
    def acknowledged(self) -> LogOffset:
        """The end of its log by its last report, of what this master has sent; -1 before its first."""
        ...


OnSlaveConfirmed = Callable[[SlaveOutcome], None]


class Confirmations:
    """Answers sends when a slave has them. Belongs to the loop thread. `slaves` is the live collection of slaves."""

    def __init__(
        self,
        slaves: Collection[SlaveProgress],
        clock: Clock,
        *,
        timeout_ms: int,
        behind_bytes_max: int,
        schedule: Schedule = at_once,
    ) -> None:
        """`schedule`: thousands may be confirmed together."""
        self._slaves = slaves
        self._clock = clock
        self._timeout_s = timeout_ms / 1000
        self._behind_bytes_max = behind_bytes_max
        self._waiters: deque[tuple[LogOffset, float, OnSlaveConfirmed]] = deque()
        self._reached = LogOffset(-1)
        """What a slave had when it reported: those below it are being answered, whatever becomes of the slave."""
        self._answers = AnswersInOrder(self._answer_next, schedule)
        self._late_s = 0.0
        """Time up to which waiting sends were looked at: those whose time was over by then are given up."""
        self._late = AnswersInOrder(self._expire_next, schedule)

    def __len__(self) -> int:
        return len(self._waiters)

    @property
    def confirmed(self) -> LogOffset:
        """The log below it is on a slave that is connected now; -1 without one."""
        return max([slave.acknowledged for slave in self._slaves], default=LogOffset(-1))

    def wait(self, end: LogOffset, done: OnSlaveConfirmed) -> None:
        """Call back once, now or later: a slave has the log below `end`, or why not."""
        confirmed = self.confirmed
        if end <= confirmed:
            done(SlaveOutcome.CONFIRMED)
        elif confirmed < 0 or end - confirmed >= self._behind_bytes_max:
            done(SlaveOutcome.NO_SLAVE)
        else:
            self._waiters.append((end, self._clock.monotonic_s() + self._timeout_s, done))

    def advanced(self) -> None:
        """Answer those who wait, after a slave's report."""
        self._reached = max(self._reached, self.confirmed)
        self._answers.go_on()

    def _answer_next(self) -> bool:
        if not self._waiters or self._waiters[0][0] > self._reached:
            return False
        self._waiters.popleft()[2](SlaveOutcome.CONFIRMED)
        return True

    def expire(self) -> None:
        """Give up on those who waited too long; call it now and then."""
        self._late_s = self._clock.monotonic_s()
        self._late.go_on()

    def _expire_next(self) -> bool:
        if not self._waiters or self._waiters[0][1] > self._late_s:
            return False
        end, _, done = self._waiters.popleft()
        done(SlaveOutcome.CONFIRMED if end <= self._reached else SlaveOutcome.TIMEOUT)
        return True

    def close(self) -> None:
        """Answer all who wait: no slave will report any more."""
        self._late_s = math.inf
        self._late.finish()
