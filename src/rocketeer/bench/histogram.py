"""Latencies by the microsecond: counted while the load runs, merged across processes, read as percentiles."""

from array import array
from collections.abc import Iterable, Mapping
from typing import Final

FAST_US: Final = 200_000


class LatencyCounts:
    """What a load process counts in: an array for what is usual, a dict for what took longer."""

    __slots__ = ("by_us", "slow")

    def __init__(self) -> None:
        self.by_us = array("I", bytes(4 * FAST_US))
        self.slow: dict[int, int] = {}

    def add(self, us: int) -> None:
        """Count one; the hot loops write this out themselves."""
        if us < FAST_US:
            self.by_us[us] += 1
        else:
            self.slow[us] = self.slow.get(us, 0) + 1

    def clear(self) -> None:
        """Forget what the warm-up counted; loops hold on to the array, so it stays the same one."""
        self.by_us[:] = array("I", bytes(4 * FAST_US))
        self.slow.clear()

    def sparse(self) -> dict[int, int]:
        """The microseconds that occurred."""
        return {us: count for us, count in enumerate(self.by_us) if count} | self.slow


class Latencies:
    """Merged counts, ready to be asked."""

    def __init__(self, parts: Iterable[Mapping[int, int]]) -> None:
        merged: dict[int, int] = {}
        for part in parts:
            for us, count in part.items():
                merged[us] = merged.get(us, 0) + count
        self._sorted = sorted(merged.items())
        self.count = sum(merged.values())

    def percentile_us(self, share: float) -> int:
        """The latency that `share` of the replies did not exceed; 0 without replies."""
        wanted = share * self.count
        seen = 0
        for us, count in self._sorted:
            seen += count
            if seen >= wanted:
                return us
        return 0

    def share_within(self, limit_us: int) -> float:
        """The share of replies faster than the limit."""
        within = sum(count for us, count in self._sorted if us < limit_us)
        return within / self.count if self.count else 0.0
