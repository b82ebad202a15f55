"""The servers that the fuzzer attacks, and whom it asks about them."""

import contextlib
import json
import re
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rocketeer.bench.control import Control
from rocketeer.bench.groups import GroupCluster
from rocketeer.bench.processes import ServerProcess
from rocketeer.config.ports import free_ports
from rocketeer.errors import GroupError
from rocketeer.group.etcd_program import find_etcd
from rocketeer.group.frames import FrameKind, frame
from rocketeer.remoting.address import split_address
from support.cluster import running_cluster
from support.grouped import GROUP_CONF
from support.hold import HONEST_TOPIC

BROKER_NAME = "honest-broker"
LEDGER_TOPIC = "HonestLedger"
READY_S = 60.0


class Watched(NamedTuple):
    """A server, and where honest clients ask it; None where none do."""

    name: str
    process: ServerProcess
    address: str | None
    is_broker: bool


class Scene(NamedTuple):
    ports: dict[str, str]
    """Addresses by what `fuzz_sessions.SHARES` call them."""
    servers: list[Watched]
    group_id: bytes = b""


@contextlib.contextmanager
def fuzzed_servers(folder: Path, *, wide: bool) -> Iterator[Scene]:
    """A broker that serves metrics, and a name server; `wide`: and a member of a group, if there is an etcd, and a console."""
    _, metrics_port = free_ports()
    conf = {
        "brokerName": BROKER_NAME,
        "metricsExporterType": "PROM",
        "metricsPromExporterPort": metrics_port,
    }
    with running_cluster(folder, conf=conf) as cluster, contextlib.ExitStack() as more:
        ports = {
            "broker": cluster.broker,
            "namesrv": cluster.namesrv,
            "ha": f"127.0.0.1:{cluster.broker_port + 1}",
            "metrics": f"127.0.0.1:{metrics_port}",
        }
        servers = [
            Watched("broker", cluster.broker_process, cluster.broker, True),
            Watched("name server", cluster.namesrv_process, cluster.namesrv, False),
        ]
        group_id = b""
        if wide:
            with contextlib.suppress(GroupError):
                find_etcd()
                group = more.enter_context(GroupCluster(folder / "group", members=1, conf=GROUP_CONF))
                leader = group.wait_for_leader()
                assert leader.process is not None
                ports["members"] = group.view().live[leader.number].group_address
                servers.append(Watched("group's leader", leader.process, leader.address, True))
                group_id = _group_id(ports["members"])
            ports["console"], console = more.enter_context(_console(folder, cluster.namesrv))
            servers.append(Watched("console", console, None, False))
        for server in servers:
            if server.is_broker and server.address is not None:
                with Control(server.address, timeout_s=60) as broker:
                    broker.create_topic(HONEST_TOPIC, queues=1)
                    broker.create_topic(LEDGER_TOPIC, queues=1)
        yield Scene(ports, servers, group_id)


def _group_id(address: str) -> bytes:
    """The leader names its group to whoever errs."""
    hello = {"group": "?", "member": 2, "incarnation": "x", "epoch": 1, "epochs": [], "log_end": 0}
    with socket.create_connection(split_address(address), READY_S) as sock:
        sock.sendall(frame(FrameKind.HELLO, 1, 0, json.dumps(hello).encode()))
        said = b""
        while (found := re.search(rb"this is ([0-9a-f]{16})", said)) is None:
            more = sock.recv(8192)
            assert more, said
            said += more
    return found[1]


@contextlib.contextmanager
def _console(folder: Path, namesrv: str) -> Iterator[tuple[str, ServerProcess]]:
    _, port = free_ports()
    address = f"127.0.0.1:{port}"
    command = [sys.executable, "-m", "rocketeer.cli.main", "console", "-n", namesrv, "--port", str(port)]
    process = ServerProcess(command, log=folder / "console.out")
    try:
        process.wait_until(lambda: _listens(address), timeout_s=READY_S, what="the console")
        yield address, process
    finally:
        process.kill()


def _listens(address: str) -> bool:
    try:
        socket.create_connection(split_address(address), 1).close()
    except OSError:
        time.sleep(0.05)
        return False
    return True
