"""Time as an argument: whoever needs the time is given one of these, so tests own it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall-clock milliseconds for what is stored, monotonic seconds for what is measured."""

    def now_ms(self) -> int: ...

    def monotonic_s(self) -> float: ...


class SystemClock:
    """The machine's own time."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told to.

    >>> clock = ManualClock(start_ms=1_000)
    >>> clock.advance(ms=500)
    >>> clock.now_ms()
    1500
    """

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._ms = start_ms

    def advance(self, *, ms: int) -> None:
        assert ms >= 0, "time does not run backwards"
        self._ms += ms

    def now_ms(self) -> int:
        return self._ms

    def monotonic_s(self) -> float:
        return self._ms / 1000
