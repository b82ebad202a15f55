"""The version of a table (topics, groups ...): name servers and slaves fetch it when theirs differs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DataVersion:
    """Two versions are the same table when both numbers are."""

    timestamp: int = 0
    counter: int = 0

    def next(self, now_ms: int) -> "DataVersion":
        return DataVersion(now_ms, self.counter + 1)
