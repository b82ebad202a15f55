"""Bloom bits of a message: which groups want it, worked out while it is stored, as far as there is time for that.

A message without bits may match any filter: whoever pulls looks at the message itself.
"""

from collections.abc import Iterable
from operator import length_hint
from typing import Final

from rocketeer.broker.features.filtering.filter_data import FilterData
from rocketeer.clock import Clock
from rocketeer.filter.records import record_filter

FILTERS_MAX: Final = 1_000
"""Most filters of a topic: with more of them every bit would be set."""
FILTER_COST_MAX: Final = 1_000_000
TERM_COST: Final = 200
"""Cost of a filter's term for a message, about in nanoseconds: it looks for a property among the message's bytes."""
AT_ONCE_S: Final = 0.001
SHARE: Final = 0.1
"""Time limit of the work without a pause (AT_ONCE_S), and its share of all time."""


class BloomBits:
    """Works out bits, for a share of the time that passes."""

    def __init__(self, clock: Clock, *, bits_bytes: int) -> None:
        self._clock = clock
        self._bits_bytes = bits_bytes
        self._left_s = AT_ONCE_S
        self._used_up = False
        self._asked_s = clock.monotonic_s()

    def has_time_for(self, filters: Iterable[FilterData]) -> bool:
        """Whether bits are worked out now: there are filters, not too many, and the time for it is not used up."""
        if not 0 < length_hint(filters) <= FILTERS_MAX:
            return False
        now_s = self._clock.monotonic_s()
        self._left_s = min(AT_ONCE_S, self._left_s + SHARE * (now_s - self._asked_s))
        self._asked_s = now_s
        self._used_up = self._used_up and self._left_s < AT_ONCE_S
        return not self._used_up

    def of(self, filters: Iterable[FilterData], properties: bytes) -> bytes:
        """The bloom bits of every group that wants the message, or may; empty when the time budget is used up."""
        began_s = now_s = self._clock.monotonic_s()
        until_s = began_s + self._left_s
        term_cost = TERM_COST + len(properties)
        mask = 0
        for data in filters:
            if data.compiled.terms * term_cost > FILTER_COST_MAX or record_filter(
                data.compiled
            ).matches_properties(properties):
                mask |= data.mask
            now_s = self._clock.monotonic_s()
            if now_s > until_s:
                break
        self._left_s -= now_s - began_s
        self._used_up = now_s > until_s
        return b"" if self._used_up else mask.to_bytes(self._bits_bytes, "little")
