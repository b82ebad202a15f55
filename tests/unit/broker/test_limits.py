"""What clients may make a broker keep: each limit refuses with its own key, and what was there stays as it was."""

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import pytest

from rocketeer.broker import pull
from rocketeer.broker.groups import ConsumerGroupTable
from rocketeer.broker.held_pulls import HeldPulls
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.pull import accepts_of
from rocketeer.broker.topics import TopicTable
from rocketeer.config import BrokerConfig, BrokerLimits, ServerLimits
from rocketeer.errors import RequestRefused
from rocketeer.model.data_version import DataVersion
from rocketeer.model.group import SubscriptionGroup
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.bodies.register import encode_registration, join_registration
from rocketeer.protocol.bodies.wire import encode_entry
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, decode_frame
from rocketeer.protocol.frame import JSON, FrameSplitter, pack_frame
from rocketeer.protocol.reply_template import ReplyTemplate
from rocketeer.record.java_hash import tag_hash
from rocketeer.remoting.address import split_address
from rocketeer.steps import finish
from support.broker import broker_at
from support.clock import ManualClock
from support.management_broker import heartbeat, management_broker
from support.sending import header
from support.tables import encode_group_table, encode_topic_table


def config(**limits: int) -> BrokerConfig:
    return BrokerConfig(broker_name="broker-a", limits=BrokerLimits(**limits))


def test_topics_that_appear_by_themselves_are_bounded_and_those_of_administrators_are_not() -> None:
    clock = ManualClock()
    system = len(TopicTable(config(), clock).configs)
    table = TopicTable(config(topics=system + 2), clock)
    for name in ("one", "two"):
        assert table.create_from_default(name, "TBW102", "peer", 4)
    with pytest.raises(RequestRefused, match="limitTopics") as refused:
        table.create_from_default("three", "TBW102", "peer", 4)
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    with pytest.raises(RequestRefused, match="limitTopics"):
        table.create_in_send_back("%RETRY%three", 1)
    table.put(TopicConfig("three"))
    assert table.create_from_default("three", "TBW102", "peer", 4) == table.get("three")


def test_topics_appear_at_a_bounded_rate() -> None:
    clock = ManualClock()
    table = TopicTable(config(auto_topics_per_minute=3), clock)
    for name in ("one", "two", "three"):
        table.create_in_send_back(name, 1)
    with pytest.raises(RequestRefused, match="limitAutoTopicsPerMinute"):
        table.create_in_send_back("four", 1)
    clock.advance(ms=60_000)
    assert table.create_in_send_back("four", 1)


def test_groups_that_appear_by_themselves_are_bounded() -> None:
    table = ConsumerGroupTable(config(groups=9), ManualClock())
    for name in ("one", "two"):
        assert table.get_or_create(name)
    with pytest.raises(RequestRefused, match="limitGroups"):
        table.get_or_create("three")
    assert table.get_or_create("two")


def test_offsets_are_kept_of_queues_that_a_topic_may_have() -> None:
    """What one pair of topic and group costs has no other bound than the number of its queues."""
    offsets = ConsumerOffsets()
    for queue in (0, 65_535):
        offsets.commit("G", "T", queue, 1)
    for queue in (-1, 65_536, 2**31 - 1, -(2**31)):
        with pytest.raises(RequestRefused, match=f"queueId {queue} .* 65535"):
            offsets.commit("G", "T", queue, 1)
    assert offsets.of("G", "T") == {0: 1, 65_535: 1}


def test_offsets_are_bounded_and_known_ones_go_on() -> None:
    offsets = ConsumerOffsets(entries_max=3)
    for queue in range(3):
        offsets.commit("G", "T", queue, 1)
    with pytest.raises(RequestRefused, match="limitConsumerOffsets"):
        offsets.commit("G", "U", 0, 1)
    offsets.commit("G", "T", 2, 5)
    assert (offsets.query("G", "T", 2), offsets.query("G", "U", 0)) == (5, None)
    finish(offsets.removing_group("G"))
    offsets.commit("G", "U", 0, 1)


def test_pairs_of_topic_and_group_are_bounded_and_known_ones_go_on() -> None:
    offsets = ConsumerOffsets(pairs_max=2)
    for group in ("G", "H"):
        offsets.commit(group, "T", 0, 1)
    with pytest.raises(RequestRefused, match="limitConsumerOffsetPairs"):
        offsets.commit("I", "T", 0, 1)
    offsets.commit("G", "T", 1, 5)
    finish(offsets.removing_group("H"))
    offsets.commit("I", "T", 0, 1)
    assert len(offsets) == 3


def test_a_table_made_of_entries_is_the_table_encoded_whole() -> None:
    clock = ManualClock()
    topics, groups = TopicTable(config(), clock), ConsumerGroupTable(config(), clock)
    topics.put(TopicConfig('T"1', 3, 4, 6, "MULTI_TAG", 2, True))
    topics.create_in_send_back("%RETRY%G", 1)
    topics.put(TopicConfig("gone"))
    topics.delete("gone")
    groups.put(SubscriptionGroup("G", retry_max=3))
    groups.get_or_create("H")
    groups.delete("H")
    for _ in range(2):
        assert topics.encode().encode() == encode_topic_table(topics.configs, topics.version)
        assert groups.encode().encode() == encode_group_table(groups.configs, groups.version)
        again = TopicTable(config(), clock), ConsumerGroupTable(config(), clock)
        again[0].decode(topics.encode())
        again[1].decode(groups.encode())
        topics, groups = again
    version = DataVersion(5, 6)
    entries = map(encode_entry, topics.configs.values())
    assert join_registration(entries, version) == encode_registration(topics.configs, version)


def test_held_pulls_are_bounded_for_each_connection_and_for_all() -> None:
    holds = HeldPulls(lambda run: None, run=list, limits=BrokerLimits(held_pulls=5, connection_held_pulls=2))
    waiters = [holds.hold("T", 0, 10.0, lambda last: last, owner) for owner in "aabb"]
    with pytest.raises(RequestRefused, match="limitConnectionHeldPulls"):
        holds.hold("T", 0, 10.0, lambda last: last, "a")
    holds.hold("T", 0, 10.0, lambda last: last, "c")
    with pytest.raises(RequestRefused, match="limitHeldPulls"):
        holds.hold("T", 0, 10.0, lambda last: last, "d")
    holds.forget("a")
    holds.hold("T", 0, 10.0, lambda last: last, "d")
    assert len(holds) == len(waiters)


def test_held_pulls_with_the_same_filter_share_it_and_different_ones_are_bounded() -> None:
    holds = HeldPulls(lambda run: None, run=list, limits=BrokerLimits(held_chars=10))
    one = holds.share(("TAG", "abc"), ["one"])
    holds.hold("T", 0, 10.0, lambda last: last, "a", made_of=("TAG", "abc"))
    assert holds.share(("TAG", "abc"), ["another"]) is one
    holds.hold("T", 0, 10.0, lambda last: last, "b", made_of=("TAG", "abc"))
    with pytest.raises(RequestRefused, match="limitHeldChars"):
        holds.share(("TAG", "abd"), ["two"])
    holds.forget("a")
    assert holds.share(("TAG", "abc"), ["another"]) is one, "somebody waits with it"
    holds.forget("b")
    assert holds.share(("TAG", "abd"), two := ["two"]) is two
    holds.unshare(("TAG", "abd"))  # whoever asked was not held after all
    assert holds.share(("TAG", "abe"), three := ["three"]) is three


def test_expressions_are_remembered_as_far_as_they_are_short_together() -> None:
    def of(number: int, size: int) -> str:
        return "||".join(f"{number}x{tag}" for tag in range(size))

    first = accepts_of(of(0, 1_000))
    assert first is accepts_of(of(0, 1_000))
    assert first is not None
    assert first(tag_hash("0x7"))
    for number in range(1, 100):
        accepts_of(of(number, 1_000))
    assert pull._long_ones._chars <= pull.LONG_CHARS_MAX
    assert pull._long_ones._chars == sum(map(len, pull._long_ones._known))
    assert first is not accepts_of(of(0, 1_000)), "it was forgotten"
    assert accepts_of("a || b") is accepts_of("a || b")
    with pytest.raises(RequestRefused, match="16384"):
        accepts_of("a" * 16_385)


def test_names_of_offsets_are_bounded_together() -> None:
    offsets = ConsumerOffsets(chars_max=8)
    offsets.commit("G", "T1", 0, QueueOffset(1))
    offsets.commit("G", "T2", 0, QueueOffset(1))
    with pytest.raises(RequestRefused, match="limitConsumerOffsetChars"):
        offsets.commit("G", "T3", 0, QueueOffset(1))
    offsets.commit("G", "T1", 1, QueueOffset(1))
    finish(offsets.removing_group("G"))
    offsets.commit("G", "T3", 0, QueueOffset(1))


async def test_subscriptions_and_names_of_clients_are_bounded() -> None:
    async with management_broker(limits=BrokerLimits(subscription_bytes=2_000, client_groups=2)) as ours:
        peer = await ours.peer()

        async def told(client: str, *groups: str, topics: int = 1) -> str:
            data = [{"groupName": group, "subscriptionDataSet": [{"topic": f"T{n}"} for n in range(topics)]} for group in groups]  # fmt: skip
            body = json.dumps({"clientID": client, "consumerDataSet": data}).encode()
            return (await peer.ask(RequestCode.HEART_BEAT, body=body)).remark or ""

        assert "limitSubscriptionBytes" in await told("c", "a", topics=4)
        assert await told("c", "a", topics=3) == ""
        assert "limitSubscriptionBytes" in await told("c", "b", topics=1)
        assert await told("c", "a", topics=1) == "", "less than before"
        assert await told("c", "b", topics=1) == ""
        assert "limitClientGroups" in await told("c", "d", topics=0)
        assert await told("c", "a", "b", topics=1) == "", "known ones go on"
        assert "513 characters" in await told("c" * 513, "a")
        async with management_broker() as other:
            peer = await other.peer()
            assert "513 characters" in await told("c", "a" * 513)
            long = {"groupName": "a", "subscriptionDataSet": [{"topic": "T" * 513}]}
            body = json.dumps({"clientID": "c", "consumerDataSet": [long]}).encode()
            refused = await peer.ask(RequestCode.HEART_BEAT, body=body)
            assert "a topic in a heartbeat has 513 characters" in (refused.remark or "")


async def test_every_text_of_a_subscription_counts_for_what_it_takes_in_memory() -> None:
    async with management_broker(limits=BrokerLimits(subscription_bytes=50_000)) as ours:
        peer = await ours.peer()

        async def told(group: str, **subscription: Any) -> str:
            data = [{"groupName": group, "subscriptionDataSet": [{"topic": "T"} | subscription]}]
            body = json.dumps({"clientID": "c", "consumerDataSet": data}).encode()
            return (await peer.ask(RequestCode.HEART_BEAT, body=body)).remark or ""

        long = "x" * 15_000
        assert await told("kinds", expressionType="SOMETHING_NEW") == "", "as in RocketMQ, pulls are refused"
        assert "expressionType in a heartbeat has 15000 characters" in await told(
            "kinds", expressionType=long
        )
        assert await told("tags", subString=long, tagsSet=[long, long + "y"]) == ""
        assert "limitSubscriptionBytes" in await told(
            "tags", subString=long, tagsSet=[long, long + "y", long + "z"]
        )
        assert await told("tags", subString=long, subVersion=1) == ""
        assert "limitSubscriptionBytes" in await told("letters", subString="\U0001f600" + long)


async def test_a_heartbeat_with_too_many_groups_is_refused_and_none_of_them_exists() -> None:
    async with management_broker(limits=BrokerLimits(heartbeat_groups=3, heartbeat_subscriptions=4)) as ours:
        peer = await ours.peer()
        refused = await peer.ask(RequestCode.HEART_BEAT, body=heartbeat("c", *"abcd"))
        assert "limitHeartbeatGroups" in (refused.remark or "")
        assert ours.groups.get("a") is None
        many = {"groupName": "a", "subscriptionDataSet": [{"topic": f"T{number}"} for number in range(5)]}
        body = json.dumps({"clientID": "c", "consumerDataSet": [many]}).encode()
        assert "limitHeartbeatSubscriptions" in (
            (await peer.ask(RequestCode.HEART_BEAT, body=body)).remark or ""
        )
        assert (
            await peer.ask(RequestCode.HEART_BEAT, body=heartbeat("c", *"ab"))
        ).code == ResponseCode.SUCCESS


async def test_a_connection_speaks_for_a_bounded_number_of_groups() -> None:
    async with management_broker(limits=BrokerLimits(connection_groups=4)) as ours:
        peer = await ours.peer()
        assert (
            await peer.ask(RequestCode.HEART_BEAT, body=heartbeat("c", *"abc"))
        ).code == ResponseCode.SUCCESS
        refused = await peer.ask(RequestCode.HEART_BEAT, body=heartbeat("c", *"de"))
        assert "limitConnectionGroups" in (refused.remark or "")
        again = await peer.ask(RequestCode.HEART_BEAT, body=heartbeat("c", *"abc"))
        assert again.code == ResponseCode.SUCCESS, "those it speaks for already count once"


async def test_a_large_heartbeat_is_served_whole_and_its_groups_leave_with_the_connection() -> None:
    names = [f"group-{number}" for number in range(900)]
    async with management_broker() as ours:
        peer, other = await ours.peer(), await ours.peer()
        assert (
            await peer.ask(RequestCode.HEART_BEAT, body=heartbeat("c", *names))
        ).code == ResponseCode.SUCCESS
        await other.ask(RequestCode.HEART_BEAT, body=heartbeat("d", names[-1]))
        listed = await other.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": names[-1]})
        assert json.loads(listed.body) == {"consumerIdList": ["c", "d"]}
        assert all(ours.topics.get(f"%RETRY%{name}") for name in names)
        peer.close()
        async with asyncio.timeout(30):
            while b'"c"' in listed.body:
                await asyncio.sleep(0.01)
                listed = await other.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": names[-1]})
        assert json.loads(listed.body) == {"consumerIdList": ["d"]}


async def test_a_lock_of_too_many_queues_is_refused_and_a_large_one_is_served_whole() -> None:
    async with management_broker() as ours:
        peer = await ours.peer()
        for count, served in ((4_000, True), (4_097, False)):
            queues = [{"topic": "T", "brokerName": "b", "queueId": number} for number in range(count)]
            body = json.dumps({"consumerGroup": "g", "clientId": "c", "mqSet": queues}).encode()
            answer = await peer.ask(RequestCode.LOCK_BATCH_MQ, body=body)
            if served:
                assert len(json.loads(answer.body)["lockOKMQSet"]) == count
            else:
                assert "limitRequestQueues" in (answer.remark or "")


async def test_a_subscription_has_as_many_tags_as_the_configuration_allows(tmp_path: Path) -> None:
    async with broker_at(tmp_path, broker={"limits": BrokerLimits(tags=3)}) as broker:
        await broker.send("T", b"x")
        assert (await broker.pull("T", subscription="TagA || b || c")).code == ResponseCode.SUCCESS
        refused = await broker.pull("T", subscription="TagA || b || c || d")
        assert refused.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert "limitSubscriptionTags" in (refused.remark or "")


def test_offsets_for_names_that_nobody_has_are_not_kept() -> None:
    offsets = ConsumerOffsets()
    offsets.commit("g" * 255, "t" * 255, 0, QueueOffset(1))
    with pytest.raises(RequestRefused, match="1024") as refused:
        offsets.commit("g" * 100_000, "t", 0, QueueOffset(1))
    assert refused.value.code == ResponseCode.SYSTEM_ERROR
    assert len(offsets.table) == 1


@pytest.mark.parametrize("limit", ["offset_pairs", "offsets"])
async def test_a_pull_whose_offset_finds_no_room_is_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, limit: str
) -> None:
    async with broker_at(tmp_path, broker={"limits": BrokerLimits(**{limit: 1})}) as broker:
        await broker.send("T", b"x")
        for group, kept in (("first", "1"), ("second", "0")):
            answer = await broker.pull("T", consumerGroup=group, sysFlag=5, commitOffset=1)
            assert (answer.code, bool(answer.body)) == (ResponseCode.SUCCESS, True)
            asked = {"consumerGroup": group, "topic": "T", "queueId": 0}
            found = await broker.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked)
            assert found.ext["offset"] == kept
        refused = await broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, asked | {"commitOffset": 1})
        assert refused.code == ResponseCode.SYSTEM_BUSY
    (said,) = [record for record in caplog.records if "limitConsumerOffset" in record.getMessage()]
    assert "second" not in said.getMessage(), "strangers make up names: it is one condition"


async def test_few_broker_ids_that_groups_are_sent_to_are_remembered_and_all_are_told(tmp_path: Path) -> None:
    """Each took 1 KB for ever: the setting of a group, which anybody may change, says which it is."""

    def templates() -> int:
        return sum(isinstance(each, ReplyTemplate) for each in gc.get_objects())

    async with broker_at(tmp_path, broker={"slave_read_enable": True}) as broker:
        await broker.send("T", b"x")
        before = templates()
        for broker_id in (0, 1, *range(1 << 40, (1 << 40) + 100), -1):
            group = {"groupName": "CG", "brokerId": broker_id}
            answer = await broker.ask(
                RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(group).encode()
            )
            assert answer.code == ResponseCode.SUCCESS
            pulled = await broker.pull("T")
            assert (pulled.code, pulled.ext["suggestWhichBrokerId"]) == (ResponseCode.SUCCESS, str(broker_id))
        assert templates() - before <= 20


async def test_a_send_with_a_huge_header_that_comes_in_pieces_is_refused_and_those_around_it_are_not(
    tmp_path: Path,
) -> None:
    limit = ServerLimits().header_bytes
    async with broker_at(tmp_path) as broker:
        await broker.send("T", b"x")
        ext = {
            "a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "", "j": "0",
        }  # fmt: skip
        small = [header(RequestCode.SEND_MESSAGE_V2, ext, opaque=opaque) for opaque in (1, 2, 3)]
        small[1] = small[1][:-1] + b" " * limit + b"}"
        data = b"".join(pack_frame(JSON, each, b"body") for each in small)
        reader, writer = await asyncio.open_connection(*split_address(broker.address))
        for at in range(0, len(data), 20_000):
            writer.write(data[at : at + 20_000])
            await asyncio.sleep(0.002)
        splitter, replies = FrameSplitter(), dict[int, Command]()
        while len(replies) < 3:
            async with asyncio.timeout(20):
                frames = splitter.feed(await reader.read(1 << 16))
            replies |= {each.opaque: each for each in (decode_frame(*frame) for frame in frames)}
        writer.close()
        assert [replies[opaque].code == ResponseCode.SUCCESS for opaque in (1, 2, 3)] == [True, False, True]
        assert "limitHeaderBytes" in (replies[2].remark or "")
