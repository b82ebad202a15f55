"""A store directory moves both ways: Apache's broker opens ours, we open Apache's (`make interop`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer.bench.control import Control
from rocketeer.bench.servers import ApacheMissing, apache_lib
from support.cluster import Make, running_cluster
from support.peers import Peer, cpp_peer

pytestmark = pytest.mark.interop


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    try:
        apache_lib()
    except ApacheMissing as why:
        pytest.skip(str(why))
    peer = cpp_peer(tmp_path)
    yield peer
    peer.stop_all()


@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill -9"])
@pytest.mark.parametrize(("first", "second"), [("ours", "apache"), ("apache", "ours")])
def test_a_store_moves_to_the_other_broker_and_back(
    first: Make, second: Make, kill: bool, peer: Peer, tmp_path: Path
) -> None:
    folder = tmp_path / "cluster"
    topic, group = "Moving", "G-moving"
    for number, make in enumerate((first, second, first)):
        with running_cluster(folder, peer=make) as cluster:
            peer.run("send", namesrv=cluster.namesrv, topic=topic, count=10, prefix=f"{make}{number}-")
            expected = {
                f"{m}{n}-{i}" for n, m in enumerate((first, second, first)[: number + 1]) for i in range(10)
            }

            fresh = peer.start(
                "consume",
                namesrv=cluster.namesrv,
                topic=topic,
                group=f"{group}-{number}",
                expect=len(expected),
            )
            fresh.finish()
            assert set(fresh.bodies()) == expected, "everything stored by either broker is there"

            if not kill:  # both brokers write offsets down every 5 s: a kill may lose some
                follower = peer.start("consume", namesrv=cluster.namesrv, topic=topic, group=group, expect=10)
                follower.finish()
                assert set(follower.bodies()) == {f"{make}{number}-{i}" for i in range(10)}, (
                    "offsets moved along"
                )

            with Control(cluster.broker) as broker:
                assert broker.has_key(topic, f"key-{first}0-3"), "the index moved along"
            if kill:
                cluster.kill_broker()
