"""Masters with a slave under load, and a slave that starts with nothing: the runs of `bench replication`."""

import contextlib
import os
import shutil
import statistics
import threading
import time
import timeit
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from rocketeer.admin.plans.clusters import broker_runtime
from rocketeer.bench.bar_result import BarResult
from rocketeer.bench.control import Control
from rocketeer.bench.groups import GroupCluster
from rocketeer.bench.load import LoadFailed
from rocketeer.bench.processes import wait_for
from rocketeer.bench.run import Measured
from rocketeer.bench.servers import HOST, Make, ServerCluster, Slave, make_label
from rocketeer.bench.session import (
    BenchServer,
    LoadPlan,
    broker_cores,
    fill,
    run_send,
    server_of,
    wait_until_settled,
)
from rocketeer.client.plans.send import SendTerms, send_request
from rocketeer.clock import SystemClock
from rocketeer.config import StoreConfig
from rocketeer.protocol.codes import ResponseCode
from rocketeer.replication.master import Master
from rocketeer.store.base_names import base_name
from rocketeer.store.commit_log import CommitLog


class Copying(StrEnum):
    """A master with one slave, or three members of a group that elects its leader (ours only)."""

    ASYNC = "async"
    SYNC = "sync"
    GROUP = "group"


FOLLOW_S: Final = 60.0
CATCH_UP_S: Final = 300.0
_COPY_BYTES: Final = 8 << 20
_LOADED_S: Final = 3.0
"""Shorter than an empty slave needs: it must not have caught up before the sends end."""


@dataclass(frozen=True, kw_only=True)
class CatchUp:
    """How fast a slave without a log came to have all of it, beside copying the files; both synced, medians."""

    log_mb: float
    seconds: float
    mb_per_s: float
    copy_mb_per_s: float
    sends_alone_per_s: float
    sends_meanwhile_per_s: float
    loaded_mb_per_s: float
    """With the sends going on; the log they added counts."""

    @property
    def share_of_copying(self) -> float:
        return self.mb_per_s / self.copy_mb_per_s

    @property
    def sends_lost(self) -> float:
        return 1 - self.sends_meanwhile_per_s / self.sends_alone_per_s


# --- sends with a slave ----------------------------------------------------------------------


@contextlib.contextmanager
def pair(make: Make, folder: Path, copying: Copying) -> Iterator[BenchServer]:
    """A master with one slave that follows it; nobody is bound to a core, for both makes alike."""
    role = {"brokerRole": f"{copying.upper()}_MASTER", "waitTimeMillsInSendQueue": 10_000}
    master = ServerCluster(make, folder / "master", conf=role)
    with master, Slave(make, folder / "slave", master):
        _wait_until_followed(master, make)
        yield server_of(master)


@contextlib.contextmanager
def group_of_three(folder: Path) -> Iterator[BenchServer]:
    """The leader of three members, all in sync: a send is answered when every one of them has it."""
    with GroupCluster(folder, conf={"waitTimeMillsInSendQueue": 10_000}) as group:
        group.wait_until_in_sync()
        leader = group.wait_for_leader()
        assert leader.process is not None
        yield BenchServer(
            label=make_label("ours"),
            make="ours",
            address=leader.address,
            pid=leader.process.pid,
            load_cores=None,
        )


def servers_of(make: Make, folder: Path, copying: Copying) -> AbstractContextManager[BenchServer]:
    return group_of_three(folder) if copying is Copying.GROUP else pair(make, folder, copying)


def _wait_until_followed(master: ServerCluster, make: Make) -> None:
    """Java's slave reports for the first time after five seconds; a SYNC_MASTER's answers tell when it has."""
    with Control(master.broker) as broker:
        broker.create_topic("followed", queues=1)

        sent = send_request(SendTerms("PG"), broker.queue("followed", 0), b"x", "", now_ms=0)

        def followed() -> bool:
            return broker.call(sent.code, sent.ext, sent.body).code == ResponseCode.SUCCESS

        if not wait_for(followed, FOLLOW_S, poll_s=0.1):
            raise LoadFailed(f"no slave of make {make} followed within {FOLLOW_S:g} s")
    if not _is_sync(master):
        time.sleep(6.0 if make == "apache" else 1.0)


def _is_sync(master: ServerCluster) -> bool:
    return "SYNC_MASTER" in [
        line.partition("=")[2] for line in (master.folder / "broker.conf").read_text().splitlines()
    ]


# --- a slave that starts with nothing --------------------------------------------------------


def catch_up(folder: Path, plan: LoadPlan, messages: int) -> CatchUp:
    """Fill a master; in turns copy its files and have empty slaves copy it, in peace and while it is sent to.

    The master has a core of its own, as with a slave on another machine: the slave shares the others with the load.
    """
    own, others = broker_cores()
    conf = {"waitTimeMillsInSendQueue": 10_000}
    with ServerCluster("ours", folder / "master", conf=conf, cores=own) as master:
        server = server_of(master, others)
        fill(server, plan, messages)
        log_mb = _log_end(master.broker) / 1e6
        copied, in_peace = [], []
        for _ in range(plan.rounds):
            wait_until_settled([server])
            copied.append(_copy_files(master.store / "commitlog", folder / "copied"))
            wait_until_settled([server])
            in_peace.append(_follow(master, folder / "slave"))
        short = replace(plan, seconds=min(plan.seconds, _LOADED_S))
        alone, meanwhile, loaded = [], [], []
        for _ in range(plan.rounds):
            wait_until_settled([server])
            alone.append(run_send(server, short, "sends alone").messages_per_s)
            wait_until_settled([server])
            sent, mb_per_s = _follow_under_load(server, master, folder / "slave", short)
            meanwhile.append(sent.messages_per_s)
            loaded.append(mb_per_s)
    seconds = statistics.median(in_peace)
    return CatchUp(
        log_mb=round(log_mb, 1),
        seconds=round(seconds, 2),
        mb_per_s=round(log_mb / seconds, 1),
        copy_mb_per_s=round(statistics.median(copied), 1),
        sends_alone_per_s=statistics.median(alone),
        sends_meanwhile_per_s=statistics.median(meanwhile),
        loaded_mb_per_s=round(statistics.median(loaded), 1),
    )


def _follow(master: ServerCluster, folder: Path) -> float:
    """Seconds from the first copied byte until an empty slave has the log of its master, on disk."""
    with _starting_slave(master, folder) as (slave, began_s):
        _wait_for_end(slave.broker, _log_end(master.broker))
        for path in (slave.store / "commitlog").iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        return time.monotonic() - began_s


def _follow_under_load(
    server: BenchServer, master: ServerCluster, folder: Path, plan: LoadPlan
) -> tuple[Measured, float]:
    with _starting_slave(master, folder) as (slave, began_s):
        measured = run_send(server, plan, "sends meanwhile")
        return measured, _log_end(slave.broker) / 1e6 / (time.monotonic() - began_s)


@contextlib.contextmanager
def _starting_slave(master: ServerCluster, folder: Path) -> Iterator[tuple[Slave, float]]:
    """A slave without a log, and when it got its first bytes."""
    slave = Slave("ours", folder, master, cores=broker_cores()[1])
    seen_s: list[float] = []

    def watch() -> None:
        wait_for((slave.store / "commitlog" / base_name(0)).exists, FOLLOW_S)
        seen_s.append(time.monotonic())

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        slave.start()
        watching.join()
        yield slave, seen_s[0]
    finally:
        slave.stop()
        shutil.rmtree(folder)


def _wait_for_end(address: str, end: int) -> None:
    if not wait_for(lambda: _log_end(address) >= end, CATCH_UP_S):
        raise LoadFailed(f"the slave had not caught up after {CATCH_UP_S:g} s")


def _log_end(address: str) -> int:
    with Control(address) as broker:
        return int(broker.run(broker_runtime(broker.context, address)).values["commitLogMaxOffset"])


def _copy_files(source: Path, target: Path) -> float:
    """MB/s of copying the log's files, synced: what there is of them, no holes."""
    target.mkdir()
    began_s, size = time.monotonic(), 0
    for path in sorted(source.iterdir()):
        with path.open("rb") as from_file, (target / path.name).open("wb") as to_file:
            for low, high in _data_ranges(from_file.fileno()):
                os.lseek(to_file.fileno(), low, os.SEEK_SET)
                at = low
                while at < high:
                    sent = os.sendfile(to_file.fileno(), from_file.fileno(), at, min(_COPY_BYTES, high - at))
                    at, size = at + sent, size + sent
            os.fsync(to_file.fileno())
    seconds = time.monotonic() - began_s
    shutil.rmtree(target)
    return size / 1e6 / seconds


def _data_ranges(fd: int) -> Iterator[tuple[int, int]]:
    at, size = 0, os.fstat(fd).st_size
    while at < size:
        try:
            low = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:  # only holes from here on
            return
        at = os.lseek(fd, low, os.SEEK_HOLE)
        yield low, at


# --- without a slave -------------------------------------------------------------------------


def idle_cost_ns() -> float:
    """What a master without slaves does for each run of sends, in nanoseconds."""
    master = Master(StoreConfig(), CommitLog(Path("unused"), 1 << 20), SystemClock(), host=HOST)
    timer = timeit.Timer(master.log_grew)
    return min(timer.repeat(5, 100_000)) / 100_000 * 1e9


# --- the bars --------------------------------------------------------------------------------

SYNC_RATIO: Final = 2.0
GROUP_RATIO: Final = 1.5
SHARE_OF_COPYING: Final = 0.5
SENDS_LOST: Final = 0.2
IDLE_NS_MAX: Final = 1_000.0
"""For a run of sends, which takes some hundred times as long."""


def replication_bars(
    rates: Mapping[tuple[Make, Copying], Sequence[float]], caught: CatchUp | None, idle_ns: float
) -> list[BarResult]:
    """What is wanted of replication; messages/s of each round by make and way of copying."""
    bars: list[BarResult] = []
    apaches = rates.get(("apache", Copying.SYNC))
    for ours, name, wanted in (
        (
            rates.get(("ours", Copying.SYNC)),
            "SYNC_MASTER with one slave: messages/s against Apache's",
            SYNC_RATIO,
        ),
        (
            rates.get(("ours", Copying.GROUP)),
            "a group of three: messages/s against Apache's SYNC_MASTER",
            GROUP_RATIO,
        ),
    ):
        if ours and apaches:
            bars.append(BarResult.ratio(name, statistics.median(ours), statistics.median(apaches), wanted))
    if caught is not None:
        bars.append(
            BarResult.ratio(
                "an empty slave catches up: MB/s against copying the files",
                caught.mb_per_s,
                caught.copy_mb_per_s,
                SHARE_OF_COPYING,
            )
        )
        alone, meanwhile = caught.sends_alone_per_s, caught.sends_meanwhile_per_s
        bars.append(
            BarResult.ratio(
                "sends meanwhile against sends alone: messages/s", meanwhile, alone, 1 - SENDS_LOST
            )
        )
    bars.append(BarResult.limit("a master without slaves: for each run of sends", idle_ns, IDLE_NS_MAX, "ns"))
    return bars
