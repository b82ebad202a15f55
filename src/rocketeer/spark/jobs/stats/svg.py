"""The report's plots: numbers in, inline SVG out, hand-written and without scripts. Pure.

Colours are CSS variables of the page (`--s0` ...), so one picture serves light and dark. Every mark has a <title>,
which browsers show as a tooltip.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rocketeer.spark.jobs.texts import safe, second_text, shortened, tick_text

COLOURS: Final = 8
NARROW, WIDE, HEIGHT = 556, 1158, 220
"""Sizes of plots on a page that has room for two side by side, so that letters are as large in both."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 12, 26
_TICK_STEPS_S: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
    2 * 86_400, 7 * 86_400, 14 * 86_400, 30 * 86_400, 90 * 86_400, 365 * 86_400,
)  # fmt: skip
_ROW, _LABEL, _VALUE = 24, 150, 70
_LABEL_CHARS: Final = 20

NumberText = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Series:
    """A line, or one colour of the bars: a value for each window; None where there is none."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    value: float
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Strip:
    """A spread on one line: from `low` to `high`, most of it between `middle` and `most`."""

    name: str
    low: float
    middle: float
    most: float
    rare: float
    high: float


def colour(at: int) -> str:
    return f"var(--s{at % COLOURS})"


def legend(names: Sequence[str]) -> str:
    """The series' names beside their colours; nothing for a single one."""
    if len(names) < 2:
        return ""
    items = "".join(
        f'<li><i style="background:{colour(at)}"></i>{safe(shortened(name, 60))}</li>'
        for at, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'


# --- along time ---------------------------------------------------------------------------------------


def time_bars(
    starts_ms: Sequence[int],
    step_ms: int,
    series: Sequence[Series],
    value: NumberText,
    what: str,
    *,
    width: int = NARROW,
) -> str:
    """Stacked bars, one per window."""
    sums = [sum(one.values[at] or 0 for one in series) for at in range(len(starts_ms))]
    frame = _TimeFrame(starts_ms, step_ms, linear_ticks(max(sums, default=0)), value, width)
    marks: list[str] = []
    for at, start_ms in enumerate(starts_ms):
        base = 0.0
        parts: list[str] = []
        for number, one in enumerate(series):
            size = one.values[at] or 0
            if size:
                top, bottom = frame.y(base + size), frame.y(base)
                parts.append(frame.column(start_ms, top, bottom, f'fill="{colour(number)}"'))
                base += size
        marks.append(
            f'<g class="w">{frame.target(start_ms, _hint(start_ms, series, at, value))}{"".join(parts)}</g>'
        )
    return frame.drawn("".join(marks), what)


def time_lines(
    starts_ms: Sequence[int],
    step_ms: int,
    series: Sequence[Series],
    value: NumberText,
    what: str,
    *,
    width: int = NARROW,
) -> str:
    """Lines over the windows' middles, on a logarithmic axis if they span much; broken where there is nothing."""
    known = [v for one in series for v in one.values if v is not None]
    frame = _TimeFrame(starts_ms, step_ms, axis_ticks(known), value, width)
    marks: list[str] = []
    for number, one in enumerate(series):
        for piece in _pieces(starts_ms, step_ms, one.values):
            places = [(frame.x(ms + step_ms / 2), frame.y(v)) for ms, v in piece]
            if len(places) == 1:
                (x, y), *_ = places
                marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour(number)}"/>')
            else:
                points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
                marks.append(f'<polyline points="{points}" class="l" stroke="{colour(number)}"/>')
    for at, start_ms in enumerate(starts_ms):
        hint = _hint(start_ms, series, at, value)
        marks.append(f'<g class="w">{frame.target(start_ms, hint)}</g>')
    return frame.drawn("".join(marks), what)


def _pieces(
    starts_ms: Sequence[int], step_ms: int, values: Sequence[float | None]
) -> list[list[tuple[int, float]]]:
    found: list[list[tuple[int, float]]] = []
    before_ms: int | None = None
    for start_ms, value in zip(starts_ms, values, strict=True):
        if value is None:
            continue
        if before_ms is None or start_ms - before_ms > step_ms:
            found.append([])
        found[-1].append((start_ms, value))
        before_ms = start_ms
    return found


def _hint(start_ms: int, series: Sequence[Series], at: int, value: NumberText) -> str:
    lines = [second_text(start_ms)]
    for one in series:
        size = one.values[at]
        if size is not None:
            lines.append(f"{one.name}: {value(size)}")
    return "\n".join(safe(line) for line in lines)


class _TimeFrame:
    """Axes of time and of a value, and where things stand between them."""

    def __init__(
        self, starts_ms: Sequence[int], step_ms: int, ticks: "Ticks", value: NumberText, width: int
    ) -> None:
        self._width = width
        self._begin_ms = min(starts_ms, default=0)
        self._end_ms = max(starts_ms, default=0) + step_ms
        self._step_ms = step_ms
        self._ticks = ticks
        self._value = value

    def x(self, ms: float) -> float:
        part = (ms - self._begin_ms) / (self._end_ms - self._begin_ms)
        return _LEFT + part * (self._width - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - self._ticks.place(value) * (HEIGHT - _TOP - _BOTTOM)

    def column(self, start_ms: int, top: float, bottom: float, style: str) -> str:
        left, right = self.x(start_ms), self.x(start_ms + self._step_ms)
        gap = 1 if right - left > 4 else 0
        wide = max(right - left - gap, 0.5)
        tall = max(bottom - top, 0.5)
        return f'<rect x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{tall:.1f}" {style}/>'

    def target(self, start_ms: int, hint: str) -> str:
        """What the pointer meets anywhere over a window; `hint` is escaped already."""
        return f"<title>{hint}</title>" + self.column(start_ms, _TOP, HEIGHT - _BOTTOM, 'class="t"')

    def drawn(self, marks: str, what: str) -> str:
        parts = []
        for tick in self._ticks.values:
            y = self.y(tick)
            parts.append(f'<path d="M{_LEFT} {y:.1f}H{self._width - _RIGHT}" class="g"/>')
            parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" class="e">{safe(self._value(tick))}</text>')
        span_ms = self._end_ms - self._begin_ms
        step_ms = next((s * 1000 for s in _TICK_STEPS_S if span_ms <= s * 8000 * self._width / WIDE), span_ms)
        at_ms = math.ceil(self._begin_ms / step_ms) * step_ms
        while at_ms <= self._end_ms:
            x = self.x(at_ms)
            parts.append(f'<path d="M{x:.1f} {HEIGHT - _BOTTOM}v4" class="a"/>')
            if _LEFT + 10 <= x <= self._width - 24:
                parts.append(
                    f'<text x="{x:.1f}" y="{HEIGHT - 6}" class="m">{tick_text(at_ms, step_ms)}</text>'
                )
            at_ms += step_ms
        axis = f'<path d="M{_LEFT} {HEIGHT - _BOTTOM}H{self._width - _RIGHT}" class="a"/>'
        return _svg(self._width, HEIGHT, "".join(parts) + marks + axis, what)


@dataclass(frozen=True, slots=True)
class Ticks:
    """Where an axis has its lines."""

    values: tuple[float, ...]
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """0 at the lowest tick, 1 at the highest."""
        low, high = self.values[0], self.values[-1]
        if self.logarithmic:
            value, low, high = (math.log10(max(v, low)) for v in (value, low, high))
        return min(max((value - low) / (high - low), 0), 1)


def axis_ticks(values: Sequence[float]) -> Ticks:
    """An axis for these values: powers of ten where they span much, else round steps."""
    positive = [value for value in values if value > 0]
    if positive and min(values) >= 0 and max(positive) / min(positive) > 50:
        low = math.floor(math.log10(max(min(positive), 1e-3)))
        high = max(math.ceil(math.log10(max(positive))), low + 1)
        every = math.ceil((high - low) / 6)
        exponents = [*range(low, high, every), high]
        return Ticks(tuple(10.0**exponent for exponent in exponents), logarithmic=True)
    return linear_ticks(max(values, default=0), min([0.0, *values]))


def linear_ticks(high: float, low: float = 0.0) -> Ticks:
    """Round numbers that hold all values.

    >>> linear_ticks(37).values
    (0.0, 10.0, 20.0, 30.0, 40.0)
    """
    span = max(high - low, 1e-9)
    if high <= 0 and low >= 0:
        return Ticks((0.0, 1.0))
    rough = span / 4
    size = 10 ** math.floor(math.log10(rough))
    step = next(step for step in (size, 2 * size, 2.5 * size, 5 * size, 10 * size) if step >= rough * 0.999)
    if span >= 4:
        step = max(math.ceil(step), 1)
    first, last = math.floor(low / step), math.ceil(high / step)
    return Ticks(tuple(float(number * step) for number in range(first, max(last, first + 1) + 1)))


# --- beside each other --------------------------------------------------------------------------------


def bars(items: Sequence[Bar], value: NumberText, what: str, *, mean: float | None = None) -> str:
    """Lying bars, a name to the left and the value to the right; `mean` draws a line through all."""
    high = max([item.value for item in items] + [mean or 0, 1e-9])
    wide = NARROW - _LABEL - _VALUE
    parts: list[str] = []
    tall = len(items) * _ROW
    if mean is not None and items:
        x = _LABEL + mean / high * wide
        parts.append(
            f'<path d="M{x:.1f} 0V{tall}" class="mean"><title>mean {safe(value(mean))}</title></path>'
        )
    for at, item in enumerate(items):
        y = at * _ROW
        length = max(item.value / high * wide, 1 if item.value else 0)
        hint = safe(item.name) + (f"\n{safe(item.hint)}" if item.hint else "")
        parts.append(
            f'<g class="w"><title>{hint}</title><rect x="0" y="{y}" width="{NARROW}" height="{_ROW}" class="t"/>'
            f'<text x="{_LABEL - 8}" y="{y + 16}" class="e n">{safe(shortened(item.name, _LABEL_CHARS))}</text>'
            f'<rect x="{_LABEL}" y="{y + 4}" width="{length:.1f}" height="{_ROW - 8}" rx="2" fill="{colour(0)}"/>'
            f'<text x="{_LABEL + length + 8:.1f}" y="{y + 16}" class="v">{safe(value(item.value))}</text></g>'
        )
    return _svg(NARROW, tall, "".join(parts), what)


def strips(items: Sequence[Strip], value: NumberText, what: str) -> str:
    """Spreads under each other on one axis: a hair from least to most, a beam from p50 to p95, a tick at p99."""
    known = [v for item in items for v in (item.low, item.middle, item.most, item.rare, item.high)]
    ticks = axis_ticks(known)
    wide = NARROW - _LABEL - 24
    tall = len(items) * _ROW

    def x(v: float) -> float:
        return _LABEL + ticks.place(v) * wide

    parts: list[str] = []
    for tick in ticks.values:
        parts.append(f'<path d="M{x(tick):.1f} 0V{tall}" class="g"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{tall + 18}" class="m">{safe(value(tick))}</text>')
    for at, item in enumerate(items):
        y = at * _ROW + _ROW / 2
        named = (
            ("min", item.low),
            ("p50", item.middle),
            ("p95", item.most),
            ("p99", item.rare),
            ("max", item.high),
        )
        hint = "\n".join([safe(item.name), *(f"{name}: {safe(value(v))}" for name, v in named)])
        beam = max(x(item.most) - x(item.middle), 3)
        parts.append(
            f'<g class="w"><title>{hint}</title>'
            f'<rect x="0" y="{at * _ROW}" width="{NARROW}" height="{_ROW}" class="t"/>'
            f'<text x="{_LABEL - 8}" y="{y + 4}" class="e n">{safe(shortened(item.name, _LABEL_CHARS))}</text>'
            f'<path d="M{x(item.low):.1f} {y}H{x(item.high):.1f}" class="hair"/>'
            f'<rect x="{x(item.middle):.1f}" y="{y - 5}" width="{beam:.1f}" height="10" rx="2" fill="{colour(0)}"/>'
            f'<path d="M{x(item.rare):.1f} {y - 7}v14" class="rare"/></g>'
        )
    return _svg(NARROW, tall + 24, "".join(parts), what)


def _svg(width: int, tall: float, content: str, what: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {tall:g}" role="img" aria-label="{safe(what)}" '
        f'xmlns="http://www.w3.org/2000/svg">{content}</svg>'
    )
