"""The commands that judge: idle memory, all bars of the project, and the same comparison by the generator in C."""

import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from rocketeer.bench import report
from rocketeer.bench.bar_result import BarResult
from rocketeer.bench.bars import Bars
from rocketeer.bench.compare import console, finish
from rocketeer.bench.loadgen import compiled, run_loadgen
from rocketeer.bench.options import (
    MAKES,
    FlushChoice,
    FlushOption,
    Folder,
    Json,
    Pid,
    Processes,
    RoundsOption,
    Seconds,
    Shape,
    Start,
    StartOption,
    TargetOption,
    flush_mode,
)
from rocketeer.bench.processes import ServerFailed, anonymous_bytes
from rocketeer.bench.session import (
    BenchServer,
    LoadPlan,
    existing,
    fill,
    started,
    wait_until_settled,
    warm_up,
)


def idle(
    start: StartOption = Start.ours,
    pid: Pid = None,
    seconds: Annotated[float, typer.Option(min=0, help="How long to let it rest first.")] = 5,
    folder: Folder = None,
) -> None:
    """Anonymous memory of a broker that has nothing to do."""
    if pid is not None:
        console.print(f"pid {pid}: {anonymous_bytes(pid) / 1e6:.1f} MB")
        return
    with started(MAKES[start], folder=folder) as servers:
        time.sleep(seconds)
        for server in servers:
            assert server.pid is not None
            console.print(f"{server.label}: {anonymous_bytes(server.pid) / 1e6:.1f} MB of anonymous memory")


def bars(
    seconds: Seconds = 5,
    rounds: RoundsOption = 3,
    processes: Processes = 1,
    ours_only: Annotated[bool, typer.Option(help="Leave out what is compared with Apache's.")] = False,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Every bar of the project, side by side with Apache's broker; exit code 1 when one is missed."""
    about = report.machine()
    results: list[BarResult] = []
    with TemporaryDirectory() as build:
        try:
            program = compiled(Path(build))
        except ServerFailed as why:
            console.print(f"[yellow]{why}; only `rocketeer bench` itself measures[/yellow]")
            program = None
        runner = Bars(
            LoadPlan(seconds=seconds, rounds=rounds, processes=processes),
            folder=folder,
            say=lambda text: console.print(f"[dim]{text}[/dim]"),
            loadgen=program,
            with_apache=not ours_only,
        )
        results.extend(runner.run())
    report.print_runs(runner.runs, console)
    console.print(report.bars_table(results))
    for bar in results:
        if len(bar.by_generator) > 1:
            values = ", ".join(f"{name} {value:.2f}" for name, value in bar.by_generator.items())
            console.print(f"  {bar.name}: {values}; the worse one counts")
        if bar.note:
            console.print(f"  {bar.name}: {bar.note}")
    finish(about, runner.runs, json, bars=[bar.figures() for bar in results])
    if not all(bar.passed for bar in results):
        raise typer.Exit(1)


def loadgen(
    shape: Shape,
    start: StartOption = Start.both,
    target: TargetOption = None,
    pid: Pid = None,
    mode: Annotated[str, typer.Option("--mode", "-m", help="send, batch or pull.")] = "send",
    flush: FlushOption = FlushChoice.asynchronous,
    folder: Folder = None,
) -> None:
    """The same comparison by tools/loadgen.c, which shares no code with this program; prints its JSON lines."""
    plan = LoadPlan(**asdict(shape))

    def rounds_of(servers: list[BenchServer], program: Path) -> None:
        if len(servers) > 1:
            warm_up(servers, plan)
        for server in servers if mode == "pull" else ():
            fill(server, plan)
        for _ in range(plan.rounds):
            for server in servers:
                wait_until_settled(servers)
                console.print_json(data=run_loadgen(program, server, plan, mode), indent=None)

    with TemporaryDirectory() as build:
        program = compiled(Path(build))
        if target is not None:
            rounds_of([existing(target, pid)], program)
            return
        with started(MAKES[start], flush=flush_mode(flush), folder=folder) as servers:
            rounds_of(servers, program)
