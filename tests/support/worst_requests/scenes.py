"""The servers that are attacked: for each place of the catalogue where to attack, and where honest clients go."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rocketeer.bench.control import Control
from rocketeer.bench.groups import GroupCluster
from rocketeer.bench.processes import ServerProcess
from rocketeer.bench.protection import protected
from rocketeer.bench.servers import Cluster
from rocketeer.config.ports import free_ports
from support.cluster import TEST_CONF, running_cluster
from support.grouped import GROUP_CONF
from support.hold import HONEST_TOPIC
from support.worst_requests.prepared import crowd, prepare


class Target(NamedTuple):
    """Where the attack goes, whom the honest client asks, and whose process both use."""

    attacked: str
    honest: str
    process: ServerProcess
    is_broker: bool = True


Scene = dict[str, Target]


@contextlib.contextmanager
def plain_scene(folder: Path) -> Iterator[Scene]:
    """A name server and a broker that let everybody in."""
    with running_cluster(folder) as cluster:
        prepare(cluster)
        broker = cluster.broker_process
        yield {
            "broker": Target(cluster.broker, cluster.broker, broker),
            "name server": Target(cluster.namesrv, cluster.namesrv, cluster.namesrv_process, is_broker=False),
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
        Cluster("ours", folder / "cluster", conf=TEST_CONF, protection=protection) as cluster,
    ):
        with Control(cluster.broker, timeout_s=60) as control:
            control.create_topic(HONEST_TOPIC, queues=1)
        target = Target(cluster.broker, cluster.broker, cluster.broker_process)
        yield {"broker with TLS": target, "broker with accounts": target}


@contextlib.contextmanager
def group_scene(folder: Path) -> Iterator[Scene]:
    """A group of one member, which leads."""
    with GroupCluster(folder, members=1, conf=GROUP_CONF) as group:
        leader = group.wait_for_leader()
        assert leader.process is not None
        with Control(leader.address, timeout_s=60) as control:
            control.create_topic(HONEST_TOPIC, queues=1)
        seat = group.view().seats[leader.number]
        yield {"members' port": Target(seat.group_address, leader.address, leader.process)}


SCENES = {
    plain_scene: ("broker", "name server", "HA port"),
    measured_scene: ("metrics port",),
    crowded_scene: ("metrics port of a crowded broker",),
    secured_scene: ("broker with TLS", "broker with accounts"),
    group_scene: ("members' port",),
}
