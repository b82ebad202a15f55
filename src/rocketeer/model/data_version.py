"""The version of a table (topics, groups ...): name servers and slaves fetch it when theirs differs."""

from rocketeer.model.java_types import I64, JavaValue


class DataVersion(JavaValue, frozen=True):
    """Two versions are the same table when both numbers are."""

    timestamp: I64 = 0
    counter: I64 = 0

    def next(self, now_ms: int) -> "DataVersion":
        return DataVersion(now_ms, self.counter + 1)
