"""What `stats` finds out, as plain values, of which tables, JSON and the HTML report are made. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

PERCENTILES: Final = (0.5, 0.9, 0.95, 0.99)

# Steps a person can read an axis with, from a second to a month.
_STEPS_S: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
    2 * 86_400, 7 * 86_400, 30 * 86_400,
)  # fmt: skip
WINDOWS_WANTED: Final = 90


@dataclass(frozen=True, slots=True)
class Spread:
    """How a measure is spread; the percentiles are Spark's approximate ones."""

    min: int = 0
    p50: int = 0
    p90: int = 0
    p95: int = 0
    p99: int = 0
    max: int = 0


@dataclass(frozen=True, slots=True)
class Measures:
    """Figures of a group of messages. `size_bytes` is of bodies, `delay_ms` from born to stored."""

    messages: int = 0
    bytes: int = 0
    first_ms: int = 0
    last_ms: int = 0
    size_bytes: Spread = Spread()
    delay_ms: Spread = Spread()
    born_later: int = 0
    """Messages born after they were stored: the clocks of producer and broker differ."""


@dataclass(frozen=True, slots=True)
class Part:
    """A tag, or a producer's host; None for messages without a tag."""

    name: str | None
    measures: Measures


@dataclass(frozen=True, slots=True)
class QueueMeasures:
    broker: str
    queue: int
    measures: Measures

    @property
    def name(self) -> str:
        return f"{self.broker}:{self.queue}"


@dataclass(frozen=True, slots=True)
class WindowPart:
    """Messages stored in [start_ms, start_ms + the report's window_ms)."""

    start_ms: int
    measures: Measures


@dataclass(frozen=True, slots=True)
class Skew:
    """How unevenly messages lie over a topic's queues: 1.0 and 0.0 are even."""

    queues: int
    empty: int
    max_over_mean: float
    variation: float
    """The standard deviation over the mean."""


@dataclass(frozen=True, slots=True)
class TopicStats:
    """`tags` and `hosts` are the largest ones, `tags_total` and `hosts_total` say how many there are."""

    topic: str
    measures: Measures
    skew: Skew
    queues: tuple[QueueMeasures, ...]
    tags: tuple[Part, ...]
    tags_total: int
    hosts: tuple[Part, ...]
    hosts_total: int
    windows: tuple[WindowPart, ...]


@dataclass(frozen=True, slots=True)
class Stats:
    """All of it; topics with the most messages first."""

    topics: tuple[TopicStats, ...]
    window_ms: int

    @property
    def messages(self) -> int:
        return sum(topic.measures.messages for topic in self.topics)

    @property
    def bytes(self) -> int:
        return sum(topic.measures.bytes for topic in self.topics)

    @property
    def first_ms(self) -> int:
        return min((t.measures.first_ms for t in self.topics if t.measures.messages), default=0)

    @property
    def last_ms(self) -> int:
        return max((t.measures.last_ms for t in self.topics if t.measures.messages), default=0)

    def to_json(self) -> dict[str, Any]:
        """Values for `json.dumps`."""
        return {
            "messages": self.messages,
            "bytes": self.bytes,
            "first_ms": self.first_ms,
            "last_ms": self.last_ms,
            **asdict(self),
        }


def skew_of(counts: Iterable[int]) -> Skew:
    """The skew of queues with so many messages each.

    >>> skew_of([30, 10, 20, 0])
    Skew(queues=4, empty=1, max_over_mean=2.0, variation=0.745)
    """
    found: Sequence[int] = list(counts)
    mean = sum(found) / len(found) if found else 0
    if not mean:
        return Skew(len(found), len(found), 1.0, 0.0)
    deviation = math.sqrt(sum((count - mean) ** 2 for count in found) / len(found))
    return Skew(
        len(found), sum(not count for count in found), round(max(found) / mean, 3), round(deviation / mean, 3)
    )


def window_for(first_ms: int, last_ms: int) -> int:
    """The smallest readable step that cuts the span into WINDOWS_WANTED windows at most; ms.

    >>> window_for(0, 3_600_000), window_for(5, 5)
    (60000, 1000)
    """
    span_ms = max(last_ms - first_ms, 0)
    for step_s in _STEPS_S:
        if span_ms <= step_s * 1000 * WINDOWS_WANTED:
            return step_s * 1000
    return math.ceil(span_ms / WINDOWS_WANTED / (_STEPS_S[-1] * 1000)) * _STEPS_S[-1] * 1000
