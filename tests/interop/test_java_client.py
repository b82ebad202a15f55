"""Apache's own Java client against a real broker process (`make interop`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import client_laws
from support.cluster import ServerCluster
from support.peers import Peer, java_peer

pytestmark = pytest.mark.interop


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    peer = java_peer(tmp_path)
    yield peer
    peer.stop_all()


@pytest.mark.parametrize(
    "law",
    [*client_laws.FULL_CLIENT, client_laws.a_batch_arrives_as_single_messages],
    ids=lambda law: law.__name__,
)
def test_java_client(law: client_laws.Law, cluster: ServerCluster, peer: Peer) -> None:
    law(cluster, peer)


def test_the_vip_port_serves_clients_that_use_it(cluster: ServerCluster, peer: Peer) -> None:
    client_laws.the_vip_port_serves(cluster, peer)


@pytest.mark.timeout(360)
@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill -9"])
def test_a_restart_of_the_broker_loses_nothing(kill: bool, cluster: ServerCluster, peer: Peer) -> None:
    client_laws.a_restart_loses_nothing(cluster, peer, kill=kill)
