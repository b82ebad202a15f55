"""Which servers a benchmark speaks to: ones it starts itself, side by side, or one that runs already."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from rocketeer.bench.control import Control
from rocketeer.bench.frames import SendTarget
from rocketeer.bench.load import Kind, Load
from rocketeer.bench.processes import cpu_seconds, unwritten_bytes
from rocketeer.bench.protection import OPEN, ServerProtection, protected
from rocketeer.bench.run import Measured, measure
from rocketeer.bench.servers import Make, ServerCluster, make_label
from rocketeer.errors import RocketeerError

Flush = Literal["async", "sync"]

_WARM_UP_MAX: Final = 6
_FILL_MESSAGES: Final = 400_000
_REST_S_MAX: Final = 15.0
_REST_LOOK_S: Final = 0.25
_REST_SHARE: Final = 0.05
"""A server that uses less of a core than this rests; a JVM never quite does."""
_REST_BYTES: Final = 32 << 20
"""How many bytes may wait to be written to disk while the machine counts as resting."""


@dataclass(frozen=True, kw_only=True)
class BenchServer:
    """A broker under test and the cores the load may use against it."""

    label: str
    make: Make | None
    address: str
    pid: int | None
    load_cores: frozenset[int] | None
    protection: ServerProtection = OPEN


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """How hard and how long; the fields of a Load that do not depend on the server."""

    connections: int = 16
    in_flight: int = 16
    body_bytes: int = 1024
    queues: int = 4
    topics: int = 1
    warmup_s: float = 2.0
    seconds: float = 5.0
    rounds: int = 3
    processes: int = 1
    rate: float | None = None


def broker_cores() -> tuple[frozenset[int] | None, frozenset[int] | None]:
    """Our broker's one core, and the others for the load; None and None on a machine with one core."""
    cores = sorted(os.sched_getaffinity(0))
    return (frozenset(cores[:1]), frozenset(cores[1:])) if len(cores) > 1 else (None, None)


@contextlib.contextmanager
def scratch(folder: Path | None) -> Iterator[Path]:
    """A new folder inside the one asked for, or where the machine keeps temporary files; gone at the end."""
    with TemporaryDirectory(prefix="rocketeer-bench-", dir=folder, ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextlib.contextmanager
def started(
    makes: tuple[Make, ...],
    *,
    flush: Flush = "async",
    files_max: int | None = None,
    folder: Path | None = None,
    conf: Mapping[str, object] | None = None,
    acl: bool = False,
    tls: bool = False,
) -> Iterator[list[BenchServer]]:
    """Brokers of these makes with fresh stores: ours on one core, Apache's with the whole machine."""
    ours_core, load_cores = broker_cores()
    settings = {"flushDiskType": f"{flush.upper()}_FLUSH", **(conf or {})}
    with scratch(folder) as base, contextlib.ExitStack() as running:
        servers = []
        protection = running.enter_context(protected(base, acl=acl, tls=tls))
        for make in makes:
            ours = make == "ours"
            cluster = running.enter_context(
                ServerCluster(
                    make,
                    base / make,
                    conf=settings,
                    cores=ours_core if ours else None,
                    files_max=files_max if ours else None,
                    protection=protection,
                )
            )
            servers.append(server_of(cluster, load_cores if ours else None, protection))
        yield servers


def server_of(
    cluster: ServerCluster, load_cores: frozenset[int] | None = None, protection: ServerProtection = OPEN
) -> BenchServer:
    """The running broker of a cluster."""
    return BenchServer(
        label=make_label(cluster.make),
        make=cluster.make,
        address=cluster.broker,
        pid=cluster.broker_process.pid,
        load_cores=load_cores,
        protection=protection,
    )


def existing(address: str, pid: int | None) -> BenchServer:
    """A broker somebody else started."""
    return BenchServer(label=address, make=None, address=address, pid=pid, load_cores=None)


# --- runs ------------------------------------------------------------------------------------

_runs = int(time.time())


def _next_run() -> int:
    """A number for the keys of one run; six hexadecimal digits."""
    global _runs
    _runs += 1
    return _runs & 0xFFFFFF


def prepare(server: BenchServer, plan: LoadPlan) -> SendTarget:
    """The topics of a plan, created when they are not there."""
    topics = tuple(f"bench{plan.queues}_{number:04d}" for number in range(plan.topics))
    with Control(server.address, timeout_s=60) as control:
        try:
            missing = set(topics) - control.topics()
        except RocketeerError:
            missing = set(topics)
        for topic in sorted(missing):
            control.create_topic(topic, queues=plan.queues)
    return SendTarget(topics, plan.queues)


def load_of(server: BenchServer, plan: LoadPlan, kind: Kind) -> Load:
    """The load a plan puts on a server; for pulls, on what its queues hold now."""
    target = prepare(server, plan)
    ends: dict[tuple[str, int], int] = {}
    if kind == "pull":
        with Control(server.address) as control:
            ends = {
                (target.topics[0], q): control.max_offset(target.topics[0], q) for q in range(plan.queues)
            }
    return Load(
        address=server.address,
        kind=kind,
        target=target,
        run=_next_run(),
        connections=plan.connections,
        in_flight=plan.in_flight,
        body_bytes=plan.body_bytes,
        warmup_s=plan.warmup_s,
        seconds=plan.seconds,
        rate=plan.rate,
        cores=server.load_cores,
        queue_ends=ends,
        account=server.protection.account,
        trust=server.protection.trust,
    )


def _run(server: BenchServer, plan: LoadPlan, kind: Kind, mode: str) -> Measured:
    load = load_of(server, plan, kind)
    return measure(load, mode=mode, server=server.label, pid=server.pid, processes=plan.processes)


def run_send(server: BenchServer, plan: LoadPlan, mode: str = "send") -> Measured:
    """Measure sends of single messages."""
    return _run(server, plan, "send", mode)


def run_batch(server: BenchServer, plan: LoadPlan, mode: str = "batch") -> Measured:
    """Measure sends of batches of 32 messages."""
    return _run(server, plan, "batch", mode)


def run_pull(server: BenchServer, plan: LoadPlan, mode: str = "pull") -> Measured:
    """Pulls of 32 messages; `fill` first."""
    return _run(server, plan, "pull", mode)


def run_end_to_end(server: BenchServer, plan: LoadPlan, mode: str = "e2e") -> Measured:
    """A producer, and a consumer with a pull held on every queue; the latency is a message's age on arrival."""
    load = replace(load_of(server, plan, "send"), stamped=True, body_bytes=max(plan.body_bytes, 32))
    return measure(load, mode=mode, server=server.label, pid=server.pid, processes=1, puller=True)


def fill(server: BenchServer, plan: LoadPlan, messages: int = _FILL_MESSAGES) -> None:
    """Messages of the plan's size to pull later, as many for every server."""
    short = replace(plan, warmup_s=0.0, seconds=0.2, connections=2, in_flight=2, rate=None)
    while sum(load_of(server, plan, "pull").queue_ends.values()) < messages:
        run_batch(server, short)


def wait_until_settled(servers: list[BenchServer]) -> None:
    """Wait until all servers have finished the work that their last load left: it must not cost the next one."""
    pids = [server.pid for server in servers if server.pid is not None]
    give_up_s = time.monotonic() + _REST_S_MAX
    while time.monotonic() < give_up_s:
        before = [cpu_seconds(pid) for pid in pids]
        time.sleep(_REST_LOOK_S)
        used = [cpu_seconds(pid) - cpu for pid, cpu in zip(pids, before, strict=True)]
        if all(cpu_s < _REST_SHARE * _REST_LOOK_S for cpu_s in used) and unwritten_bytes() < _REST_BYTES:
            return


def warm_up(
    servers: list[BenchServer],
    plan: LoadPlan,
    measure: Callable[[BenchServer, LoadPlan], Measured] = run_send,
) -> None:
    """Warm every server up with short loads of the plan's kind."""
    short = replace(plan, warmup_s=0.2, seconds=3.0, rate=None)
    until_no_faster(servers, lambda server: measure(server, short).messages_per_s)


def until_no_faster(servers: list[BenchServer], rate_of: Callable[[BenchServer], float]) -> None:
    """Measure each server, until it is hardly faster: a Java broker compiles its code while it runs."""
    for server in servers:
        best = 0.0
        for _ in range(_WARM_UP_MAX):
            rate = rate_of(server)
            if rate < best * 1.1:
                break
            best = rate
