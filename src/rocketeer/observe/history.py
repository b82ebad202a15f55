"""Past values of counts that only grow: what came in the last minute, hour and day, and how fast.

`sample` takes all counts every 10 s. The samples of one span are one array with a row for each count: thousands of
topics and groups cost a few hundred bytes each, and a sample one copy. Pure: the time is an argument.
"""

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np

K = TypeVar("K", bound=Hashable)

SAMPLE_S: Final = 10.0
_ROWS_MIN: Final = 64


@dataclass(frozen=True, slots=True)
class Figure:
    """What a count grew by over a span, and a second."""

    sum: int = 0
    tps: float = 0.0


class Figures(NamedTuple):
    minute: Figure
    hour: Figure
    day: Figure


class _Samples:
    """The last samples of one span; column `i` of `values` was taken at `times[i]`."""

    def __init__(self, span_s: float, interval_s: float, slots: int) -> None:
        self.span_s = span_s
        self._interval_s = interval_s
        self._slots = slots
        self._columns = np.zeros((_ROWS_MIN, slots), np.int64)
        self._taken: deque[tuple[float, int]] = deque()  # time and column, the oldest first

    def is_due(self, now_s: float) -> bool:
        return not self._taken or now_s - self._taken[-1][0] > self._interval_s - SAMPLE_S / 2

    def take(self, now_s: float, counts: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> None:
        if len(counts) > len(self._columns):
            self._grow(len(counts))
        column = self._taken.popleft()[1] if len(self._taken) == self._slots else len(self._taken)
        self._columns[: len(counts), column] = counts
        self._taken.append((now_s, column))

    def begin(self, row: int, count: int = 0) -> None:
        """The row belongs to a new count, which was `count` before."""
        if row >= len(self._columns) and count:
            self._grow(row + 1)
        if row < len(self._columns):
            self._columns[row] = count

    def _grow(self, rows: int) -> None:
        grown = np.zeros((2 * rows, self._slots), np.int64)
        grown[: len(self._columns)] = self._columns
        self._columns = grown

    def figure(self, row: int | None, count: int, now_s: float, start_s: float) -> Figure:
        """Since the oldest sample within the span (every count was 0 at `start_s`); else since the newest one."""
        since_s, column = start_s, -1
        for taken_s, taken_column in self._taken:
            if now_s - since_s <= self.span_s:
                break
            since_s, column = taken_s, taken_column
        past = 0
        if row is not None and column >= 0 and row < len(self._columns):
            past = int(self._columns[row, column])
        grown = count - past
        return Figure(grown, grown / max(now_s - since_s, 1.0))


class History(Generic[K]):
    """What counts were before. A key that is missing in a sample is forgotten."""

    def __init__(self, start_s: float) -> None:
        self._start_s = start_s
        self._rows: dict[K, int] = {}
        self._free: list[int] = []
        self._spans = (
            _Samples(60.0, SAMPLE_S, 7),
            _Samples(3_600.0, 600.0, 7),
            _Samples(86_400.0, 3_600.0, 25),
        )

    def __len__(self) -> int:
        return len(self._rows)

    def sample(self, counts: Mapping[K, int], now_s: float) -> None:
        """Remember what all counts are now; call it every `SAMPLE_S`."""
        for key in [key for key in self._rows if key not in counts]:
            self._free.append(self._rows.pop(key))
        for key in counts:
            self.watch(key, 0)
        values = np.zeros(len(self._rows) + len(self._free), np.int64)
        rows = np.fromiter((self._rows[key] for key in counts), np.int64, len(counts))
        values[rows] = np.fromiter(counts.values(), np.int64, len(counts))
        for span in self._spans:
            if span.is_due(now_s):
                span.take(now_s, values)

    def watch(self, key: K, count: int) -> None:
        """From now on the key has a row; samples that were taken before it had one say `count`."""
        if key not in self._rows:
            row = self._free.pop() if self._free else len(self._rows)
            self._rows[key] = row
            for span in self._spans:
                span.begin(row, count)

    def figures(self, key: K, count: int, now_s: float) -> Figures:
        """The spans that end now, when the count is `count`."""
        row = self._rows.get(key)
        return Figures(*(span.figure(row, count, now_s, self._start_s) for span in self._spans))
