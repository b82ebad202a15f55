"""What a run has seen: faults by kinds of messages."""

import json
from collections import Counter
from pathlib import Path

from crash_states.exploring import Outcome, by_program
from crash_states.recording import Plan
from crash_states.states import CHOICES

KINDS = (
    "plain", "keyed", "ordered", "batch", "delayed", "timed", "recall", "half", "sequenced", "dedup", "back", "gone", "forged", "offset",
)  # fmt: skip


class Report:
    def __init__(self) -> None:
        self.states = 0
        self.broken = 0
        self.by_program = 0
        self._states: Counter[str] = Counter()
        self._broken: Counter[str] = Counter()
        self._checked: Counter[tuple[str, str]] = Counter()
        self._broken_of: Counter[tuple[str, str]] = Counter()

    def save(self, path: Path) -> None:
        """So that runs side by side can be added up."""
        tables = (self._states, self._broken, self._checked, self._broken_of)
        noted = [list(table.items()) for table in tables]
        path.write_text(json.dumps([self.states, self.broken, self.by_program, noted]))

    def add_saved(self, path: Path) -> None:
        states, broken, by_program, noted = json.loads(path.read_text())
        self.states += states
        self.broken += broken
        self.by_program += by_program
        for table, items in zip(
            (self._states, self._broken, self._checked, self._broken_of), noted, strict=True
        ):
            for key, count in items:
                table[tuple(key) if isinstance(key, list) else key] += count  # type: ignore[index]

    def add(self, outcome: Outcome, plan: Plan) -> None:
        fault = self._fault(outcome, plan)
        self.states += 1
        self.by_program += by_program(outcome.name)
        self.broken += bool(outcome.broken)
        self._states[fault] += 1
        self._broken[fault] += bool(outcome.broken)
        for kind, count in outcome.checked.items():
            self._checked[fault, kind] += count
        for each in outcome.broken:
            self._broken_of[fault, each.kind] += 1

    @staticmethod
    def _fault(outcome: Outcome, plan: Plan) -> str:
        if plan.fault is not None:
            return {"sync": "a sync fails (EIO)", "space": "no space (ENOSPC)"}[plan.fault.split()[0]]
        flush = "" if plan.flush == "SYNC_FLUSH" else " (async)"
        return CHOICES[outcome.name.choice] + flush

    def table(self) -> str:
        """Markdown: how many acknowledged messages were looked for, and of how many a promise was broken."""
        kinds = [*KINDS, *sorted({kind for _, kind in self._broken_of} - set(KINDS))]
        lines = [
            "| fault | states | with a broken promise | " + " | ".join(kinds) + " |",
            "|---|" + "---:|" * (len(kinds) + 2),
        ]
        for fault in sorted(self._states):
            cells = []
            for kind in kinds:
                checked, broken = self._checked[fault, kind], self._broken_of[fault, kind]
                cells.append(f"{checked:,}" + (f" **-{broken:,}**" if broken else ""))
            lines.append(
                f"| {fault} | {self._states[fault]:,} | {self._broken[fault]:,} | {' | '.join(cells)} |"
            )
        totals = [f"{sum(n for (_, k), n in self._checked.items() if k == kind):,}" for kind in kinds]
        lines.append(f"| all | {self.states:,} | {self.broken:,} | {' | '.join(totals)} |")
        lines.append("")
        lines.append(
            f"{self.by_program} of the states were started by the real program, the others in one process."
        )
        return "\n".join(lines)
