"""Which brokers to keep away from, and for how long: the slower the last answer, the longer."""

import itertools
from typing import Final, NamedTuple

from rocketeer.clock import Clock

# Answered within .. ms -> keep away for .. ms, the slowest first.
AWAY_MS: Final = (
    (15_000, 600_000),
    (3_000, 180_000),
    (2_000, 120_000),
    (1_000, 60_000),
    (550, 30_000),
)
ERROR_COUNTS_AS_MS: Final = 30_000


class _Fault(NamedTuple):
    latency_ms: float
    away_until_s: float


class FaultTable:
    """One entry per broker name, its last send. Threads may share it: entries are replaced, never changed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._faults: dict[str, _Fault] = {}
        self._turn = itertools.count()

    def report(self, broker_name: str, latency_ms: float, *, failed: bool) -> None:
        """What a send to the broker took; a failed one counts as very slow."""
        away_s = away_ms(ERROR_COUNTS_AS_MS if failed else latency_ms) / 1000
        self._faults[broker_name] = _Fault(latency_ms, self._clock.monotonic_s() + away_s)

    def available(self, broker_name: str) -> bool:
        fault = self._faults.get(broker_name)
        return fault is None or self._clock.monotonic_s() >= fault.away_until_s

    def least_bad(self) -> str | None:
        """One of the better half of the brokers that had an entry, in turn; None when there is none."""
        now_s = self._clock.monotonic_s()
        entries = tuple(self._faults.items())  # a copy: other threads add to the table
        ranked = sorted(
            entries,
            key=lambda item: (now_s < item[1].away_until_s, item[1].latency_ms, item[1].away_until_s),
        )
        if not ranked:
            return None
        return ranked[next(self._turn) % max(len(ranked) // 2, 1)][0]

    def forget(self, broker_name: str) -> None:
        self._faults.pop(broker_name, None)


def away_ms(latency_ms: float) -> int:
    """How long to keep away after an answer that took so long.

    >>> away_ms(100), away_ms(550), away_ms(1_500), away_ms(30_000)
    (0, 30000, 60000, 600000)
    """
    return next((away for limit, away in AWAY_MS if latency_ms >= limit), 0)
