"""Filters of a batch read that spare work: whole queues, ranges of offsets, spans of time, and rows by their heads.

Spark checks every filter again itself: here only what surely fails is left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

_LOWEST = -(1 << 63)
_HIGHEST = (1 << 63) - 1
_FIELDS = {
    "queueId": "queue_id",
    "queueOffset": "queue_offset",
    "bornTimestamp": "born_ms",
    "storeTimestamp": "store_ms",
}


@dataclass(frozen=True)
class Span:
    """Whole numbers from `low` to `high`, both included; if `only` is given, those alone."""

    low: int = _LOWEST
    high: int = _HIGHEST
    only: frozenset[int] | None = None

    def and_(self, other: "Span") -> "Span":
        only = (
            self.only if other.only is None else other.only if self.only is None else self.only & other.only
        )
        return Span(max(self.low, other.low), min(self.high, other.high), only)

    def has(self, value: int) -> bool:
        return self.low <= value <= self.high and (self.only is None or value in self.only)


@dataclass(frozen=True)
class RowFilter:
    """What the pushed filters leave: topics (None: all) and a span per column of the head."""

    topics: frozenset[str] | None = None
    spans: dict[str, Span] = field(default_factory=dict)

    def span(self, column: str) -> Span:
        return self.spans.get(column, Span())

    def mask(self, heads: NDArray[Any]) -> NDArray[np.bool_]:
        kept = np.ones(len(heads), dtype=bool)
        for column, span in self.spans.items():
            values = heads[_FIELDS[column]]
            if span.low > _LOWEST:
                kept &= values >= span.low
            if span.high < _HIGHEST:
                kept &= values <= span.high
            if span.only is not None:
                kept &= np.isin(values, list(span.only))
        return kept


def collect(filters: Iterable[Filter]) -> RowFilter:
    """All filters together (they are joined by AND); those that are of no use here are passed over."""
    found = RowFilter()
    for part in filters:
        column: tuple[str, ...] = getattr(part, "attribute", ())
        if len(column) != 1:
            continue
        if column[0] == "topic":
            found = _with_topics(found, part)
        elif column[0] in _FIELDS:
            span = _span(part, is_time=column[0].endswith("Timestamp"))
            if span is not None:
                found = replace(found, spans=found.spans | {column[0]: found.span(column[0]).and_(span)})
    return found


def _with_topics(found: RowFilter, part: Filter) -> RowFilter:
    match part:
        case EqualTo(value=str(topic)) | EqualNullSafe(value=str(topic)):
            topics = frozenset({topic})
        case In(value=values):
            topics = frozenset(value for value in values if isinstance(value, str))
        case _:
            return found
    return replace(found, topics=topics if found.topics is None else found.topics & topics)


def _span(part: Filter, *, is_time: bool) -> Span | None:
    """The values a comparison lets through; times in ms, rounded so that none is lost."""
    match part:
        case EqualTo(value=value) | EqualNullSafe(value=value):
            bounds = _bounds(value, is_time)
            return None if bounds is None else Span(*bounds)
        case GreaterThan(value=value) | GreaterThanOrEqual(value=value):
            bounds = _bounds(value, is_time)
            above = isinstance(part, GreaterThan) and not is_time
            return None if bounds is None else Span(low=bounds[0] + (1 if above else 0))
        case LessThan(value=value) | LessThanOrEqual(value=value):
            bounds = _bounds(value, is_time)
            below = isinstance(part, LessThan) and not is_time
            return None if bounds is None else Span(high=bounds[1] - (1 if below else 0))
        case In(value=values):
            each = [_bounds(value, is_time) for value in values if value is not None]
            if is_time or any(bounds is None for bounds in each):
                return None
            return Span(only=frozenset(bounds[0] for bounds in each if bounds is not None))
        case _:
            return None


def _bounds(value: Any, is_time: bool) -> tuple[int, int] | None:
    if is_time and isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.astimezone()
        micros = round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
        return micros // 1000, -(-micros // 1000)
    if not is_time and isinstance(value, int) and not isinstance(value, bool):
        return value, value
    return None
