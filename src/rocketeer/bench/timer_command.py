"""`rocketeer bench timers`: how punctual timed messages are, how long a start with many takes, what each costs."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rocketeer.bench import report
from rocketeer.bench.compare import console, finish
from rocketeer.bench.control import Control
from rocketeer.bench.options import Folder, Json
from rocketeer.bench.processes import anonymous_bytes, cpu_seconds, wait_for
from rocketeer.bench.servers import ServerCluster
from rocketeer.bench.session import scratch
from rocketeer.bench.timers import (
    QUEUES,
    TOPIC,
    Probe,
    fill_store,
    now_ms,
    punctuality,
    send_timed,
    spread,
    wait_delivered,
)
from rocketeer.errors import RocketeerError

_SNAPSHOT = Path("timer") / "pending"
_BODY = b"x" * 128
_CONF = {"waitTimeMillsInSendQueue": 10_000}  # sends are not refused because the machine is busy


def timers(
    pending: Annotated[int, typer.Option(min=1, help="Timers that wait when the first is due.")] = 100_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="Over how long they fall due.")] = 30,
    lead: Annotated[
        float, typer.Option(min=1, help="Seconds until the first; sending must be done then.")
    ] = 30,
    burst: Annotated[int, typer.Option(min=0, help="Timers of one millisecond.")] = 50_000,
    startup: Annotated[int, typer.Option(min=0, help="Pending timers of the start-up.")] = 1_000_000,
    days: Annotated[int, typer.Option(min=1, help="Over how many days those fall due.")] = 40,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Delivery error of timed messages, waits of others during a burst, start-up and memory with many pending."""
    about = report.machine()
    figures: dict[str, Any] = {}
    with scratch(folder) as base:
        figures["delivery"] = _delivery(base / "delivery", pending, seconds, lead, burst)
        if startup:
            figures["startup"] = _startup(base / "startup", startup, days)
    finish(about, [], json, timers=figures)


def _delivery(folder: Path, pending: int, seconds: float, lead_s: float, burst: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    with ServerCluster("ours", folder, conf=_CONF) as cluster:
        with Control(cluster.broker) as broker:
            broker.create_topic(TOPIC, queues=QUEUES)
        figures["spread"] = _round(cluster, spread(pending, now_ms() + int(lead_s * 1000), seconds), 0)
        if burst:
            console.print(f"a burst: {burst:,} timers of one millisecond")
            at = [now_ms() + int(lead_s * 1000)] * burst
            figures["burst"] = _round(cluster, at, pending)
    return figures


def _round(cluster: ServerCluster, due_ms: list[int], before: int) -> dict[str, Any]:
    begin_s = time.monotonic()
    send_timed(cluster.broker, due_ms, _BODY)
    took_s = time.monotonic() - begin_s
    if now_ms() >= due_ms[0]:
        raise RocketeerError(f"sending {len(due_ms):,} timers took {took_s:.1f} s: give a longer --lead")
    console.print(f"{len(due_ms):,} timers sent in {took_s:.1f} s ({len(due_ms) / took_s:,.0f}/s)")
    with Control(cluster.broker) as broker:
        skip = [broker.max_offset(TOPIC, queue_id) for queue_id in range(QUEUES)]
    assert sum(skip) == before, "none is delivered yet"
    time.sleep(max(0.0, due_ms[0] / 1000 - time.time() - 0.1))
    probe = Probe(cluster.broker)
    probe.start()
    wait_delivered(cluster.broker, before + len(due_ms), (due_ms[-1] - due_ms[0]) / 1000 + 120)
    wait_p99_ms, wait_max_ms = probe.finish()
    late = punctuality(cluster.broker, skip)
    console.print(
        f"  delivery error: p50 {late.p50_ms} ms, p99 {late.p99_ms} ms, p99.9 {late.p999_ms} ms, "
        f"max {late.max_ms} ms, {late.early} early; "
        f"another client's call meanwhile: p99 {wait_p99_ms:.1f} ms, max {wait_max_ms:.1f} ms"
    )
    return {
        **asdict(late),
        "sent_per_s": len(due_ms) / took_s,
        "call_p99_ms": wait_p99_ms,
        "call_max_ms": wait_max_ms,
    }


def _startup(folder: Path, pending: int, days: int) -> dict[str, Any]:
    with ServerCluster("ours", folder / "empty") as cluster:
        time.sleep(2)
        empty_bytes = anonymous_bytes(cluster.broker_process.pid)
    begin_s = time.monotonic()
    fill_store(folder / "full" / "store", pending, days, _BODY)
    console.print(f"a store with {pending:,} pending timers made in {time.monotonic() - begin_s:.1f} s")
    cluster = ServerCluster("ours", folder / "full", ready_s=300)
    cluster.start()
    try:
        snapshot = cluster.store / _SNAPSHOT
        figures: dict[str, Any] = {"pending": pending}
        if not wait_for(snapshot.exists, 60):
            raise RocketeerError(f"no snapshot at {snapshot} within a minute")
        cluster.stop_broker()
        figures["with_snapshot_s"], figures["with_snapshot_cpu_s"] = _timed_start(cluster)
        time.sleep(2)
        full_bytes = anonymous_bytes(cluster.broker_process.pid)
        cluster.kill_broker()
        figures["after_kill_s"], figures["after_kill_cpu_s"] = _timed_start(cluster)
        cluster.stop_broker()
        snapshot.unlink()
        figures["from_the_log_s"], figures["from_the_log_cpu_s"] = _timed_start(cluster)
    finally:
        cluster.stop()
    figures["bytes_per_timer"] = (full_bytes - empty_bytes) / pending
    console.print("  start until it serves, and the CPU time of it:")
    for case in ("with_snapshot", "after_kill", "from_the_log"):
        console.print(f"    {case}: {figures[case + '_s']:.1f} s, {figures[case + '_cpu_s']:.1f} s of CPU")
    console.print(f"  memory: {figures['bytes_per_timer']:.0f} bytes per pending timer")
    return figures


def _timed_start(cluster: ServerCluster) -> tuple[float, float]:
    """Seconds until it serves, and its CPU seconds: on a busy machine the second says more."""
    begin_s = time.monotonic()
    cluster.start_broker()
    return time.monotonic() - begin_s, cpu_seconds(cluster.broker_process.pid)
