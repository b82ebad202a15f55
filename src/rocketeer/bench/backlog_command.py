"""`rocketeer bench backlog`: whether a hundred million stored messages make a broker slow, large or late to start."""

from dataclasses import asdict
from typing import Annotated

import typer

from rocketeer.bench import report
from rocketeer.bench.backlog import Backlog, BacklogState
from rocketeer.bench.bar_result import BarResult
from rocketeer.bench.compare import console, judge
from rocketeer.bench.options import BodyBytes, Folder, Json, QueuesOption, RoundsOption, Seconds
from rocketeer.bench.session import LoadPlan, scratch

RATE_WANTED = 0.9
START_S_MAX = 3.0
MEMORY_MB_MAX = 100.0


def backlog(
    messages: Annotated[int, typer.Option(min=1_000_000, help="Of the large backlog.")] = 100_000_000,
    few: Annotated[
        int, typer.Option(min=1_000_000, help="Of the small one it is compared with.")
    ] = 2_000_000,
    body_bytes: BodyBytes = 100,
    queues: QueuesOption = 8,
    seconds: Seconds = 5,
    rounds: RoundsOption = 3,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Send and pull rates, memory, and the start after kill -9, with few messages in the store and with very many."""
    about = report.machine()
    plan = LoadPlan(body_bytes=body_bytes, queues=queues, seconds=seconds, rounds=rounds)
    with scratch(folder) as base:
        measured = Backlog(base, plan, console.print)
        measured.check_room(messages)
        with measured.cluster:
            before = measured.state_at(few)
            after = measured.state_at(messages)
    judge(about, measured.runs, bars(before, after), json, before=asdict(before), after=asdict(after))


def bars(before: BacklogState, after: BacklogState) -> list[BarResult]:
    """What a backlog may cost."""
    return [
        *(
            BarResult.ratio(
                f"{name}, {after.messages:,} messages stored against {before.messages:,}",
                large,
                small,
                RATE_WANTED,
            )
            for name, large, small in (
                ("sends/s", after.sends_per_s, before.sends_per_s),
                ("pulls of the newest/s", after.pulls_per_s, before.pulls_per_s),
            )
        ),
        BarResult.limit(
            "start after kill -9 under load", after.start_s, START_S_MAX, "s", other=before.start_s
        ),
        BarResult.limit(
            "anonymous memory that the backlog adds",
            (after.anonymous_bytes - before.anonymous_bytes) / 1e6,
            MEMORY_MB_MAX,
            "MB",
            ours=after.anonymous_bytes,
            other=before.anonymous_bytes,
        ),
    ]
