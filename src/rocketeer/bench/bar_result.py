"""One bar of a command: what was measured, what it is compared with, and whether that is enough."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class BarResult:
    """One bar: what was measured, what it is compared with, and whether that is enough."""

    name: str
    ours: float
    other: float | None
    value: float
    wanted: float
    at_least: bool
    unit: str
    by_generator: Mapping[str, float] = field(default_factory=dict)
    """The value by each load generator, where there are two; the worse one is `value`."""
    note: str = ""

    @classmethod
    def ratio(cls, name: str, ours: float, other: float, wanted: float, *, at_least: bool = True) -> Self:
        """Ours as a multiple of another's."""
        return cls(
            name=name, ours=ours, other=other, value=ours / other, wanted=wanted, at_least=at_least, unit="x"
        )

    @classmethod
    def limit(
        cls,
        name: str,
        value: float,
        wanted: float,
        unit: str,
        *,
        ours: float | None = None,
        other: float | None = None,
        at_least: bool = False,
        note: str = "",
    ) -> Self:
        """A figure and its limit; `ours` is what was measured, where `value` is derived from it."""
        return cls(
            name=name,
            ours=value if ours is None else ours,
            other=other,
            value=value,
            wanted=wanted,
            at_least=at_least,
            unit=unit,
            note=note,
        )

    @property
    def passed(self) -> bool:
        return self.value >= self.wanted if self.at_least else self.value <= self.wanted

    def figures(self) -> dict[str, Any]:
        """The bar as it is written to a file."""
        return {**asdict(self), "passed": self.passed}
