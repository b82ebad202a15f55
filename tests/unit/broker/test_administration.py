"""Laws of what operators ask: figures are counted, and change when something happened."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.features.administration.consume_queue import consume_queue_handlers
from rocketeer.broker.features.filtering.filter_data import FilterTable
from rocketeer.errors import RequestRefused
from rocketeer.filter.bloom import BloomFilter
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.bodies.broker_stats import decode_broker_stats
from rocketeer.protocol.bodies.connections import decode_producer_connections
from rocketeer.protocol.bodies.consume_queue import decode_queue_entries
from rocketeer.protocol.bodies.consume_stats import (
    decode_broker_consume_stats,
    decode_consume_stats,
    decode_topic_stats,
)
from rocketeer.protocol.bodies.groups import decode_group_list
from rocketeer.protocol.bodies.kv import decode_kv_table
from rocketeer.protocol.bodies.producers import decode_producer_table
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request
from rocketeer.remoting.router import Connection
from support.broker import BrokerUnderTest, broker_at
from support.clock import ManualClock
from support.management_broker import heartbeat
from support.recorded import recorded_command
from support.stores import make_bounded_store, message

WAIT_S = 60.0


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await holds():  # noqa: ASYNC110 - asked over the wire
            await asyncio.sleep(0.02)


async def send_ten(broker: BrokerUnderTest, topic: str = "Sales") -> None:
    for number in range(10):
        assert (await broker.send(topic, b"x" * 100, queue_id=number % 2)).code == ResponseCode.SUCCESS


async def consume(broker: BrokerUnderTest, topic: str, queue_id: int, count: int) -> None:
    """Pull so many messages as the group CG, and commit."""
    pulled = await broker.pull(topic, queue_id, maxMsgNums=count)
    assert pulled.code == ResponseCode.SUCCESS
    commit = {"consumerGroup": "CG", "topic": topic, "queueId": queue_id, "commitOffset": count}
    await broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)


async def runtime_info(broker: BrokerUnderTest) -> dict[str, str]:
    return decode_kv_table((await broker.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body)


async def stats(broker: BrokerUnderTest, name: str, key: str) -> Any:
    answer = await broker.ask(RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key})
    return decode_broker_stats(answer.body) if answer.code == ResponseCode.SUCCESS else answer.remark


# --- queues and groups ---------------------------------------------------------------------------


async def test_a_group_has_no_more_retry_queues_than_a_topic_may_have(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        for count, code in ((65_536, ResponseCode.SYSTEM_ERROR), (-1, ResponseCode.SYSTEM_ERROR), (2, 0)):
            body = json.dumps({"groupName": "Billing", "retryQueueNums": count}).encode()
            answer = await broker.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
            assert answer.code == code
            assert not code or f"retryQueueNums of group Billing is {count}" in str(answer.remark)


async def test_a_topic_filters_in_one_of_rocketmqs_ways_or_is_refused(tmp_path: Path) -> None:
    """Every topic is told to the name servers: 40 filter types of 250 KB were more than they read."""
    topic = {
        "topic": "Sales", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
        "topicSysFlag": "0", "order": "false",
    }  # fmt: skip
    async with broker_at(tmp_path) as broker:
        for kind, code in (("x" * 250_000, ResponseCode.SYSTEM_ERROR), ("MULTI_TAG", 0), ("SINGLE_TAG", 0)):
            answer = await broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic | {"topicFilterType": kind})
            assert answer.code == code
        answer = await broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic | {"topicFilterType": "ANY"})
        assert answer.remark == "topicFilterType = [ANY] value invalid, must be one of MULTI_TAG, SINGLE_TAG"


async def test_a_topic_tells_what_its_queues_hold(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        await send_ten(broker)
        answer = await broker.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "Sales"})
        queues = decode_topic_stats(answer.body)
        assert [queues[MessageQueue("Sales", "broker-a", n)].max_offset for n in range(4)] == [5, 5, 0, 0]
        assert queues[MessageQueue("Sales", "broker-a", 0)].last_ms > 1_700_000_000_000
        assert queues[MessageQueue("Sales", "broker-a", 2)].last_ms == 0
        answer = await broker.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "Nothing"})
        assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[Nothing] not exist")


async def test_a_group_that_consumed_three_of_ten_lags_by_seven(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        await send_ten(broker)
        await consume(broker, "Sales", 0, 3)
        answer = await broker.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "CG"})
        told = decode_consume_stats(answer.body)
        assert told.lag == 7
        first = told.queues[MessageQueue("Sales", "broker-a", 0)]
        assert (first.broker_offset, first.consumer_offset) == (5, 3)
        assert first.last_ms > 0
        assert told.tps > 0, "three messages were got in the last minute"
        everyone = decode_broker_consume_stats((await broker.ask(RequestCode.GET_BROKER_CONSUME_STATS)).body)
        assert everyone.total_lag == 7
        assert everyone.broker_address == broker.address
        assert [part.lag for part in everyone.groups["CG"]] == [7]
        await consume(broker, "Sales", 1, 5)
        answer = await broker.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "CG", "topic": "Sales"})
        assert decode_consume_stats(answer.body).lag == 2


async def test_who_consumes_a_topic_and_a_copy_of_its_offsets(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        await send_ten(broker)
        await consume(broker, "Sales", 0, 3)
        who = {"topic": "Sales"}
        answer = await broker.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, who)
        assert decode_group_list(answer.body) == ["CG"]
        copy = {"srcGroup": "CG", "destGroup": "Twin", "topic": "Sales", "offline": "true"}
        assert (await broker.ask(RequestCode.CLONE_GROUP_OFFSET, copy)).code == ResponseCode.SUCCESS
        answer = await broker.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, who)
        assert decode_group_list(answer.body) == ["CG", "Twin"]
        answer = await broker.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "Twin", "topic": "Sales"})
        assert decode_consume_stats(answer.body).lag == 7
        assert "Sales@Twin" in (tmp_path / "config" / "consumerOffset.json").read_text()


async def test_producers_are_told_by_group(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        body = json.dumps(
            {"clientID": "me@1", "producerDataSet": [{"groupName": "PG"}], "consumerDataSet": []}
        )
        await broker.ask(RequestCode.HEART_BEAT, body=body.encode())
        answer = await broker.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "PG"})
        (connection,) = decode_producer_connections(answer.body)
        assert connection.client_id == "me@1"
        everyone = decode_producer_table((await broker.ask(RequestCode.GET_ALL_PRODUCER_INFO)).body)
        (client,) = everyone["PG"]
        assert client.address == f"/{connection.address}"
        assert client.last_update_ms > 1_700_000_000_000
        answer = await broker.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "Nobody"})
        assert (answer.code, answer.remark) == (1, "the producer group[Nobody] not exist")


# --- a queue's entries ---------------------------------------------------------------------------


async def test_entries_of_a_queue_say_what_a_group_wants_of_them(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        for tag in ("TagA", "TagB", "TagA"):
            await broker.send("Sales", b"x", properties=f"TAGS\x01{tag}")
        asked = {"topic": "Sales", "queueId": 0, "index": 1, "count": 2, "consumerGroup": "G"}
        answer = await broker.ask(RequestCode.QUERY_CONSUME_QUEUE, asked)
        told = decode_queue_entries(answer.body)
        assert (told.min_index, told.max_index, len(told.entries)) == (0, 3, 2)
        assert told.filter_data == "G@Sales is not online!"
        await broker.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "G", topic="Sales", expression="TagA"))
        told = decode_queue_entries((await broker.ask(RequestCode.QUERY_CONSUME_QUEUE, asked)).body)
        assert [entry.matches for entry in told.entries] == [False, True]
        assert told.subscription is not None
        assert told.subscription.expression == "TagA"
        answer = await broker.ask(RequestCode.QUERY_CONSUME_QUEUE, asked | {"index": 3})
        assert (answer.code, answer.remark) == (1, "Index 3 of 0@Sales is not exist!")
        answer = await broker.ask(RequestCode.QUERY_CONSUME_QUEUE, asked | {"queueId": 3})
        assert (answer.code, answer.remark) == (1, "3@Sales is not exist!")


async def test_entries_of_messages_that_are_not_confirmed_are_not_told(tmp_path: Path) -> None:
    store, bound = make_bounded_store(tmp_path)
    store.open()
    ends = [store.append(message()).end for _ in range(3)]
    bound.limit = ends[1]
    table = FilterTable(BloomFilter(20, 32), ManualClock(), keep_dead_ms=0)
    query = consume_queue_handlers(bound, ClientTable(), table)[RequestCode.QUERY_CONSUME_QUEUE]

    def ask(index: int) -> Command:
        fields = {"topic": "TopicTest", "queueId": "0", "index": str(index), "count": "9"}
        answer = query(request(RequestCode.QUERY_CONSUME_QUEUE, fields), cast(Connection, None))
        assert isinstance(answer, Command)
        return answer

    told = decode_queue_entries(ask(0).body)
    assert (told.max_index, len(told.entries)) == (2, 2)
    with pytest.raises(RequestRefused, match="Index 2 of"):
        ask(2)
    bound.advance(ends[2])
    assert len(decode_queue_entries(ask(0).body).entries) == 3
    store.close()


async def test_units_beside_the_entries_are_told_with_their_bits(tmp_path: Path) -> None:
    clock = ManualClock()
    async with broker_at(
        tmp_path,
        clock=clock,
        store={"queue_extension_enable": True},
        broker={"filter_bitmap_enable": True},
    ) as broker:
        await broker.ask(
            RequestCode.HEART_BEAT, body=heartbeat("c1", "G", topic="Sales", expression="a > 5", kind="SQL92")
        )
        clock.advance(ms=1)  # bits count for messages that came after the filter
        for value in (3, 7):
            await broker.send("Sales", b"x", properties=f"TAGS\x01TagA\x02a\x01{value}")
        asked = {"topic": "Sales", "queueId": 0, "index": 0, "count": 9, "consumerGroup": "G"}
        told = decode_queue_entries((await broker.ask(RequestCode.QUERY_CONSUME_QUEUE, asked)).body)
        assert [entry.matches for entry in told.entries] == [False, True]
        units = [json.loads(entry.extension or "") for entry in told.entries]
        assert {unit["tagsCode"] for unit in units} == {2598919}
        assert "1" not in (told.entries[0].bits or "1")
        assert "1" in (told.entries[1].bits or "")
        assert json.loads(told.filter_data or "")["expression"] == "a > 5"


# --- cleaning up ---------------------------------------------------------------------------------


async def test_queues_of_topics_that_the_table_does_not_have_go(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        await send_ten(broker)
        await send_ten(broker, "Kept")
    (tmp_path / "config" / "topics.json").write_text(
        (tmp_path / "config" / "topics.json").read_text().replace('"Sales"', '"Other"')
    )
    async with broker_at(tmp_path) as broker:
        assert (tmp_path / "consumequeue" / "Sales").exists()
        assert (await broker.ask(RequestCode.CLEAN_UNUSED_TOPIC)).code == ResponseCode.SUCCESS
        assert not (tmp_path / "consumequeue" / "Sales").exists()
        assert len(await broker.messages("Kept")) == 5


async def test_expired_files_go_on_request_and_then_their_queues(tmp_path: Path) -> None:
    clock = ManualClock(start_ms=time.time_ns() // 1_000_000)  # files age by the system's clock
    other_hour = (time.localtime().tm_hour + 12) % 24  # so that nothing goes before it is asked for
    async with broker_at(
        tmp_path,
        clock=clock,
        store={"delete_when": f"{other_hour:02d}", "reserved_hours": 1},
        broker={"flush_consumer_offset_ms": 20},
    ) as broker:
        await send_ten(broker, "Old")
        for _ in range(3):
            await broker.send("New", b"x" * 500_000)
        clock.advance(ms=30 * 86_400_000)
        old_file = tmp_path / "commitlog" / f"{0:020}"

        async def is_saved() -> bool:  # before that no file may go
            clock.advance(ms=1_000)
            return (tmp_path / "config" / "delayOffset.json").exists()

        await until(is_saved)

        async def is_gone() -> bool:
            clock.advance(ms=1_000)
            return not old_file.exists()

        assert old_file.exists()
        assert (await broker.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)).code == ResponseCode.SUCCESS
        await until(is_gone)
        assert (await broker.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)).code == ResponseCode.SUCCESS
        assert not (tmp_path / "consumequeue" / "Old" / "0").exists()
        assert (await broker.ask(RequestCode.GET_MAX_OFFSET, {"topic": "New", "queueId": 0})).ext[
            "offset"
        ] == "3"
        # A queue that went begins anew, in the compiled path as well.
        assert (await broker.send("Old", b"again")).ext["queueOffset"] == "0"
        assert [message.body for message in await broker.messages("Old")] == [b"again"]


# --- figures -------------------------------------------------------------------------------------


async def test_runtime_info_counts_what_was_put_and_got(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        before = await runtime_info(broker)
        assert (before["putMessageTimesTotal"], before["msgGetTotalTodayNow"]) == ("0", "0")
        await send_ten(broker)
        await consume(broker, "Sales", 0, 3)
        now = await runtime_info(broker)
        assert now["putMessageTimesTotal"] == now["msgPutTotalTodayNow"] == "10"
        assert now["msgGetTotalTodayNow"] == "3"
        end = int(now["commitLogMaxOffset"])
        assert now["putMessageSizeTotal"] == str(end), "the log has nothing else"
        assert float(now["putMessageAverageSize"]) == end / 10
        counts = [part.split("]:")[1] for part in now["putMessageDistributeTime"].split()]
        assert sum(map(int, counts)) == 10
        assert int(now["earliestMessageTimeStamp"]) > 1_700_000_000_000
        assert 0 < float(now["commitLogDiskRatio"]) < 1
        assert now["commitLogDirCapacity"].startswith("Total : ")
        assert now["putMessageFailedTimes"] == "0"
        assert (await broker.send("Sales", b"x", properties="K\x01" + "v" * 40_000)).code != 0
        assert (await runtime_info(broker))["putMessageFailedTimes"] == "1"


async def test_runtime_info_has_every_figure_that_rocketmq_tells(tmp_path: Path) -> None:
    recorded = decode_kv_table(recorded_command("admin_brokerStatus", 28, reply=True).body)
    async with broker_at(tmp_path) as broker:
        ours = await runtime_info(broker)
        named = {
            key for key in recorded if not key.startswith(("commitLogDiskRatio_", "scheduleMessageOffset_"))
        }
        assert named - set(ours) == set()
        assert ours["brokerVersionDesc"] == recorded["brokerVersionDesc"]
        assert f"commitLogDiskRatio_{tmp_path / 'commitlog'}" in ours


async def test_figures_by_topic_and_group_over_a_minute(tmp_path: Path) -> None:
    async with broker_at(tmp_path) as broker:
        unknown = await stats(broker, "TOPIC_PUT_NUMS", "Sales")
        assert unknown == "The stats <TOPIC_PUT_NUMS> <Sales> not exist"
        await send_ten(broker)
        await consume(broker, "Sales", 0, 3)
        put = await stats(broker, "TOPIC_PUT_NUMS", "Sales")
        assert (put.minute.sum, put.hour.sum, put.day.sum) == (10, 10, 10)
        assert put.minute.tps > 0
        size = await stats(broker, "TOPIC_PUT_SIZE", "Sales")
        assert size.minute.sum == int((await runtime_info(broker))["commitLogMaxOffset"])
        assert size.minute.average == size.minute.sum / 10
        got = await stats(broker, "GROUP_GET_NUMS", "Sales@CG")
        assert (got.minute.sum, got.minute.average) == (3, 3.0)
        latency = await stats(broker, "GROUP_GET_LATENCY", "0@Sales@CG")
        assert 0 <= latency.minute.sum <= latency.day.sum < 60_000
        assert latency.minute.average == latency.minute.sum / 1, "one pull, and its milliseconds"
        for name, key in (("GROUP_GET_LATENCY", "1@Sales@CG"), ("GROUP_GET_FALL_SIZE", "0@Sales@CG")):
            assert await stats(broker, name, key) == f"The stats <{name}> <{key}> not exist", (
                "nor in RocketMQ"
            )
        assert (await stats(broker, "BROKER_PUT_NUMS", "DefaultCluster")).day.sum == 10
        assert await stats(broker, "NOPE", "x") == "The stats <NOPE> <x> not exist"
