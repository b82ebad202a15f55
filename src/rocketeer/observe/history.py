"""Past values of counts that only grow: what came in the last minute, hour and day, and how fast.

`sample` takes all counts every 10 s, in steps. A sample is an array with a row for each count: thousands of topics
and groups cost a few hundred bytes each. Pure: the time is an argument.
"""

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np

from rocketeer.steps import Steps

K = TypeVar("K", bound=Hashable)

SAMPLE_S: Final = 10.0
ROWS_AT_ONCE: Final = 1_024


@dataclass(frozen=True, slots=True)
class Figure:
    """What a count grew by over a span, and a second."""

    sum: int = 0
    tps: float = 0.0


class Figures(NamedTuple):
    minute: Figure
    hour: Figure
    day: Figure


class _Sample:
    """What all counts were at one moment, by row."""

    __slots__ = ("taken_s", "values")

    def __init__(self, taken_s: float, rows: int) -> None:
        self.taken_s = taken_s
        self.values = np.zeros(rows, np.int64)

    def of(self, row: int | None) -> int:
        return int(self.values[row]) if row is not None and row < len(self.values) else 0

    def put(self, row: int, count: int) -> None:
        if row >= len(self.values):
            if not count:
                return
            self.values = np.concatenate((self.values, np.zeros(row + 1 - len(self.values), np.int64)))
        self.values[row] = count


class _Span:
    """The last samples of one span, the oldest first."""

    def __init__(self, span_s: float, interval_s: float, slots: int) -> None:
        self._span_s = span_s
        self._interval_s = interval_s
        self.samples: deque[_Sample] = deque(maxlen=slots)

    def is_due(self, now_s: float) -> bool:
        return not self.samples or now_s - self.samples[-1].taken_s > self._interval_s - SAMPLE_S / 2

    def figure(self, row: int | None, count: int, now_s: float, start_s: float) -> Figure:
        """Since the oldest sample within the span (every count was 0 at `start_s`); else since the newest one."""
        since_s, since = start_s, None
        for sample in self.samples:
            if now_s - since_s <= self._span_s:
                break
            since_s, since = sample.taken_s, sample
        grown = count - (0 if since is None else since.of(row))
        return Figure(grown, grown / max(now_s - since_s, 1.0))


class History(Generic[K]):
    """What counts were before. A key that is missing in a sample is forgotten."""

    def __init__(self, start_s: float) -> None:
        self._start_s = start_s
        self._rows: dict[K, int] = {}
        self._free: list[int] = []
        self._minute = _Span(60.0, SAMPLE_S, 7)
        self._spans = (self._minute, _Span(3_600.0, 600.0, 7), _Span(86_400.0, 3_600.0, 25))

    def __len__(self) -> int:
        return len(self._rows)

    def sample(self, counts: Mapping[K, int], now_s: float) -> Steps[None]:
        """Remember what all counts are now; call it every `SAMPLE_S`. Whoever calls `watch` runs it at once."""
        for key in list(self._rows):
            if key not in counts:
                self._free.append(self._rows.pop(key))
            yield
        for key in counts:
            self.watch(key, 0)
            yield
        sample = _Sample(now_s, len(self._rows) + len(self._free))
        entries = iter(counts.items())
        while some := list(islice(entries, ROWS_AT_ONCE)):
            sample.values[[self._rows[key] for key, _ in some]] = [count for _, count in some]
            yield
        for span in self._spans:
            if span.is_due(now_s):
                span.samples.append(sample)

    def watch(self, key: K, count: int) -> None:
        """From now on the key has a row; samples that were taken before it had one say `count`."""
        if key not in self._rows:
            row = self._free.pop() if self._free else len(self._rows)
            self._rows[key] = row
            for span in self._spans:
                for sample in span.samples:
                    sample.put(row, count)

    def figures(self, key: K, count: int, now_s: float) -> Figures:
        """The spans that end now, when the count is `count`."""
        row = self._rows.get(key)
        return Figures(*(span.figure(row, count, now_s, self._start_s) for span in self._spans))

    def minute(self, key: K, count: int, now_s: float) -> Figure:
        """The growth over the last minute."""
        return self._minute.figure(self._rows.get(key), count, now_s, self._start_s)
