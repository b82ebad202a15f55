"""A broker of ours with 100,000 topics and a name server of Apache's: it knows them all, also after its restart.

Needs Java and Apache's jars (`make interop`).
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer.bench.control import Control
from rocketeer.bench.servers import ApacheMissing, apache_lib
from rocketeer.model.data_version import DataVersion
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.codes import ResponseCode
from support.cluster import TEST_CONF, ServerCluster
from support.senders import wait_for
from support.tables import encode_topic_table

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

COUNT = 100_000
REGISTERED_AGAIN_S = 35
"""Longer than the pause between two heartbeats of a broker."""


def name(number: int) -> str:
    return f"t-{number:06}"


class ApachesNameServer(ServerCluster):
    """Its name server is Apache's, its broker ours."""

    def start_namesrv(self) -> None:
        self.make = "apache"
        super().start_namesrv()

    def start_broker(self) -> None:
        self.make = "ours"
        super().start_broker()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServerCluster]:
    try:
        apache_lib()
    except ApacheMissing as missing:
        pytest.skip(str(missing))
    config = tmp_path / "store" / "config"
    config.mkdir(parents=True)
    table = {name(number): TopicConfig(name(number), 4, 4) for number in range(COUNT)}
    (config / "topics.json").write_bytes(encode_topic_table(table, DataVersion(1, 1)))
    with ApachesNameServer("ours", tmp_path, conf=TEST_CONF, ready_s=120) as running:
        yield running


def knows_all(namesrv: str) -> bool:
    with Control(namesrv, timeout_s=30) as control:
        some = [control.call(105, {"topic": name(number)}) for number in range(0, COUNT, 999)]
        return all(reply.code == ResponseCode.SUCCESS for reply in some)


def test_apaches_name_server_knows_100_000_topics_of_ours(cluster: ServerCluster) -> None:
    wait_for(lambda: knows_all(cluster.namesrv), what="all topics")
    with Control(cluster.broker, timeout_s=30) as broker:
        broker.create_topic("made-by-hand", queues=1)
    cluster.namesrv_process.kill()
    cluster.start_namesrv()
    wait_for(lambda: knows_all(cluster.namesrv), what="all topics told again")
    time.sleep(REGISTERED_AGAIN_S)
    assert knows_all(cluster.namesrv)
    with Control(cluster.namesrv, timeout_s=30) as control:
        assert control.call(105, {"topic": "made-by-hand"}).code == ResponseCode.SUCCESS
