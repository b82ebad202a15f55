"""One mode on one or more servers in turn, and the report of it: what every command of the benchmark does."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from rocketeer.bench import report
from rocketeer.bench.bar_result import BarResult
from rocketeer.bench.options import MAKES, BenchTarget, FlushChoice, flush_mode
from rocketeer.bench.run import Measured
from rocketeer.bench.session import (
    BenchServer,
    LoadPlan,
    existing,
    fill,
    started,
    wait_until_settled,
    warm_up,
)
from rocketeer.errors import RocketeerError

console = Console()

MeasureStep = Callable[[BenchServer, LoadPlan], Measured]


def compare(
    steps: list[tuple[MeasureStep, LoadPlan]],
    where: BenchTarget,
    *,
    flush: FlushChoice = FlushChoice.asynchronous,
    files_max: int | None = None,
    filled: bool = False,
    acl: bool = False,
    tls: bool = False,
) -> None:
    """Every step on every server in turn, for as many rounds as asked; then the report."""
    about = report.machine()
    runs: list[Measured] = []

    def rounds(servers: list[BenchServer]) -> None:
        first_step, first_plan = steps[0]
        for server in servers if filled else ():
            fill(server, first_plan)
        if len(servers) > 1:
            warm_up(servers, first_plan, first_step)
        for step, plan in steps[1:]:
            warm_up(servers, plan, step)  # so that its topics and their files exist before it counts
        for _ in range(first_plan.rounds):
            for step, plan in steps:
                for server in servers:
                    wait_until_settled(servers)
                    runs.append(step(server, plan))

    if where.target is not None:
        if acl or tls:
            raise RocketeerError("--acl and --tls are for brokers that the benchmark starts (--start)")
        rounds([existing(where.target, where.pid)])
    else:
        with started(
            MAKES[where.start],
            flush=flush_mode(flush),
            files_max=files_max,
            folder=where.folder,
            acl=acl,
            tls=tls,
        ) as servers:
            rounds(servers)
    report.print_runs(runs, console)
    finish(about, runs, where.json)


def finish(about: dict[str, Any], runs: list[Measured], json: Path | None, **more: Any) -> None:
    """Warn of a machine that was busy before, and write the figures to a file if one was named."""
    if (warning := report.busy_warning(about)) is not None:
        console.print(f"  [yellow]{warning}[/yellow]")
    if json is not None:
        report.write_json(json, about, runs, **more)
        console.print(f"  written to {json}")


def judge(
    about: dict[str, Any], runs: list[Measured], bars: Sequence[BarResult], json: Path | None, **figures: Any
) -> None:
    """Show the bars, leave the figures as `finish` does, and end with exit code 1 when a bar is missed."""
    console.print(report.bars_table(bars))
    finish(about, runs, json, **figures)
    if not all(bar.passed for bar in bars):
        raise typer.Exit(1)
