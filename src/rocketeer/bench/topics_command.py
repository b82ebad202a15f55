"""`rocketeer bench topics`: the same load on few topics, on more, and on very many."""

import statistics
from dataclasses import replace
from typing import Annotated

import typer

from rocketeer.bench import report
from rocketeer.bench.bars import BarResult
from rocketeer.bench.compare import console, finish
from rocketeer.bench.options import (
    MAKES,
    BodyBytes,
    Folder,
    Json,
    Queues,
    Rounds,
    Seconds,
    Start,
    StartOption,
)
from rocketeer.bench.run import Measured
from rocketeer.bench.session import Plan, Server, prime, rest, run_send, started
from rocketeer.errors import RocketeerError

WANTED = 0.95


def topics(
    counts: Annotated[str, typer.Option(help="How many topics, each in turn.")] = "64,256,1024",
    start: StartOption = Start.ours,
    queues: Queues = 8,
    body_bytes: BodyBytes = 1024,
    files_max: Annotated[int, typer.Option(help="ulimit -n of our broker.")] = 1024,
    seconds: Seconds = 5,
    rounds: Rounds = 6,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Sends to ever more topics, under a small limit of open files: at most 5% of the rate may be lost."""
    numbers = _numbers(counts)
    about = report.machine()
    plan = Plan(queues=queues, body_bytes=body_bytes, seconds=seconds, rounds=rounds)
    runs: list[Measured] = []
    try:
        with started(MAKES[start], files_max=files_max, folder=folder) as servers:
            for server in servers:
                prime(
                    [server], replace(plan, topics=numbers[-1])
                )  # topics and their files exist before it counts
            for _ in range(rounds):  # in turn: what else the machine does hits all alike
                for number in numbers:
                    for server in servers:
                        rest(servers)
                        runs.append(run_send(server, replace(plan, topics=number), _mode(number)))
    except RocketeerError as why:
        console.print(f"[red]{why}[/red]")
        raise typer.Exit(1) from None
    report.print_runs(runs, console)
    results = [bar for server in servers for bar in _bars(server, runs, numbers)]
    console.print(report.bars_table(results))
    finish(about, runs, json)
    if not all(bar.passed for bar in results if bar.name.startswith("Rocketeer")):
        raise typer.Exit(1)


def _numbers(text: str) -> list[int]:
    try:
        numbers = sorted(int(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r}: write numbers such as 64,256,1024") from None
    if len(numbers) < 2 or not 1 <= numbers[0] <= numbers[-1] <= 9_999:
        raise typer.BadParameter(f"{text!r}: two numbers or more, from 1 to 9999")
    return numbers


def _mode(number: int) -> str:
    return f"{number:,} topics"


def _bars(server: Server, runs: list[Measured], numbers: list[int]) -> list[BarResult]:
    rates = [
        statistics.median(
            run.messages_per_s for run in runs if run.server == server.label and run.mode == _mode(number)
        )
        for number in numbers
    ]
    return [
        BarResult(
            name=f"{server.label}: {_mode(number)} against {_mode(numbers[0])}",
            ours=rate,
            other=rates[0],
            value=rate / rates[0],
            wanted=WANTED,
            at_least=True,
            unit="x",
        )
        for number, rate in list(zip(numbers, rates, strict=True))[1:]
    ]
