"""Figures for people (a table) and for programs (JSON)."""

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from rocketeer.bench.bar_result import BarResult
from rocketeer.bench.run import Measured

_BUSY_LOAD = 1.0


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average_before": round(os.getloadavg()[0], 2),
    }


def busy_warning(about: dict[str, Any]) -> str | None:
    """A sentence when other programs had the machine too."""
    load = about["load_average_before"]
    if load > _BUSY_LOAD:
        return f"The machine was busy before the run (load average {load}): the figures are rough."
    return None


def _short(label: str) -> str:
    """A name that leaves room for the figures; the whole one stands below the table."""
    return {"Rocketeer": "ours", "Apache": "apache"}.get(label.partition(" ")[0], label)


def _ms(us: int) -> str:
    return f"{us / 1000:.3g}" if us < 1_000_000 else f"{us / 1000:.0f}"


def runs_table(runs: Sequence[Measured]) -> Table:
    """One row a run; fits a terminal of 80 columns."""
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("server", no_wrap=True)
    table.add_column("mode", no_wrap=True)
    for name in ("load", "msg/s", "p50", "p99", "p99.9", "< 1 ms", "CPU/M", "gen"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in runs:
        server_cpu = run.server_cpu_s_per_million
        table.add_row(
            _short(run.server),
            run.mode,
            f"{run.connections}x{run.in_flight}" if run.rate is None else f"{run.rate:.0f}/s",
            f"{run.messages_per_s:,.0f}",
            _ms(run.p50_us),
            _ms(run.p99_us),
            _ms(run.p999_us),
            f"{run.within_1ms:.2%}",
            "" if server_cpu is None else f"{server_cpu:.2f}",
            f"{run.load_cpu_share:.0%}",
        )
    return table


def print_runs(runs: Sequence[Measured], console: Console) -> None:
    """The table, what went wrong, and ratios when two servers were measured."""
    console.print(runs_table(runs))
    for label in dict.fromkeys(run.server for run in runs):
        console.print(f"  {_short(label)}: {label}")
    console.print("  latencies in ms; CPU/M: CPU seconds of the server for a million messages")
    console.print("  gen: the share of a core the busiest load process used")
    for run in runs:
        if run.refused:
            console.print(f"  {run.mode} {run.server}: {run.refused} requests refused")
        if run.catch_up_s > 0.1:
            console.print(
                f"  {run.mode} {run.server}: queues and index caught up {run.catch_up_s:.2f} s later"
            )
        for note in run.notes:
            console.print(f"  {run.mode} {run.server}: {note}")
        if run.mismatched or run.unanswered or run.lost_or_invented:
            console.print(
                f"  [red]{run.mode} {run.server}: {run.mismatched} replies nobody asked for, {run.unanswered} "
                f"requests without reply, {run.lost_or_invented:+d} messages against what was acknowledged[/red]"
            )
    for mode in dict.fromkeys((run.mode, run.connections, run.in_flight) for run in runs):
        same = [run for run in runs if (run.mode, run.connections, run.in_flight) == mode]
        labels = list(dict.fromkeys(run.server for run in same))
        if len(labels) == 2:
            first, second = (median_rate([run for run in same if run.server == label]) for label in labels)
            if second:
                console.print(
                    f"  {mode[0]} {mode[1]}x{mode[2]}: {' / '.join(map(_short, labels))} = {first / second:.2f}"
                )


def median_rate(runs: Sequence[Measured]) -> float:
    return statistics.median(run.messages_per_s for run in runs)


def write_json(path: Path, about: dict[str, Any], runs: Sequence[Measured], **more: Any) -> None:
    """Everything that was measured, machine included."""
    document = {"machine": about, "runs": [asdict(run) for run in runs], **more}
    path.write_text(json.dumps(document, indent=2) + "\n")


def bars_table(results: Sequence[BarResult]) -> Table:
    """One row a bar: measured, wanted, passed."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("bar", "ours", "other", "value", "wanted", ""):
        table.add_column(name, justify="left" if name in ("bar", "") else "right")
    for bar in results:
        table.add_row(
            bar.name,
            f"{bar.ours:,.4g}" if bar.ours < 10_000 else f"{bar.ours:,.0f}",
            "" if bar.other is None else f"{bar.other:,.0f}",
            f"{bar.value:.2f} {bar.unit}",
            f"{'>=' if bar.at_least else '<='} {bar.wanted:g} {bar.unit}",
            "[green]pass[/green]" if bar.passed else "[red]FAIL[/red]",
        )
    return table
