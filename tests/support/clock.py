"""Time that tests own: `from support.clock import ManualClock`."""


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
