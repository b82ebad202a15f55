"""What an administrator was told is done survives kill -9 right after the answer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketeer.bench.control import Control
from rocketeer.protocol.codes import RequestCode
from support.cluster import ServerCluster, restart_broker, running_cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServerCluster]:
    # Nothing is saved by the way: only the request itself can have done it.
    with running_cluster(tmp_path, conf={"flushConsumerOffsetInterval": 3_600_000}) as running:
        yield running


def table(address: str, code: int, part: str) -> dict[str, Any]:
    with Control(address) as control:
        entries: dict[str, Any] = json.loads(control.ask(code).body)[part]
        return entries


@pytest.mark.timeout(180)
def test_topics_and_groups_are_as_the_last_answer_said(cluster: ServerCluster) -> None:
    for number in range(3):
        with Control(cluster.broker) as broker:
            broker.create_topic(f"Made{number}", queues=3)
        restart_broker(cluster, kill=True)
        topics = table(cluster.broker, RequestCode.GET_ALL_TOPIC_CONFIG, "topicConfigTable")
        assert topics[f"Made{number}"]["writeQueueNums"] == 3

        group = {"groupName": f"Group{number}", "consumeEnable": False, "retryMaxTimes": 5}
        with Control(cluster.broker) as broker:
            if number:
                broker.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": f"Made{number - 1}"})
                broker.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": f"Group{number - 1}"})
            broker.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(group).encode())
        restart_broker(cluster, kill=True)
        groups = table(cluster.broker, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "subscriptionGroupTable")
        assert groups[f"Group{number}"]["consumeEnable"] is False
        assert groups[f"Group{number}"]["retryMaxTimes"] == 5
        topics = table(cluster.broker, RequestCode.GET_ALL_TOPIC_CONFIG, "topicConfigTable")
        assert f"Made{number}" in topics
        if number:
            assert f"Made{number - 1}" not in topics
            assert f"Group{number - 1}" not in groups


@pytest.mark.timeout(120)
def test_the_name_servers_table_is_as_the_last_answer_said(cluster: ServerCluster) -> None:
    for number in range(3):
        entry = {"namespace": "ORDER_TOPIC_CONFIG", "key": f"T{number}", "value": "broker-a:4"}
        with Control(cluster.namesrv) as namesrv:
            namesrv.ask(RequestCode.PUT_KV_CONFIG, entry)
        cluster.namesrv_process.kill()
        cluster.start_namesrv()
        with Control(cluster.namesrv) as namesrv:
            asked = {"namespace": "ORDER_TOPIC_CONFIG", "key": f"T{number}"}
            assert namesrv.ask(RequestCode.GET_KV_CONFIG, asked).ext["value"] == "broker-a:4"
