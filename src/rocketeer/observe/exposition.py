"""Prometheus' text format, written line by line: thousands of series in a few milliseconds.

A page may be long, and is made in steps: its lines become bytes as soon as a family has some tens of KB of them, and
those of a very long page are packed at once.

prometheus-client makes such a page too, but takes over ten times as long for each series; the loop pays for it. It
serves what is few: the figures of the process itself.
"""

import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from rocketeer.observe.families import Family
from rocketeer.steps import Steps

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PIECE_CHARS: Final = 64 << 10
"""Packed in half a millisecond."""
PLAIN_BYTES_MAX: Final = 16 << 20
"""Most of a page that is not packed: many pages may be held by scrapers that read slowly."""

REMEMBERED_CHARS: Final = 128
"""Longest label that is remembered: names may be longer, and strangers give them."""


class Piece(NamedTuple):
    """Some lines of a page."""

    data: bytes
    size: int
    is_packed: bool

    def packed(self) -> "Piece":
        """A whole gzip file, of which any number may stand one behind the other."""
        return self if self.is_packed else Piece(gzip.compress(self.data, 1, mtime=0), self.size, True)

    def plain(self) -> bytes:
        return gzip.decompress(self.data) if self.is_packed else self.data


class MetricsBody:
    """A page as it is sent, to any number of scrapers."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self._packed: list[bytes] | None = None
        self.size = sum(piece.size for piece in pieces)

    @classmethod
    def of(cls, data: bytes) -> "MetricsBody":
        return cls([Piece(data, len(data), False)])

    def plain(self) -> Iterator[bytes]:
        return (piece.plain() for piece in self._pieces)

    def packed(self) -> list[bytes]:
        """Made once; whoever calls it keeps others from it meanwhile."""
        if self._packed is None:
            self._pieces = [piece.packed() for piece in self._pieces]
            self._packed = [piece.data for piece in self._pieces]
        return self._packed


class _Series:
    """The lines of one family: those that are bytes already, and the rest."""

    __slots__ = ("chars", "lines", "pieces")

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.lines: list[str] = []
        self.chars = 0


def escaped(value: str) -> str:
    """A label's value as it stands between quotes."""
    return _escaped(value) if len(value) <= REMEMBERED_CHARS else _escaped.__wrapped__(value)


@lru_cache(maxsize=1 << 14)
def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class MetricsPage:
    """One answer to a scrape. All series of a family stand together, whatever order they come in."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        """`labels` are on every series."""
        self._common = _labels(labels)
        self._families: dict[Family, _Series] = {}
        self._behind: list[str] = []
        self._plain_bytes = 0

    def labels(self, **labels: str) -> str:
        """The text of a series' labels, to be used for several families."""
        own = _labels(labels)
        return f"{self._common},{own}" if self._common and own else self._common or own

    def add(self, family: Family, value: float, labels: str | None = None) -> None:
        """`labels` as `labels()` made them."""
        text = self._common if labels is None else labels
        self._add(family, f"{family.name}{{{text}}} {value}\n")

    def histogram(
        self,
        family: Family,
        bounds: Sequence[float],
        counts: Sequence[int],
        total: float,
        labels: str | None = None,
    ) -> None:
        """`counts` by bucket: of each only what is in no bucket before it; the last has no bound."""
        assert len(counts) == len(bounds) + 1
        text = self._common if labels is None else labels
        name, below = family.name, 0
        lines = []
        for bound, count in zip((*bounds, "+Inf"), counts, strict=True):
            below += count
            lines.append(f'{name}_bucket{{{text},le="{bound}"}} {below}\n')
        lines.append(f"{name}_sum{{{text}}} {total}\n")
        lines.append(f"{name}_count{{{text}}} {below}\n")
        self._add(family, "".join(lines))

    def add_behind(self, text: str) -> None:
        """What others have written, with families of its own: it stands at the end."""
        self._behind.append(text)

    def declare(self, families: Iterable[Family]) -> None:
        """Have these on the page even without a series."""
        for family in families:
            self._families.setdefault(family, _Series())

    def _add(self, family: Family, text: str) -> None:
        series = self._families.get(family)
        if series is None:
            series = self._families[family] = _Series()
        series.lines.append(text)
        series.chars += len(text)
        if series.chars >= PIECE_CHARS:
            series.pieces.append(self._piece(series.lines))
            series.lines, series.chars = [], 0

    def _piece(self, lines: list[str]) -> Piece:
        data = "".join(lines).encode()
        piece = Piece(data, len(data), False)
        if self._plain_bytes + len(data) > PLAIN_BYTES_MAX:
            return piece.packed()
        self._plain_bytes += len(data)
        return piece

    def body(self) -> Steps[MetricsBody]:
        """All of it; nothing may be added any more."""
        pieces: list[Piece] = []
        lines: list[str] = []
        chars = 0
        for family, series in self._families.items():
            lines.append(f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n")
            if series.pieces or chars + series.chars > PIECE_CHARS:
                pieces += (self._piece(lines), *series.pieces)
                lines, chars = [], 0
                yield
            lines += series.lines
            chars += series.chars
        pieces.append(self._piece(lines + self._behind))
        return MetricsBody(pieces)


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join([f'{name}="{escaped(value)}"' for name, value in labels.items()])
