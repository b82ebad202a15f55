"""Admin and our mqadmin at Apache's own broker: the codes, headers and bodies are RocketMQ's, not only ours."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer import (
    Admin,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SendResult,
    SubscriptionGroup,
    TopicConfig,
)
from rocketeer.admin.plans.offsets import NOW_MS
from rocketeer.admin.results import TrackState
from support.cluster import ServerCluster, running_cluster
from support.mqadmin import Mqadmin

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

TOPIC, GROUP = "Orders", "billing"


class Shop:
    def __init__(self, cluster: ServerCluster, sent: list[SendResult], client_id: str) -> None:
        self.cluster = cluster
        self.sent = sent
        self.client_id = client_id


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("apache")
    with running_cluster(folder, peer="apache") as cluster, Admin(cluster.namesrv, timeout_s=10) as admin:
        admin.update_topic(TopicConfig(TOPIC, 2, 2), cluster="DefaultCluster")
        consumer = PushConsumer(GROUP, nameserver=cluster.namesrv)
        seen: list[str] = []

        @consumer.subscribe(TOPIC)
        def bill(message: ReceivedMessage) -> None:
            seen.append(message.message_id)

        with consumer, Producer("PG_shop", nameserver=cluster.namesrv) as producer:
            sent = [
                producer.send(Message(TOPIC, f"order {number}".encode(), tags="created", keys=f"key{number}"))
                for number in range(6)
            ]
            end_s = time.monotonic() + 60
            while len(seen) < 6 or admin.group_progress(GROUP, TOPIC).lag:
                assert time.monotonic() < end_s
                time.sleep(0.1)
            yield Shop(cluster, sent, consumer.client_id)


@pytest.fixture(scope="module")
def admin(shop: Shop) -> Iterator[Admin]:
    with Admin(shop.cluster.namesrv, timeout_s=10) as started:
        yield started


def test_brokers_tell_their_state_and_take_settings(admin: Admin, shop: Shop) -> None:
    address = shop.cluster.broker
    assert [each.address for each in admin.cluster_map().brokers] == [address]
    state = admin.broker_runtime(address)
    assert state.version == "V4_9_7" or (state.version or "").startswith("V4_9")
    assert state.disk_ratio is not None
    admin.update_broker_settings({"maxTransferCountOnMessageInMemory": "33"}, broker=address)
    assert admin.broker_settings(address)["maxTransferCountOnMessageInMemory"] == "33"
    assert GROUP in admin.broker_consume_stats(address).groups
    for done in (
        admin.clean_expired_queues(broker=address),
        admin.delete_expired_log(broker=address),
        admin.clean_unused_topics(broker=address),
    ):
        assert not done.failures
    assert admin.wipe_write_perm("broker-a")[shop.cluster.namesrv] > 0
    assert admin.add_write_perm("broker-a")[shop.cluster.namesrv] > 0


def test_topics_and_groups_are_seen_made_and_deleted(admin: Admin, shop: Shop) -> None:
    status = admin.topic_status(TOPIC)
    assert sum(each.max_offset - each.min_offset for each in status.queues.values()) == 6
    assert GROUP in admin.topic_groups(TOPIC).groups
    assert admin.system_topics(shop.cluster.broker)
    admin.update_topic(TopicConfig("Made", 1, 1), cluster="DefaultCluster")
    admin.delete_topic("Made", cluster="DefaultCluster")
    assert not admin.topic_exists("Made")
    admin.update_group(SubscriptionGroup("MadeGroup", retry_max=3), cluster="DefaultCluster")
    (table,) = admin.group_configs().answers.values()
    assert table["MadeGroup"].retry_max == 3
    admin.delete_group("MadeGroup", cluster="DefaultCluster", offsets=True)


def test_groups_tell_who_they_are_and_how_far(admin: Admin, shop: Shop) -> None:
    (summary,) = [each for each in admin.groups() if each.group == GROUP]
    assert (summary.members, summary.lag) == (1, 0)
    members = admin.group_members(GROUP)
    assert [each.client_id for each in members.running] == [shop.client_id]
    assert {queue.topic for queue in admin.member_offsets(GROUP, TOPIC)[shop.client_id]} == {TOPIC}
    assert len(admin.time_spans(GROUP, TOPIC)) == 2
    assert admin.consumer_offsets(shop.cluster.broker)[f"{TOPIC}@{GROUP}"]
    assert admin.producer_connections("PG_shop", TOPIC)
    assert "PG_shop" in admin.producers(shop.cluster.broker)


def test_offsets_are_reset_and_copied(admin: Admin, shop: Shop) -> None:
    reset = admin.reset_offsets(GROUP, TOPIC, NOW_MS)
    assert reset.online
    assert sum(each.offset for each in reset.changes) == 6
    copied = admin.clone_offsets(GROUP, "copied", TOPIC, offline=True)
    assert sum(copied.values()) == 6
    back = admin.reset_offsets("copied", TOPIC, 1000)
    assert (back.online, [each.offset for each in back.changes]) == (False, [0, 0])
    assert admin.group_progress("copied", TOPIC).lag == 6


def test_messages_are_found_and_followed(admin: Admin, shop: Shop) -> None:
    first = shop.sent[0]
    message = admin.view_message(first.offset_message_id)
    assert message.body == b"order 0"
    assert admin.messages_with_id(TOPIC, first.message_id)
    assert admin.messages_with_key(TOPIC, "key0")
    tracks = {each.group: each.state for each in admin.track_message(message)}
    assert tracks[GROUP] is TrackState.CONSUMED
    assert admin.consume_directly(GROUP, shop.client_id, message).result == "CR_SUCCESS"
    entries = admin.queue_entries(TOPIC, first.queue.queue_id, 0, count=1)
    assert entries.entries[0].size > 0


def test_our_commands_work_there(shop: Shop, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    mqadmin = Mqadmin(shop.cluster.namesrv, capsys)
    (row,) = mqadmin.json("clusterList")
    assert row["address"] == shop.cluster.broker
    assert mqadmin.json("consumerProgress", "-g", GROUP)["lag"] == 0
    assert any(each["topic"] == TOPIC for each in mqadmin.json("statsAll"))
    assert mqadmin("printMsg", "-t", TOPIC).out.count("MSGID: ") == 6
    mqadmin("exportMetadata", "-c", "DefaultCluster", "-f", tmp_path)
    assert TOPIC in json.loads((tmp_path / "metadata.json").read_text())["topicConfigTable"]
    mqadmin("exportMetrics", "-c", "DefaultCluster", "-f", tmp_path)
    mqadmin("exportConfigs", "-c", "DefaultCluster", "-f", tmp_path)
    assert "nothing is wrong" in mqadmin("startMonitoring", "--rounds", 1, "-d", 1.0).out
