"""The C++ client (PyPI `rocketmq` 0.4.4) against a real broker process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import client_laws
from support.cluster import ServerCluster
from support.peers import Peer, cpp_peer

pytest.importorskip("rocketmq.client", reason="PyPI rocketmq 0.4.4 has wheels for Linux x86_64 and macOS")


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    peer = cpp_peer(tmp_path)
    yield peer
    peer.stop_all()


@pytest.mark.parametrize("law", client_laws.FULL_CLIENT, ids=lambda law: law.__name__)
def test_cpp_client(law: client_laws.Law, cluster: ServerCluster, peer: Peer) -> None:
    law(cluster, peer)


@pytest.mark.timeout(360)
@pytest.mark.parametrize(
    "kill", [pytest.param(True, id="kill -9"), pytest.param(False, id="stop", marks=pytest.mark.interop)]
)
def test_a_restart_of_the_broker_loses_nothing(kill: bool, cluster: ServerCluster, peer: Peer) -> None:
    # The client itself needs half a minute to come back; one of the two is enough for every day.
    client_laws.a_restart_loses_nothing(cluster, peer, kill=kill)
