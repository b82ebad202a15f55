"""The table of delays by level (`messageDelayLevel`); dispatch and delayed delivery both compute from it."""

import re
from dataclasses import dataclass
from typing import Final

from rocketeer.errors import ConfigError

DEFAULT_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL: Final = re.compile(r"([0-9]{1,9})([smhd])")


@dataclass(frozen=True, slots=True)
class DelayLevels:
    """Level 1 is the first delay; 0 is none.

    >>> DelayLevels.parse("1s 5s 1m").delay_ms(3)
    60000
    """

    delays_ms: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> "DelayLevels":
        delays = []
        for word in text.split():
            match = _LEVEL.fullmatch(word)
            if match is None:
                raise ConfigError(f"messageDelayLevel: {word!r} is not a number and a unit of s, m, h, d")
            delays.append(int(match[1]) * _UNIT_MS[match[2]])
        if not delays:
            raise ConfigError("messageDelayLevel: no level given")
        return cls(tuple(delays))

    @property
    def max_level(self) -> int:
        return len(self.delays_ms)

    def clamp(self, level: int) -> int:
        """The level that is really used: one past the table counts as the last."""
        return min(level, len(self.delays_ms))

    def delay_ms(self, level: int) -> int:
        """How long a level waits; clamped, and 0 for no level."""
        return self.delays_ms[self.clamp(level) - 1] if level > 0 else 0

    def deliver_ms(self, level: int, store_ms: int) -> int:
        """When a message stored at `store_ms` is due."""
        return store_ms + self.delay_ms(level)
