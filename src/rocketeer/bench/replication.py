"""Masters with a slave under load, and a slave that starts with nothing: the runs of `bench replication`."""

import contextlib
import os
import shutil
import threading
import time
import timeit
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from rocketeer.bench.control import Control
from rocketeer.bench.load import LoadFailed
from rocketeer.bench.run import Measured
from rocketeer.bench.servers import HOST, Cluster, Make, Slave, make_label
from rocketeer.bench.session import Plan, Server, fill, run_send
from rocketeer.clock import SystemClock
from rocketeer.config import StoreConfig
from rocketeer.protocol.bodies.kv import decode_kv_table
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.replication.master import Master
from rocketeer.store.commit_log import CommitLog

Copying = Literal["async", "sync"]

FOLLOW_S: Final = 60.0
CATCH_UP_S: Final = 300.0
_LOOK_S: Final = 0.02
_COPY_BYTES: Final = 8 << 20


@dataclass(frozen=True, kw_only=True)
class CatchUp:
    """How fast a slave without a log came to have all of it, beside copying the files and syncing them."""

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
def pair(make: Make, folder: Path, copying: Copying) -> Iterator[Server]:
    """A master with one slave that follows it; nobody is bound to a core, for both makes alike."""
    role = {"brokerRole": f"{copying.upper()}_MASTER", "waitTimeMillsInSendQueue": 10_000}
    master = Cluster(make, folder / "master", conf=role)
    with master, Slave(make, folder / "slave", master):
        _wait_until_followed(master, make)
        yield Server(
            label=f"{make_label(make)}",
            make=make,
            address=master.broker,
            pid=master.broker_process.pid,
            load_cores=None,
        )


def _wait_until_followed(master: Cluster, make: Make) -> None:
    """Java's slave reports for the first time after five seconds; a SYNC_MASTER's answers tell when it has."""
    give_up_s = time.monotonic() + FOLLOW_S
    with Control(master.broker) as broker:
        broker.create_topic("followed", queues=1)
        while broker.call(RequestCode.SEND_MESSAGE_V2, _SEND, b"x").code != ResponseCode.SUCCESS:
            if time.monotonic() > give_up_s:
                raise LoadFailed(f"no slave of make {make} followed within {FOLLOW_S:g} s")
            time.sleep(0.1)
    if not _is_sync(master):
        time.sleep(6.0 if make == "apache" else 1.0)


_SEND: Final = {
    "a": "PG", "b": "followed", "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "0", "h": "0",
    "i": "TAGS\x01t\x02", "j": "0", "k": "false", "m": "false",
}  # fmt: skip


def _is_sync(master: Cluster) -> bool:
    return "SYNC_MASTER" in [
        line.partition("=")[2] for line in (master.folder / "broker.conf").read_text().splitlines()
    ]


# --- a slave that starts with nothing --------------------------------------------------------


def catch_up(folder: Path, plan: Plan, messages: int) -> CatchUp:
    """Fill a master, copy its files, then have empty slaves copy it: once in peace, once while it is sent to."""
    with Cluster("ours", folder / "master", conf={"waitTimeMillsInSendQueue": 10_000}) as master:
        server = Server(
            label=make_label("ours"),
            make="ours",
            address=master.broker,
            pid=master.broker_process.pid,
            load_cores=None,
        )
        fill(server, plan, messages)
        copied_mb_per_s = _copy_files(master.store / "commitlog", folder / "copied")
        log_mb = _log_end(master.broker) / 1e6
        in_peace = _follow(master, folder / "first")
        alone = run_send(server, replace(plan, warmup_s=0.5), "sends alone")
        meanwhile, loaded_mb_per_s = _follow_under_load(server, master, folder / "second", plan)
    return CatchUp(
        log_mb=round(log_mb, 1),
        seconds=round(in_peace, 2),
        mb_per_s=round(log_mb / in_peace, 1),
        copy_mb_per_s=round(copied_mb_per_s, 1),
        sends_alone_per_s=alone.messages_per_s,
        sends_meanwhile_per_s=meanwhile.messages_per_s,
        loaded_mb_per_s=round(loaded_mb_per_s, 1),
    )


def _follow(master: Cluster, folder: Path) -> float:
    """Seconds from the first copied byte until an empty slave has the log of its master."""
    with _starting_slave(master, folder) as (slave, began_s):
        _wait_for_end(slave.broker, _log_end(master.broker))
        return time.monotonic() - began_s


def _follow_under_load(server: Server, master: Cluster, folder: Path, plan: Plan) -> tuple[Measured, float]:
    with _starting_slave(master, folder) as (slave, began_s):
        short = replace(plan, warmup_s=0.0, seconds=min(plan.seconds, 3.0))
        measured = run_send(server, short, "sends meanwhile")
        return measured, _log_end(slave.broker) / 1e6 / (time.monotonic() - began_s)


@contextlib.contextmanager
def _starting_slave(master: Cluster, folder: Path) -> Iterator[tuple[Slave, float]]:
    """A slave without a log, and when it got its first bytes."""
    slave = Slave("ours", folder, master)
    seen_s: list[float] = []

    def watch() -> None:
        give_up_s = time.monotonic() + FOLLOW_S
        while time.monotonic() < give_up_s and not (slave.store / "commitlog" / f"{0:020d}").exists():
            time.sleep(_LOOK_S)
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
    give_up_s = time.monotonic() + CATCH_UP_S
    while _log_end(address) < end:
        if time.monotonic() > give_up_s:
            raise LoadFailed(f"the slave had not caught up after {CATCH_UP_S:g} s")
        time.sleep(_LOOK_S)


def _log_end(address: str) -> int:
    with Control(address) as broker:
        told = broker.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    return int(decode_kv_table(told.body)["commitLogMaxOffset"])


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
    timer = timeit.Timer(master.grown)
    return min(timer.repeat(5, 100_000)) / 100_000 * 1e9
