"""What an audit found, as values: findings with their places, some of them; all counts; a table and JSON."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Final

FINDINGS_MAX: Final = 100
_PER_KIND_IN_TASK: Final = 20


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One thing that is wrong: where (`offset` counts bytes in the log, else what the file counts), and how."""

    kind: str
    file: str
    offset: int
    expected: str
    found: str

    def line(self) -> str:
        return f"{self.kind}: {self.file} at {self.offset}: expected {self.expected}, found {self.found}"


@dataclass(slots=True)
class Findings:
    """Counts of every kind are complete; of the findings themselves each kind keeps the first few."""

    counts: Counter[str] = field(default_factory=Counter)
    kept: list[AuditFinding] = field(default_factory=list)

    def add(self, kind: str, file: str, offset: int, expected: object, found: object, count: int = 1) -> None:
        """`count` more of the kind, of which this is the first."""
        self.counts[kind] += count
        if sum(one.kind == kind for one in self.kept) < _PER_KIND_IN_TASK:
            self.kept.append(AuditFinding(kind, file, int(offset), str(expected), str(found)))

    def wants(self, kind: str) -> bool:
        """Whether another one would be kept: its words may be costly."""
        return sum(one.kind == kind for one in self.kept) < _PER_KIND_IN_TASK

    def more(self, kind: str, count: int) -> None:
        """Count findings without keeping them."""
        if count:
            self.counts[kind] += count

    def take(self, other: "Findings") -> None:
        self.counts.update(other.counts)
        self.kept += other.kept

    def __bool__(self) -> bool:
        return bool(self.counts)


@dataclass(slots=True)
class AuditReport:
    """The result of an audit; `ok` is what the exit code says."""

    subject: str
    exact: bool
    """False: a broker runs on the store, or died; what lags at its end is no fault."""
    seconds: float = 0.0
    facts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)

    @property
    def ok(self) -> bool:
        return not self.findings

    @property
    def log_mb_per_s(self) -> float:
        return self.facts.get("log bytes", 0) / 1e6 / max(self.seconds, 1e-9)

    def count(self, **facts: int) -> None:
        """Add to the facts; underscores in names are spaces."""
        for name, value in facts.items():
            spaced = name.replace("_", " ")
            self.facts[spaced] = self.facts.get(spaced, 0) + int(value)

    def shown(self, limit: int = FINDINGS_MAX) -> list[AuditFinding]:
        """At most `limit` findings, every kind in turn, so that many of one do not hide another."""
        by_kind: dict[str, list[AuditFinding]] = {}
        for finding in sorted(self.findings.kept, key=lambda one: (one.file, one.offset)):
            by_kind.setdefault(finding.kind, []).append(finding)
        chosen: list[AuditFinding] = []
        rows = [list(kind) for kind in by_kind.values()]
        while len(chosen) < limit and any(rows):
            for kind in rows:
                if kind and len(chosen) < limit:
                    chosen.append(kind.pop(0))
        return sorted(chosen, key=lambda one: (one.kind, one.file, one.offset))

    def to_json(self, limit: int = FINDINGS_MAX) -> str:
        value: dict[str, Any] = {
            "subject": self.subject,
            "ok": self.ok,
            "exact": self.exact,
            "seconds": round(self.seconds, 3),
            "facts": self.facts,
            "notes": self.notes,
            "counts": dict(sorted(self.findings.counts.items())),
            "findings": [asdict(finding) for finding in self.shown(limit)],
        }
        return json.dumps(value, indent=2)

    def table(self, limit: int = FINDINGS_MAX) -> str:
        """The report as text for the terminal."""
        how = (
            "exactly" if self.exact else "but for what its end may lack while a broker runs, or after it died"
        )
        lines = [f"{self.subject}, {how}"]
        width = max((len(name) for name in self.facts), default=0)
        lines += [f"  {name:<{width}}  {value:>15,}" for name, value in self.facts.items()]
        if "log bytes" in self.facts:
            lines.append(f"  {'MB/s':<{width}}  {self.log_mb_per_s:>15,.0f}")
        lines += [f"  note: {note}" for note in self.notes]
        if self.ok:
            return "\n".join([*lines, f"nothing wrong  ({self.seconds:.1f} s)"])
        total = sum(self.findings.counts.values())
        lines.append(f"{total:,} things are wrong  ({self.seconds:.1f} s)")
        lines += [f"  {count:>9,}  {kind}" for kind, count in sorted(self.findings.counts.items())]
        shown = self.shown(limit)
        lines += [f"  {finding.line()}" for finding in shown]
        if len(shown) < total:
            lines.append(f"  and {total - len(shown):,} more")
        return "\n".join(lines)
