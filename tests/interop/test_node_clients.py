"""npm `ali-ons` and `rocketmq-nodejs` against a real broker process (`make interop`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import client_laws
from support.cluster import ServerCluster
from support.peers import Peer, node_peer

pytestmark = pytest.mark.interop


@pytest.fixture(params=["ali_ons", "rocketmq_nodejs"])
def peer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Peer]:
    peer = node_peer(request.param, tmp_path)
    yield peer
    peer.stop_all()


@pytest.mark.parametrize("law", client_laws.EVERY_CLIENT, ids=lambda law: law.__name__)
def test_node_client(law: client_laws.Law, cluster: ServerCluster, peer: Peer) -> None:
    law(cluster, peer)


@pytest.mark.timeout(360)
@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill -9"])
def test_a_restart_of_the_broker_loses_nothing(kill: bool, cluster: ServerCluster, peer: Peer) -> None:
    client_laws.a_restart_loses_nothing(cluster, peer, kill=kill)
