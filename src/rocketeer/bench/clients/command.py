"""`rocketeer bench client`: our client beside PyPI's `rocketmq`, its memory over a million messages, a fan-out."""

import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich import box
from rich.table import Table

from rocketeer.bench import report
from rocketeer.bench.clients import cpp
from rocketeer.bench.clients.bars import client_bars, ratios
from rocketeer.bench.clients.fan_out import gathered
from rocketeer.bench.clients.memory import GROWTH_BYTES_MAX, growth_bytes, stored_and_consumed
from rocketeer.bench.clients.rows import ROWS, ClientRun, Rounds
from rocketeer.bench.compare import console
from rocketeer.bench.options import BodyBytes, Folder, Json, Seconds, Warmup
from rocketeer.bench.options import RoundsOption as RoundsOption
from rocketeer.bench.report import bars_table
from rocketeer.bench.servers import Make, ServerCluster, make_label
from rocketeer.bench.session import broker_cores, scratch

MILLION = 1_000_000
GATHERED = 200_000
_CONF = {"waitTimeMillsInSendQueue": 10_000}  # a busy machine is no reason to refuse a send


def client(
    seconds: Seconds = 3,
    warmup: Warmup = 1,
    rounds: RoundsOption = 3,
    body_bytes: BodyBytes = 1024,
    consumed: Annotated[int, typer.Option(min=1000, help="Messages to consume in a push row.")] = 200_000,
    only: Annotated[str, typer.Option(help="Rows whose name contains this.")] = "",
    apache: Annotated[bool, typer.Option(help="Against Apache's broker instead of ours.")] = False,
    memory: Annotated[
        bool, typer.Option("--memory", help="Instead: consume --count messages, watch the memory.")
    ] = False,
    gather: Annotated[
        bool, typer.Option("--gather", help="Instead: give --count sends to one asyncio.gather.")
    ] = False,
    count: Annotated[
        int | None,
        typer.Option(min=1000, help="Messages of --memory (1,000,000) and --gather (200,000)."),
    ] = None,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Our client beside PyPI's rocketmq (C++): a broker of its own, each library in its own process, in turn.

    Exit code 1 when a bar is missed.
    """
    about = report.machine()
    make: Make = "apache" if apache else "ours"
    with scratch(folder) as base:
        cores = None if apache else broker_cores()[0]
        with ServerCluster(make, base / "cluster", conf=_CONF, cores=cores) as cluster:
            if memory:
                passed = _memory(cluster, count or MILLION, body_bytes, json, about)
            elif gather:
                passed = _gather(cluster, count or GATHERED, body_bytes, json, about)
            else:
                side_by_side = Rounds(
                    cluster,
                    base,
                    seconds=seconds,
                    warmup_s=warmup,
                    body_bytes=body_bytes,
                    consumed=consumed,
                    say=_say,
                )
                passed = _rows(side_by_side, rounds, only, make_label(make), json, about)
    if not passed:
        raise typer.Exit(1)


def _say(text: str) -> None:
    console.print(text, style="dim", markup=False, highlight=False)


def _rows(
    side_by_side: Rounds, rounds: int, only: str, broker: str, json: Path | None, about: dict[str, Any]
) -> bool:
    other = cpp.label()
    if other is None:
        console.print("[yellow]PyPI's rocketmq is not installed (make setup brings it): ours only[/yellow]")
    rows = [row for row in ROWS if only in row.name and (other or row.library == "ours")]
    runs = list(side_by_side.run(rows, rounds))
    bars = client_bars(runs)
    by_row = ratios(runs)
    console.print(_table(runs))
    console.print(f"  cpp: {other}; broker: {broker}; latencies in ms; CPU/M: CPU seconds of the client")
    console.print("  process for a million messages; lost: sent, but never stored")
    for row, value in by_row.items():
        console.print(f"  {row}: {value.messages_per_s:.2f} x their messages/s, {value.cpu:.2f} x their CPU")
    if bars:
        console.print(bars_table(bars))
    _finish(
        about,
        json,
        broker=broker,
        other=other,
        runs=[msgspec.to_builtins(run) for run in runs],
        ratios=msgspec.to_builtins(by_row),
        bars=[bar.figures() for bar in bars],
    )
    return all(bar.passed for bar in bars)


def _memory(
    cluster: ServerCluster, count: int, body_bytes: int, json: Path | None, about: dict[str, Any]
) -> bool:
    samples = stored_and_consumed(cluster, "bench_memory", count, body_bytes, _say)
    growth = growth_bytes(samples)
    flat = growth <= GROWTH_BYTES_MAX
    console.print(
        f"  {samples[-1].messages:,} messages in {samples[-1].seconds:.1f} s; memory grew by "
        f"{growth / 1e6:.1f} MB after the first tenth, allowed {GROWTH_BYTES_MAX / 1e6:.0f} MB: "
        f"{'[green]flat[/green]' if flat else '[red]NOT FLAT[/red]'}"
    )
    _finish(about, json, samples=[msgspec.to_builtins(sample) for sample in samples], growth_bytes=growth)
    return flat


def _gather(
    cluster: ServerCluster, count: int, body_bytes: int, json: Path | None, about: dict[str, Any]
) -> bool:
    found = gathered(cluster, "bench_gather", count, body_bytes)
    faults = found.faults()
    console.print(
        f"  {found.stored:,} of {count:,} sends stored in {found.seconds:.1f} s, {count / found.seconds:,.0f}/s; "
        f"{found.cpu_us:.1f} us of CPU and {found.send_bytes:,.0f} bytes of memory for each: "
        f"{'[red]' + '; '.join(faults) + '[/red]' if faults else '[green]as it should be[/green]'}"
    )
    _finish(about, json, gather=msgspec.to_builtins(found))
    return not faults


def _finish(about: dict[str, Any], json: Path | None, **figures: Any) -> None:
    if (warning := report.busy_warning(about)) is not None:
        console.print(f"  [yellow]{warning}[/yellow]")
    if json is not None:
        json.write_text(json_format.dumps({"machine": about, **figures}, indent=2) + "\n")
        console.print(f"  written to {json}")


def _table(runs: Sequence[ClientRun]) -> Table:
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("library", "row"):
        table.add_column(name, no_wrap=True)
    for name in ("msg/s", "p50", "p99", "CPU/M", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in runs:
        latencies = (f"{run.p50_us / 1000:.3g}", f"{run.p99_us / 1000:.3g}") if run.p50_us else ("", "")
        table.add_row(
            run.library,
            run.row,
            f"{run.messages_per_s:,.0f}",
            *latencies,
            f"{run.cpu_us_per_message:.1f}",
            str(run.lost or ""),
        )
    return table
