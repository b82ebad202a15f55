"""`rocketeer bench`: measure our broker, Apache's, or any other, and check the bars."""

import time
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from rocketeer.bench import report
from rocketeer.bench.bars import BarResult, Bars
from rocketeer.bench.compare import compare, console, finish
from rocketeer.bench.loadgen import compiled, run_loadgen
from rocketeer.bench.options import (
    MAKES,
    BodyBytes,
    Connections,
    FlushChoice,
    FlushOption,
    Folder,
    InFlight,
    Json,
    Pid,
    Processes,
    Queues,
    Rate,
    Rounds,
    Seconds,
    Start,
    StartOption,
    Target,
    Warmup,
    flush_mode,
)
from rocketeer.bench.processes import ServerFailed, anonymous_bytes
from rocketeer.bench.session import (
    Plan,
    Server,
    existing,
    fill,
    prime,
    run_batch,
    run_end_to_end,
    run_pull,
    run_send,
    started,
)
from rocketeer.errors import RocketeerError

app = typer.Typer(
    help="Measure a broker: messages/s, latencies, CPU; ours, Apache's, or any RocketMQ.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command()
def send(
    target: Target = None,
    pid: Pid = None,
    start: StartOption = Start.ours,
    flush: FlushOption = FlushChoice.asynchronous,
    connections: Connections = 16,
    in_flight: InFlight = 16,
    body_bytes: BodyBytes = 1024,
    queues: Queues = 4,
    seconds: Seconds = 5,
    warmup: Warmup = 2,
    rounds: Rounds = 3,
    processes: Processes = 1,
    rate: Rate = None,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Single messages (SEND_MESSAGE_V2), each with its own KEYS and UNIQ_KEY."""
    plan = Plan(
        connections=connections,
        in_flight=in_flight,
        body_bytes=body_bytes,
        queues=queues,
        seconds=seconds,
        warmup_s=warmup,
        rounds=rounds,
        processes=processes,
        rate=rate,
    )
    mode = "sync-flush send" if flush is FlushChoice.synchronous else "send"
    compare(
        [(lambda server, plan: run_send(server, plan, mode), plan)],
        target=target,
        pid=pid,
        start=start,
        flush=flush,
        folder=folder,
        json=json,
    )


@app.command()
def batch(
    target: Target = None,
    pid: Pid = None,
    start: StartOption = Start.ours,
    connections: Connections = 16,
    in_flight: InFlight = 16,
    body_bytes: BodyBytes = 1024,
    seconds: Seconds = 5,
    rounds: Rounds = 3,
    processes: Processes = 1,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Batches of 32 messages (SEND_BATCH_MESSAGE)."""
    plan = Plan(
        connections=connections,
        in_flight=in_flight,
        body_bytes=body_bytes,
        seconds=seconds,
        rounds=rounds,
        processes=processes,
    )
    compare(
        [(run_batch, plan)],
        target=target,
        pid=pid,
        start=start,
        flush=FlushChoice.asynchronous,
        folder=folder,
        json=json,
    )


@app.command()
def pull(
    target: Target = None,
    pid: Pid = None,
    start: StartOption = Start.ours,
    connections: Connections = 16,
    in_flight: InFlight = 16,
    body_bytes: BodyBytes = 1024,
    seconds: Seconds = 5,
    rounds: Rounds = 3,
    processes: Processes = 1,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Pulls of 32 messages that are stored already (it stores them first)."""
    plan = Plan(
        connections=connections,
        in_flight=in_flight,
        body_bytes=body_bytes,
        seconds=seconds,
        rounds=rounds,
        processes=processes,
    )
    compare(
        [(run_pull, plan)],
        target=target,
        pid=pid,
        start=start,
        flush=FlushChoice.asynchronous,
        folder=folder,
        json=json,
        filled=True,
    )


@app.command()
def e2e(
    target: Target = None,
    pid: Pid = None,
    start: StartOption = Start.ours,
    rate: Annotated[float, typer.Option(help="Messages/s, sent at fixed times.")] = 2000,
    connections: Connections = 1,
    body_bytes: BodyBytes = 1024,
    seconds: Seconds = 5,
    rounds: Rounds = 3,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """From the scheduled send to the arrival at a consumer whose pulls are held by the broker."""
    plan = Plan(connections=connections, body_bytes=body_bytes, seconds=seconds, rounds=rounds, rate=rate)
    compare(
        [(run_end_to_end, plan)],
        target=target,
        pid=pid,
        start=start,
        flush=FlushChoice.asynchronous,
        folder=folder,
        json=json,
    )


@app.command()
def topics(
    target: Target = None,
    pid: Pid = None,
    start: StartOption = Start.ours,
    count: Annotated[int, typer.Option(min=2, max=9999, help="Topics.")] = 1000,
    queues: Queues = 8,
    files_max: Annotated[int, typer.Option(help="ulimit -n of our broker.")] = 1024,
    seconds: Seconds = 5,
    rounds: Rounds = 3,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Many topics against one, under a small limit of open files."""
    one = Plan(queues=queues, seconds=seconds, rounds=rounds)
    compare(
        [
            (lambda server, plan: run_send(server, plan, "1 topic"), one),
            (lambda server, plan: run_send(server, plan, f"{count:,} topics"), replace(one, topics=count)),
        ],
        target=target,
        pid=pid,
        start=start,
        flush=FlushChoice.asynchronous,
        folder=folder,
        json=json,
        files_max=files_max,
    )


@app.command()
def idle(
    start: StartOption = Start.ours,
    pid: Pid = None,
    seconds: Annotated[float, typer.Option(min=0, help="How long to let it rest first.")] = 5,
    folder: Folder = None,
) -> None:
    """Anonymous memory of a broker that has nothing to do."""
    try:
        if pid is not None:
            console.print(f"pid {pid}: {anonymous_bytes(pid) / 1e6:.1f} MB")
            return
        with started(MAKES[start], folder=folder) as servers:
            time.sleep(seconds)
            for server in servers:
                assert server.pid is not None
                console.print(
                    f"{server.label}: {anonymous_bytes(server.pid) / 1e6:.1f} MB of anonymous memory"
                )
    except RocketeerError as why:
        console.print(f"[red]{why}[/red]")
        raise typer.Exit(1) from None


@app.command()
def bars(
    seconds: Seconds = 5,
    rounds: Rounds = 3,
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
            program = None if ours_only else compiled(Path(build))
        except ServerFailed as why:
            console.print(f"[yellow]{why}; only `rocketeer bench` itself measures[/yellow]")
            program = None
        runner = Bars(
            Plan(seconds=seconds, rounds=rounds, processes=processes),
            folder=folder,
            say=lambda text: console.print(f"[dim]{text}[/dim]"),
            loadgen=program,
            with_apache=not ours_only,
        )
        try:
            results.extend(runner.run())
        except RocketeerError as why:
            console.print(f"[red]{why}[/red]")
            raise typer.Exit(1) from None
    report.print_runs(runner.runs, console)
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
    console.print(table)
    for bar in results:
        if len(bar.by_generator) > 1:
            values = ", ".join(f"{name} {value:.2f}" for name, value in bar.by_generator.items())
            console.print(f"  {bar.name}: {values}; the worse one counts")
    finish(about, runner.runs, json, bars=[{**asdict(bar), "passed": bar.passed} for bar in results])
    if not all(bar.passed for bar in results):
        raise typer.Exit(1)


@app.command()
def loadgen(
    start: StartOption = Start.both,
    target: Target = None,
    pid: Pid = None,
    mode: Annotated[str, typer.Option("--mode", "-m", help="send, batch or pull.")] = "send",
    flush: FlushOption = FlushChoice.asynchronous,
    connections: Connections = 16,
    in_flight: InFlight = 16,
    body_bytes: BodyBytes = 1024,
    seconds: Seconds = 5,
    rounds: Rounds = 3,
    folder: Folder = None,
) -> None:
    """The same comparison by tools/loadgen.c, which shares no code with this program; prints its JSON lines."""
    plan = Plan(
        connections=connections, in_flight=in_flight, body_bytes=body_bytes, seconds=seconds, rounds=rounds
    )

    def rounds_of(servers: list[Server], program: Path) -> None:
        if len(servers) > 1:
            prime(servers, plan)
        for server in servers if mode == "pull" else ():
            fill(server, plan)
        for _ in range(rounds):
            for server in servers:
                console.print_json(data=run_loadgen(program, server, plan, mode), indent=None)

    try:
        with TemporaryDirectory() as build:
            program = compiled(Path(build))
            if target is not None:
                rounds_of([existing(target, pid)], program)
                return
            with started(MAKES[start], flush=flush_mode(flush), folder=folder) as servers:
                rounds_of(servers, program)
    except RocketeerError as why:
        console.print(f"[red]{why}[/red]")
        raise typer.Exit(1) from None


if __name__ == "__main__":
    app()
