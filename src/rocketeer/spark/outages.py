"""How long a server that does not answer is waited for: pauses that grow, until the time an option gives is over.

Planning, tasks that read (`fetchTimeout`) and tasks that write (`deliveryTimeout`) use the same: a broker that
restarts, or a group that changes its leader, costs time and no query.
"""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final

from rocketeer.client.core.transient import backoffs

log = logging.getLogger(__name__)

PAUSE_S_MAX: Final = 5.0
"""The longest pause between two tries."""


class Outage:
    """Tries of one thing since it last went well. `clock_s` is asked for the time."""

    def __init__(
        self, limit_s: float, first_pause_s: float, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit_s = limit_s
        self._first_pause_s = first_pause_s
        self._clock_s = clock_s
        self._began_s: float | None = None
        self._pauses: Iterator[float] = iter(())
        self.tries = 0
        """Failures since it last went well."""

    @property
    def seconds(self) -> float:
        """Seconds since the first failure."""
        return 0.0 if self._began_s is None else self._clock_s() - self._began_s

    def over(self) -> None:
        """Reset: the last try succeeded."""
        self._began_s = None
        self.tries = 0

    def pause_s(self, limit_s: float | None = None) -> float | None:
        """Record a failure; returns the pause before the next try, None when no time is left."""
        limit_s = self._limit_s if limit_s is None else min(limit_s, self._limit_s)
        if self._began_s is None:
            self._began_s = self._clock_s()
            self._pauses = backoffs(self._first_pause_s, max(PAUSE_S_MAX, self._first_pause_s))
        self.tries += 1
        left_s = limit_s - self.seconds
        return min(next(self._pauses), left_s) if left_s > 0 else None
