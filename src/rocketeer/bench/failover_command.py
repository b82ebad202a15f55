"""`rocketeer bench failover`: kill -9 of a group's members under load, time after time, and what was lost by it."""

from dataclasses import asdict
from typing import Annotated

import typer

from rocketeer.bench import report
from rocketeer.bench.compare import console, judge
from rocketeer.bench.failover import failover as run_failover
from rocketeer.bench.failover import failover_bars
from rocketeer.bench.options import BodyBytes, Folder, Json
from rocketeer.bench.session import scratch
from rocketeer.config.group import ReplicaGroupConfig


def failover(
    kills: Annotated[int, typer.Option(min=1, help="How often the leader is killed.")] = 10,
    in_flight: Annotated[
        int, typer.Option("--in-flight", "-w", min=1, max=500, help="Sends under way, of each producer.")
    ] = 8,
    body_bytes: BodyBytes = 1024,
    lease: Annotated[int, typer.Option(min=1, help="groupLeaseSeconds.")] = ReplicaGroupConfig().lease_s,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Kill the leader of three under load, then followers.

    Exit code 1 for a pause too long, or a message lost or doubled.
    """
    about = report.machine()
    with scratch(folder) as base:
        result = run_failover(
            base,
            kills=kills,
            in_flight=in_flight,
            body_bytes=body_bytes,
            lease_s=lease,
            say=console.print,
        )
    console.print(
        f"  {result.acknowledged:,} messages acknowledged; pauses: median {result.median_s:.2f} s, "
        f"longest {max(result.seconds):.2f} s, for a follower {max(result.follower_seconds):.2f} s; "
        f"refused or timed out: {dict(result.refused) or 'none'}"
    )
    bars = failover_bars(result)
    figures = {**asdict(result), "lease_s": lease, "bars": [bar.figures() for bar in bars]}
    judge(about, [], bars, json, failover=figures)
