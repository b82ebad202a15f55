"""A broker with 100,000 topics: every name server knows them all, also after a restart of either, and answers quickly."""

import time
from pathlib import Path

import pytest

from rocketeer.bench.control import Control
from rocketeer.model.data_version import DataVersion
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.codes import ResponseCode
from support.cluster import TEST_CONF, ServerCluster
from support.hold import HONEST_TOPIC, HonestClient
from support.senders import send_header, wait_for
from support.tables import encode_topic_table

COUNT = 100_000
HOLD_MS_MAX = 40


def name(number: int) -> str:
    return f"t-{number:06}"


def knows(namesrv: str, topic: str) -> bool:
    with Control(namesrv, timeout_s=30) as control:
        return control.call(105, {"topic": topic}).code == ResponseCode.SUCCESS


@pytest.mark.timeout(240)
def test_100_000_topics_are_known_to_name_servers_whoever_restarts(tmp_path: Path) -> None:
    table = {name(number): TopicConfig(name(number), 4, 4) for number in range(COUNT)}
    config = tmp_path / "store" / "config"
    config.mkdir(parents=True)
    (config / "topics.json").write_bytes(encode_topic_table(table, DataVersion(1, 1)))
    with ServerCluster("ours", tmp_path, conf=TEST_CONF) as cluster:
        wait_for(lambda: knows(cluster.namesrv, name(COUNT - 1)), what="the last topic")
        cluster.namesrv_process.kill()
        cluster.start_namesrv()
        pid = cluster.namesrv_process.pid
        with Control(cluster.broker, timeout_s=30) as broker:
            broker.create_topic(HONEST_TOPIC, queues=1)
        with (
            HonestClient(cluster.namesrv, pid, "name server") as others,
            HonestClient(cluster.broker, cluster.broker_process.pid, "broker") as senders,
        ):
            wait_for(lambda: knows(cluster.namesrv, name(COUNT - 1)), what="all topics told again")
            with Control(cluster.namesrv) as control:
                began_s = time.monotonic()
                for number in range(0, COUNT, 1000):
                    assert control.call(105, {"topic": name(number)}).code == ResponseCode.SUCCESS
                assert time.monotonic() - began_s < 20
            with Control(cluster.broker, timeout_s=30) as broker:
                sent = broker.call(310, send_header("new-beside-them", 0, ""), b"x")
                assert "limitTopics" in (sent.remark or ""), "nobody makes more by sending"
                broker.create_topic("made-by-hand", queues=1)
            assert knows(cluster.namesrv, "made-by-hand")
        print(others.cost, senders.cost)
        assert others.cost.hold_ms < HOLD_MS_MAX, others.cost
        assert senders.cost.hold_ms < HOLD_MS_MAX, senders.cost
        assert "refused" not in (tmp_path / "broker.out").read_text()
