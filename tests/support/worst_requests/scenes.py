"""The servers that are attacked: for each place of the catalogue where to attack, and where honest clients go."""

import contextlib
import http.client
import os
import socket
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from rocketeer.bench.control import Control
from rocketeer.bench.groups import GroupCluster
from rocketeer.bench.processes import ServerProcess
from rocketeer.bench.protection import protected
from rocketeer.bench.servers import ServerCluster
from rocketeer.config.ports import free_ports
from rocketeer.console.users import UserRole, add_user
from support.cluster import TEST_CONF, running_cluster
from support.grouped import GROUP_CONF
from support.hold import COOKIE_VARIABLE, HONEST_TOPIC, Kind
from support.worst_requests.prepared import crowd, prepare


class Target(NamedTuple):
    """Where the attack goes, whom the honest client asks, and whose process both use."""

    attacked: str
    honest: str
    process: ServerProcess
    kind: Kind = "broker"


Scene = dict[str, Target]
VIEWER = ("viewer", "looks-at-things")


@contextlib.contextmanager
def plain_scene(folder: Path) -> Iterator[Scene]:
    """A name server and a broker that let everybody in."""
    with running_cluster(folder) as cluster:
        prepare(cluster)
        broker = cluster.broker_process
        yield {
            "broker": Target(cluster.broker, cluster.broker, broker),
            "name server": Target(
                cluster.namesrv, cluster.namesrv, cluster.namesrv_process, kind="name server"
            ),
            "HA port": Target(f"127.0.0.1:{cluster.broker_port + 1}", cluster.broker, broker),
        }


@contextlib.contextmanager
def measured_scene(folder: Path) -> Iterator[Scene]:
    """A broker that serves metrics, with the topics and groups of a usual one."""
    _, metrics_port = free_ports()
    metrics = {"metricsExporterType": "PROM", "metricsPromExporterPort": metrics_port}
    with running_cluster(folder, conf=metrics) as cluster:
        prepare(cluster)
        yield {"metrics port": Target(f"127.0.0.1:{metrics_port}", cluster.broker, cluster.broker_process)}


@contextlib.contextmanager
def crowded_scene(folder: Path) -> Iterator[Scene]:
    """A broker that serves metrics, after strangers made topics and committed offsets for groups that nobody knows."""
    _, metrics_port = free_ports()
    metrics = {"metricsExporterType": "PROM", "metricsPromExporterPort": metrics_port}
    with running_cluster(folder, conf=metrics) as cluster:
        with Control(cluster.broker, timeout_s=60) as control:
            control.create_topic(HONEST_TOPIC, queues=1)
        crowd(cluster.broker)
        target = Target(f"127.0.0.1:{metrics_port}", cluster.broker, cluster.broker_process)
        yield {"metrics port of a crowded broker": target}


@contextlib.contextmanager
def secured_scene(folder: Path) -> Iterator[Scene]:
    """A broker that asks for accounts, and speaks TLS with those who begin with it, as the honest client does."""
    with (
        protected(folder, acl=True, tls=True) as protection,
        ServerCluster("ours", folder / "cluster", conf=TEST_CONF, protection=protection) as cluster,
    ):
        with Control(cluster.broker, timeout_s=60) as control:
            control.create_topic(HONEST_TOPIC, queues=1)
        target = Target(cluster.broker, cluster.broker, cluster.broker_process)
        yield {"broker with TLS": target, "broker with accounts": target}


@contextlib.contextmanager
def encrypted_scene(folder: Path) -> Iterator[Scene]:
    """A broker that speaks TLS with those who begin with it, slaves as well, and asks nobody who they are."""
    with (
        protected(folder, acl=False, tls=True) as protection,
        ServerCluster("ours", folder / "cluster", conf=TEST_CONF, protection=protection) as cluster,
    ):
        with Control(cluster.broker, timeout_s=60) as control:
            control.create_topic(HONEST_TOPIC, queues=1)
        port = f"127.0.0.1:{cluster.broker_port + 1}"
        yield {"HA port with TLS": Target(port, cluster.broker, cluster.broker_process)}


@contextlib.contextmanager
def extended_scene(folder: Path) -> Iterator[Scene]:
    """A broker that keeps bloom bits beside its queues' entries."""
    bits = {"enableConsumeQueueExt": True, "enableCalcFilterBitMap": True}
    with running_cluster(folder, conf=bits) as cluster:
        with Control(cluster.broker, timeout_s=60) as control:
            control.create_topic(HONEST_TOPIC, queues=1)
        yield {"broker with bloom bits": Target(cluster.broker, cluster.broker, cluster.broker_process)}


@contextlib.contextmanager
def group_scene(folder: Path) -> Iterator[Scene]:
    """A group of one member, which leads."""
    with GroupCluster(folder, members=1, conf=GROUP_CONF) as group:
        leader = group.wait_for_leader()
        assert leader.process is not None
        with Control(leader.address, timeout_s=60) as control:
            control.create_topic(HONEST_TOPIC, queues=1)
        member = group.view().live[leader.number]
        yield {"members' port": Target(member.group_address, leader.address, leader.process)}


@contextlib.contextmanager
def console_scene(folder: Path) -> Iterator[Scene]:
    """A console where users sign in; one of them may look at things, and no more."""
    users = folder / "users"
    add_user(users, *VIEWER, UserRole.VIEWER)
    _, port = free_ports()
    with running_cluster(folder / "cluster") as cluster:
        command = [sys.executable, "-m", "rocketeer", "console", "-n", cluster.namesrv, f"--port={port}"]
        process = ServerProcess([*command, f"--users={users}"], log=folder / "console.out")
        try:
            process.wait_until(lambda: _listens(port), timeout_s=60, what="the console")
            address = f"127.0.0.1:{port}"
            os.environ[COOKIE_VARIABLE] = _signed_in(address)
            yield {"console": Target(address, address, process, "console")}
        finally:
            os.environ.pop(COOKIE_VARIABLE, None)
            process.stop()


def _signed_in(address: str) -> str:
    """The viewer's cookie."""
    name, password = VIEWER
    with contextlib.closing(http.client.HTTPConnection(address, timeout=60)) as page:
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        page.request("POST", "/sign-in", urlencode({"name": name, "password": password}), kind)
        answer = page.getresponse()
        assert answer.status == HTTPStatus.SEE_OTHER, answer.status
        return (answer.getheader("set-cookie") or "").partition(";")[0]


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


SCENES = {
    plain_scene: ("broker", "name server", "HA port"),
    measured_scene: ("metrics port",),
    crowded_scene: ("metrics port of a crowded broker",),
    secured_scene: ("broker with TLS", "broker with accounts"),
    encrypted_scene: ("HA port with TLS",),
    extended_scene: ("broker with bloom bits",),
    group_scene: ("members' port",),
    console_scene: ("console",),
}
