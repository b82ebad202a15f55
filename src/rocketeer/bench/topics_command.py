"""`rocketeer bench topics`: the same load on few topics, on more, and on very many."""

import statistics
from dataclasses import replace
from typing import Annotated

import typer

from rocketeer.bench import report
from rocketeer.bench.bar_result import BarResult
from rocketeer.bench.compare import console, finish
from rocketeer.bench.options import (
    MAKES,
    BodyBytes,
    Folder,
    Json,
    QueuesOption,
    RoundsOption,
    Seconds,
    Start,
    StartOption,
)
from rocketeer.bench.run import Measured
from rocketeer.bench.session import BenchServer, LoadPlan, run_send, started, wait_until_settled, warm_up

WANTED = 0.95


def topics(
    counts: Annotated[str, typer.Option(help="How many topics, each in turn.")] = "64,256,1024",
    start: StartOption = Start.ours,
    queues: QueuesOption = 8,
    body_bytes: BodyBytes = 1024,
    files_max: Annotated[int, typer.Option(help="ulimit -n of our broker.")] = 1024,
    seconds: Seconds = 5,
    rounds: RoundsOption = 6,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Sends to ever more topics, under a small limit of open files: at most 5% of the rate may be lost."""
    numbers = _numbers(counts)
    about = report.machine()
    plan = LoadPlan(queues=queues, body_bytes=body_bytes, seconds=seconds, rounds=rounds)
    runs: list[Measured] = []
    with started(MAKES[start], files_max=files_max, folder=folder) as servers:
        warm_up(servers, replace(plan, topics=numbers[-1]))  # topics and their files exist before it counts
        for _ in range(rounds):  # in turn: what else the machine does hits all alike
            for number in numbers:
                for server in servers:
                    wait_until_settled(servers)
                    runs.append(run_send(server, replace(plan, topics=number), _mode(number)))
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


def _bars(server: BenchServer, runs: list[Measured], numbers: list[int]) -> list[BarResult]:
    rates = [
        statistics.median(
            run.messages_per_s for run in runs if run.server == server.label and run.mode == _mode(number)
        )
        for number in numbers
    ]
    return [
        BarResult.ratio(
            f"{server.label}: {_mode(number)} against {_mode(numbers[0])}", rate, rates[0], WANTED
        )
        for number, rate in list(zip(numbers, rates, strict=True))[1:]
    ]
