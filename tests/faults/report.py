"""Counts of runs: kept as JSON, added up as a table of faults and message kinds."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from faults.ledger import KINDS
from faults.running import Outcome


class Counted(msgspec.Struct):
    """One run."""

    seed: int
    flush: str
    minutes: float
    strikes: dict[str, int]
    kinds: dict[str, dict[str, int]]
    """Fault -> kind -> acknowledged from its beginning to its end."""
    acknowledged: dict[str, int]
    problems: list[str]


def counted(outcome: Outcome) -> Counted:
    return Counted(
        seed=outcome.seed,
        flush=outcome.flush,
        minutes=round(outcome.seconds / 60, 1),
        strikes={name: strikes.count for name, strikes in sorted(outcome.faults.items())},
        kinds={name: dict(strikes.kinds) for name, strikes in sorted(outcome.faults.items())},
        acknowledged=dict(outcome.ledger.counts),
        problems=outcome.problems,
    )


def save(path: Path, outcome: Outcome) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(counted(outcome)), indent=1) + b"\n")


def load(paths: Iterable[Path]) -> list[Counted]:
    return [msgspec.json.decode(path.read_bytes(), type=Counted) for path in sorted(paths)]


def table(runs: Iterable[Counted]) -> str:
    """Markdown: a line for each fault, and one for all."""
    strikes: Counter[str] = Counter()
    kinds: dict[str, Counter[str]] = {}
    total: Counter[str] = Counter()
    runs = list(runs)
    for run in runs:
        strikes.update(run.strikes)
        total.update(run.acknowledged)
        for fault, counts in run.kinds.items():
            kinds.setdefault(fault, Counter()).update(counts)
    shown = [kind for kind in KINDS if total[kind]]
    lines = [
        f"| fault | times | {' | '.join(shown)} |",
        f"|---|---:|{'---:|' * len(shown)}",
    ]
    lines += [
        f"| {fault} | {strikes[fault]:,} | {' | '.join(f'{kinds[fault][kind]:,}' for kind in shown)} |"
        for fault in sorted(strikes)
    ]
    lines.append(
        f"| all, and between them | {sum(strikes.values()):,} | "
        f"{' | '.join(f'{total[kind]:,}' for kind in shown)} |"
    )
    minutes = sum(run.minutes for run in runs)
    problems = sum(len(run.problems) for run in runs)
    told = ", ".join(f"{run.seed} ({run.minutes:g} min, {run.flush})" for run in runs)
    return "\n".join([*lines, "", f"{minutes:.1f} minutes; seeds {told}; {problems} broken promises"])
