"""Laws of the persisted tables: RocketMQ's files load, what we write says the same, rules of creation."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketeer.broker.groups import SYSTEM_GROUPS, ConsumerGroupTable
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.topics import ChangeKind, TopicChange, TopicTable
from rocketeer.config import BrokerConfig
from rocketeer.errors import BadBody
from rocketeer.model.group import SubscriptionGroup
from rocketeer.model.topic import Perm, TopicConfig
from rocketeer.protocol.fastjson import loads
from rocketeer.steps import finish
from support.clock import ManualClock

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
FOLDERS = [
    GOLDEN / "broker_store_config",
    GOLDEN / "store_full" / "config",
    GOLDEN / "store_crashed" / "config",
]
CONFIG = BrokerConfig(broker_name="broker-a", trace_topic_enable=True)


def topic_table(config: BrokerConfig = CONFIG) -> TopicTable:
    return TopicTable(config, ManualClock())


def group_table(config: BrokerConfig = CONFIG) -> ConsumerGroupTable:
    return ConsumerGroupTable(config, ManualClock())


# --- RocketMQ's files ------------------------------------------------------------------------


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
@pytest.mark.parametrize("suffix", ["", ".bak"])
def test_a_recorded_file_loads_and_what_we_write_says_the_same(folder: Path, suffix: str) -> None:
    for table, part in (
        (topic_table(), "topicConfigTable"),
        (group_table(), "subscriptionGroupTable"),
        (ConsumerOffsets(), "offsetTable"),
    ):
        path = folder / (table.file_name + suffix)
        recorded = loads(path.read_bytes())
        table.decode(path.read_text())
        assert not table.take_dirty(), "reading is no change"
        written = loads(table.encode().encode())
        # The system's own entries are there even if the file has none; every recorded one is as recorded.
        assert {key: written[part][key] for key in recorded[part]} == recorded[part]
        if "dataVersion" in recorded:
            assert written["dataVersion"] == recorded["dataVersion"]


def test_a_topic_of_an_older_store_filters_in_a_way_that_there_is() -> None:
    topic = {"topicName": "T", "topicFilterType": "x" * 1_000, "readQueueNums": 3}
    table = topic_table()
    table.decode(json.dumps({"topicConfigTable": {"T": topic}}))
    assert table.configs["T"] == TopicConfig("T", 3, 16)
    assert table.entry_bytes("T") < 200
    finish(table.following({"U": TopicConfig("U", filter_type="y")}, table.version))
    assert table.configs["U"].filter_type == "SINGLE_TAG"


def test_a_new_broker_has_the_topics_the_recorded_one_registered_first() -> None:
    frames = map(json.loads, (GOLDEN / "wire" / "broker_start.jsonl").open())
    first = next(frame for frame in frames if frame["header"]["code"] == 103)
    body = json.loads(bytes.fromhex(first["body_hex"]))
    recorded = body["topicConfigSerializeWrapper"]["topicConfigTable"]
    assert loads(topic_table().encode().encode())["topicConfigTable"] == recorded


def test_a_new_broker_has_the_groups_the_recorded_one_has() -> None:
    frames = map(json.loads, (GOLDEN / "wire" / "ha_replication.jsonl").open())
    first = next(frame for frame in frames if frame.get("request_code") == 201)
    recorded = json.loads(bytes.fromhex(first["body_hex"]))["subscriptionGroupTable"]
    assert loads(group_table().encode().encode())["subscriptionGroupTable"] == recorded


def test_the_offsets_of_a_file_that_cannot_be_read_stay_untouched() -> None:
    offsets = ConsumerOffsets()
    offsets.commit("G", "T", 0, 5)
    for text in ("", "{", '{"offsetTable":{"T@G":[]}}', '{"offsetTable":{"T@G":{0:"x"}}}'):
        with pytest.raises(BadBody):
            offsets.decode(text)
    assert offsets.query("G", "T", 0) == 5


# --- topics ----------------------------------------------------------------------------------


def test_a_topic_made_from_the_default_has_the_smaller_number_of_queues() -> None:
    table = topic_table()
    few = table.create_from_default("Few", "TBW102", "remote", 4)
    many = table.create_from_default("Many", "TBW102", "remote", 100)
    assert few == TopicConfig("Few", read_queues=4, write_queues=4, perm=6)
    assert many == TopicConfig("Many", read_queues=8, write_queues=8, perm=6)
    assert table.create_from_default("None", "TBW102", "remote", -1) == TopicConfig("None", 0, 0, 6)
    assert table.get("Few") is few
    assert table.create_from_default("Few", "TBW102", "remote", 7) is few, "it exists already"


def test_a_topic_that_may_not_be_inherited_makes_none() -> None:
    table = topic_table()
    assert table.create_from_default("T", "SELF_TEST_TOPIC", "remote", 4) is None
    assert table.create_from_default("T", "NoSuchTopic", "remote", 4) is None
    assert table.get("T") is None
    assert not table.take_dirty()


def test_automatic_creation_can_be_switched_off_even_if_the_file_still_has_its_pattern() -> None:
    on = topic_table()
    off = topic_table(BrokerConfig(broker_name="broker-a", auto_create_topic_enable=False))
    assert off.get("TBW102") is None
    off.decode(on.encode())
    assert off.get("TBW102") is not None
    assert off.create_from_default("T", "TBW102", "remote", 4) is None
    assert off.create_from_default("T", "DefaultCluster", "remote", 4) is not None, "by its own flag"


def test_every_change_raises_the_version_marks_the_file_and_is_told() -> None:
    clock = ManualClock(start_ms=1000)
    table = TopicTable(CONFIG, clock)
    told: list[TopicChange] = []
    table.on_change.append(told.append)
    clock.advance(ms=5)
    table.create_from_default("A", "TBW102", "remote", 4)
    table.create_in_send_back("%RETRY%G", 1)
    table.put(TopicConfig("A", 2, 2))
    table.delete("A")
    table.delete("A")
    assert [(change.kind, change.topic.name) for change in told] == [
        (ChangeKind.CREATED, "A"),
        (ChangeKind.CREATED, "%RETRY%G"),
        (ChangeKind.UPDATED, "A"),
        (ChangeKind.DELETED, "A"),
    ]
    assert (table.version.timestamp, table.version.counter) == (1005, 4)
    assert table.take_dirty()
    assert not table.take_dirty()


def test_order_topics_are_exactly_those_the_name_servers_name() -> None:
    table = topic_table()
    table.put(TopicConfig("A"))
    table.put(TopicConfig("B", order=True))
    table.take_dirty()
    finish(table.ordering({"A": "broker-a:4", "Unknown": "x"}))
    assert [topic.name for topic in table.configs.values() if topic.order] == ["A"]
    assert table.take_dirty()
    finish(table.ordering({"A": "broker-a:4"}))
    assert not table.take_dirty(), "nothing changed"


def test_a_provisional_topic_is_as_ordered_as_it_says() -> None:
    table = topic_table()
    table.put(TopicConfig("A", order=True))
    table.add_provisional(TopicConfig("A"))
    table.add_provisional(TopicConfig("B", order=True))
    finish(table.ordering({"A": "broker-a:4"}))
    assert [topic.name for topic in table.configs.values() if topic.order] == ["A"]


def test_the_brokers_own_names_are_system_topics() -> None:
    table = topic_table()
    for name in ("TBW102", "broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC", "rmq_sys_x"):
        assert table.is_system(name)
    assert not table.is_system("TopicTest")


def test_cluster_and_broker_topics_follow_their_switches() -> None:
    table = topic_table(BrokerConfig(broker_name="b", cluster_topic_enable=False, broker_topic_enable=False))
    assert table.configs["DefaultCluster"].perm == Perm.INHERIT
    assert table.configs["b"].perm == Perm.INHERIT
    assert "RMQ_SYS_TRACE_TOPIC" not in table.configs


# --- groups ----------------------------------------------------------------------------------


def test_an_unknown_group_appears_by_itself_unless_that_is_off() -> None:
    on = group_table()
    off = group_table(BrokerConfig(auto_create_group_enable=False))
    assert on.get("G") is None
    assert on.get_or_create("G") == SubscriptionGroup("G")
    assert on.take_dirty()
    assert off.get_or_create("G") is None
    assert not off.take_dirty()
    assert off.get_or_create("CID_RMQ_SYS_TRANS") is not None, "the system's own always"
    assert off.get_or_create(SYSTEM_GROUPS[0]) is not None


def test_a_group_can_be_replaced_and_deleted() -> None:
    table = group_table()
    table.put(SubscriptionGroup("G", retry_max=3))
    table.put(SubscriptionGroup("G", retry_max=4))
    assert table.version.counter == 2
    assert table.delete("G") == SubscriptionGroup("G", retry_max=4)
    assert table.delete("G") is None
    assert table.version.counter == 3


# --- offsets ---------------------------------------------------------------------------------

NAMES = st.sampled_from(["A", "B", "%RETRY%G", 'q"uote'])


@given(
    st.lists(st.tuples(NAMES, NAMES, st.integers(0, 3), st.integers(-1, 1 << 62), st.booleans()), max_size=30)
)
def test_what_was_committed_last_is_found_again_after_a_restart(
    commits: list[tuple[str, str, int, int, bool]],
) -> None:
    offsets = ConsumerOffsets()
    expected: dict[tuple[str, str, int], int] = {}
    for group, topic, queue, offset, persist in commits:
        offsets.commit(group, topic, queue, offset)
        expected[group, topic, queue] = offset
        if persist:
            offsets.encode()
    again = ConsumerOffsets()
    again.decode(offsets.encode())
    for table in (offsets, again):
        assert {key: table.query(*key) for key in expected} == expected
        assert set(finish(table.topics_of("A"))) == {topic for group, topic, _ in expected if group == "A"}
        assert set(finish(table.groups_of("A"))) == {group for group, topic, _ in expected if topic == "A"}


def test_an_unknown_queue_has_no_offset() -> None:
    offsets = ConsumerOffsets()
    offsets.commit("G", "T", 0, 5)
    assert offsets.query("G", "T", 1) is None
    assert offsets.query("G", "U", 0) is None
    assert offsets.query("H", "T", 0) is None


def test_removing_a_group_leaves_the_others() -> None:
    offsets = ConsumerOffsets()
    for group in ("G", "GG"):
        offsets.commit(group, "T", 0, 5)
    offsets.encode()
    finish(offsets.removing_group("G"))
    written: dict[str, Any] = loads(offsets.encode().encode())
    assert written == {"offsetTable": {"T@GG": {"0": 5}}}
    finish(offsets.copying_group("GG", "H", "T"))
    assert offsets.of("H", "T") == {0: 5}
    for group in ("GG", "H"):
        finish(offsets.removing_group(group))
    assert loads(offsets.encode().encode()) == {"offsetTable": {}}


def test_the_file_is_written_only_after_a_commit() -> None:
    offsets = ConsumerOffsets()
    assert not offsets.take_dirty()
    offsets.commit("G", "T", 0, 5)
    assert offsets.take_dirty()
    assert not offsets.take_dirty()
