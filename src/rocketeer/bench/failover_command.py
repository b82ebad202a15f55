"""`rocketeer bench failover`: kill -9 of a group's members under load, time after time, and what was lost by it."""

from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from rocketeer.bench import report
from rocketeer.bench.compare import console, finish
from rocketeer.bench.failover import failover as run_failover
from rocketeer.bench.failover import failover_bars
from rocketeer.bench.options import BodyBytes, Folder, Json
from rocketeer.config.group import GroupConfig
from rocketeer.errors import RocketeerError


def failover(
    kills: Annotated[int, typer.Option(min=1, help="How often the leader is killed.")] = 10,
    in_flight: Annotated[
        int, typer.Option("--in-flight", "-w", min=1, max=500, help="Sends under way, of each producer.")
    ] = 8,
    body_bytes: BodyBytes = 1024,
    lease: Annotated[int, typer.Option(min=1, help="groupLeaseSeconds.")] = GroupConfig().lease_s,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Kill the leader of three under load, then followers.

    Exit code 1 for a pause too long, or a message lost or doubled.
    """
    about = report.machine()
    try:
        with TemporaryDirectory(prefix="rocketeer-bench-", dir=folder) as scratch:
            result = run_failover(
                Path(scratch),
                kills=kills,
                in_flight=in_flight,
                body_bytes=body_bytes,
                lease_s=lease,
                say=console.print,
            )
    except RocketeerError as why:
        console.print(f"[red]{why}[/red]")
        raise typer.Exit(1) from None
    console.print(
        f"  {result.acknowledged:,} messages acknowledged; pauses: median {result.median_s:.2f} s, "
        f"longest {max(result.seconds):.2f} s, for a follower {max(result.follower_seconds):.2f} s; "
        f"refused or timed out: {dict(result.refused) or 'none'}"
    )
    bars = failover_bars(result)
    console.print(report.bars_table(bars))
    judged = [{**asdict(bar), "passed": bar.passed} for bar in bars]
    finish(about, [], json, failover={**asdict(result), "lease_s": lease, "bars": judged})
    if not all(bar.passed for bar in bars):
        raise typer.Exit(1)
