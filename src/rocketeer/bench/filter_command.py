"""`rocketeer bench filter`: stored messages pulled through an SQL92 filter, our broker beside Apache's in one run."""

import statistics
from typing import Annotated

import typer

from rocketeer.bench import report
from rocketeer.bench.compare import console, finish
from rocketeer.bench.filtered import (
    COMBINATIONS,
    EXPRESSION,
    FilteredPull,
    FilterPlan,
    pull_all,
    store,
    wanted_of,
)
from rocketeer.bench.options import MAKES, Folder, Json, QueuesOption, RoundsOption, Start, StartOption
from rocketeer.bench.session import started, until_no_faster

_CONF = {"enablePropertyFilter": "true", "waitTimeMillsInSendQueue": "10000"}


def filter_(
    messages: Annotated[int, typer.Option(min=COMBINATIONS, help="Messages stored.")] = 1_000_000,
    queues: QueuesOption = 4,
    body_bytes: Annotated[int, typer.Option("--body-bytes", "-b", min=1, help="Size of a body.")] = 128,
    expression: Annotated[str, typer.Option(help="The filter; the default wants 1 %.")] = EXPRESSION,
    rounds: RoundsOption = 3,
    start: StartOption = Start.both,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Pull stored messages through an SQL92 filter that wants 1 % of them; the CPU of dispatch counts."""
    plan = FilterPlan(messages=messages, queues=queues, body_bytes=body_bytes, expression=expression)
    about = report.machine()
    with started(MAKES[start], folder=folder, conf=_CONF) as servers:
        stored_cpu_s = [store(server, plan) for server in servers]
        runs: list[list[FilteredPull]] = [[] for _ in servers]
        until_no_faster(servers, lambda server: 1 / pull_all(server, plan).seconds)
        for number in range(rounds):
            for index, server in enumerate(servers):
                pulled = pull_all(server, plan)
                console.print(
                    f"  filter {number + 1}/{rounds} {server.label}: {plan.total / pulled.seconds:,.0f}/s, "
                    f"{pulled.matched:,} matched, {pulled.pulls:,} pulls, {pulled.cpu_s:.2f} s of CPU"
                )
                runs[index].append(pulled)
    if expression == EXPRESSION:
        wanted = plan.queues * wanted_of(plan.per_queue)
        assert all(run.matched == wanted for each in runs for run in each), f"not {wanted} messages matched"
    figures: list[dict[str, float]] = []
    for server, cpu_s, each in zip(servers, stored_cpu_s, runs, strict=True):
        pulling_s = statistics.median(run.seconds for run in each)
        figures.append(
            {
                "messages": plan.total,
                "pull_per_s": plan.total / pulling_s,
                "stored_cpu_s": cpu_s,
                "per_s": plan.total / (pulling_s + cpu_s),
                "broker_cpu_s": statistics.median(run.cpu_s for run in each),
            }
        )
        console.print(
            f"{server.label}: {plan.total / pulling_s:,.0f} messages/s through the filter; "
            f"{plan.total / (pulling_s + cpu_s):,.0f}/s with the {cpu_s:.2f} s of CPU that storing and dispatch took"
        )
    if len(figures) == 2:
        ours, apache = figures
        console.print(
            f"ratio to Apache's (bar: 1): {ours['pull_per_s'] / apache['pull_per_s']:.2f} pulling, "
            f"{ours['per_s'] / apache['per_s']:.2f} with storing and dispatch"
        )
    named = {server.label: figure for server, figure in zip(servers, figures, strict=True)}
    finish(about, [], json, filter=named)
