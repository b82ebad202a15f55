"""`rocketeer bench backlog`: whether a hundred million stored messages make a broker slow, large or late to start."""

from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from rocketeer.bench import report
from rocketeer.bench.backlog import Backlog, State
from rocketeer.bench.bars import BarResult
from rocketeer.bench.compare import console, finish
from rocketeer.bench.options import BodyBytes, Folder, Json, Queues, Rounds, Seconds
from rocketeer.bench.session import Plan
from rocketeer.errors import RocketeerError

RATE_WANTED = 0.9
START_S_MAX = 3.0
MEMORY_MB_MAX = 100.0


def backlog(
    messages: Annotated[int, typer.Option(min=1_000_000, help="Of the large backlog.")] = 100_000_000,
    few: Annotated[
        int, typer.Option(min=1_000_000, help="Of the small one it is compared with.")
    ] = 2_000_000,
    body_bytes: BodyBytes = 100,
    queues: Queues = 8,
    seconds: Seconds = 5,
    rounds: Rounds = 3,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Send and pull rates, memory, and the start after kill -9, with few messages in the store and with very many."""
    about = report.machine()
    plan = Plan(body_bytes=body_bytes, queues=queues, seconds=seconds, rounds=rounds)
    try:
        with TemporaryDirectory(prefix="rocketeer-bench-", dir=folder) as scratch:
            measured = Backlog(Path(scratch), plan, console.print)
            measured.check_room(messages)
            with measured.cluster:
                before = measured.state_at(few)
                after = measured.state_at(messages)
    except RocketeerError as why:
        console.print(f"[red]{why}[/red]")
        raise typer.Exit(1) from None
    results = bars(before, after)
    console.print(report.bars_table(results))
    finish(about, measured.runs, json, before=asdict(before), after=asdict(after))
    if not all(bar.passed for bar in results):
        raise typer.Exit(1)


def bars(before: State, after: State) -> list[BarResult]:
    """What a backlog may cost."""
    return [
        *(
            BarResult(
                name=f"{name}, {after.messages:,} messages stored against {before.messages:,}",
                ours=large,
                other=small,
                value=large / small,
                wanted=RATE_WANTED,
                at_least=True,
                unit="x",
            )
            for name, large, small in (
                ("sends/s", after.sends_per_s, before.sends_per_s),
                ("pulls of the newest/s", after.pulls_per_s, before.pulls_per_s),
            )
        ),
        BarResult(
            name="start after kill -9 under load",
            ours=after.start_s,
            other=before.start_s,
            value=after.start_s,
            wanted=START_S_MAX,
            at_least=False,
            unit="s",
        ),
        BarResult(
            name="anonymous memory that the backlog adds",
            ours=after.anonymous_bytes,
            other=before.anonymous_bytes,
            value=(after.anonymous_bytes - before.anonymous_bytes) / 1e6,
            wanted=MEMORY_MB_MAX,
            at_least=False,
            unit="MB",
        ),
    ]
