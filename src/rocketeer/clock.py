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
