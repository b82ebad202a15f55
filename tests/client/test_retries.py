"""Retry and dead letters: the rules of a group, and what a consumer does when its broker does not take a message back."""

import logging
import struct
from pathlib import Path

import pytest

from rocketeer.aio import Message, Producer, PushConsumer
from rocketeer.bench.control import Control
from rocketeer.client.core.outcome import RETRY, Retry
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.model.group import SubscriptionGroup
from rocketeer.model.subscription import MessageModel
from rocketeer.protocol.bodies.groups import encode_group
from rocketeer.protocol.codes import RequestCode, ResponseCode
from support.cluster import ServerCluster
from support.consuming import dead_letters, make_topic, names, options, send, until

_LOG_OFFSET_AT = 28


def set_group(cluster: ServerCluster, group: SubscriptionGroup) -> None:
    with Control(cluster.broker) as broker:
        broker.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, encode_group(group))


def lost(message: ReceivedMessage) -> ReceivedMessage:
    """The message as one whose broker cannot find it any more: its file was deleted."""
    raw = message._raw
    moved = raw[:_LOG_OFFSET_AT] + struct.pack(">q", 1 << 40) + raw[_LOG_OFFSET_AT + 8 :]
    return ReceivedMessage(moved, message.queue, message.queue_offset, message.size)


async def test_a_message_its_broker_does_not_take_back_is_sent_to_the_retry_topic(
    cluster: ServerCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(cluster, topic, queues=1)
    group = f"G-{topic}"
    got: list[ReceivedMessage] = []
    consumer = PushConsumer(group, **options(cluster))
    consumer.subscribe(topic, got.append)
    async with consumer, Producer(f"PG-{topic}", nameserver=cluster.namesrv) as producer:
        large = b"abc" * 5000
        sent = await producer.send(Message(topic, large, tags="t", keys="k", properties={"colour": "red"}))
        await until(lambda: len(got) == 1)
        state = consumer._running._service._state  # type: ignore[union-attr]
        with caplog.at_level(logging.WARNING):
            assert await state.send_back(lost(got[0]), 1, 16)
        assert "look message by offset failed" in caplog.text
        await until(lambda: len(got) == 2)
        again = got[1]
        assert (again.body, again.topic, again.tags, again.keys) == (large, topic, "t", ["k"])
        assert (again.message_id, again.reconsume_times) == (sent.message_id, 1)
        assert again.stored_topic == f"%RETRY%{group}"
        assert again.properties["colour"] == "red"
        assert again.properties["RETRY_TOPIC"] == topic
        for level, limit in ((-1, 16), (1, 0)):
            before = dead_letters(cluster, group)
            assert await state.send_back(lost(got[0]), level, limit)
            await until(lambda before=before: dead_letters(cluster, group) == before + 1)  # type: ignore[misc]
    assert len(got) == 2


async def test_a_group_has_as_many_retry_queues_as_it_wants(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    group = f"G-{topic}"
    set_group(cluster, SubscriptionGroup(group, retry_queues=3))
    await send(cluster, topic, names(30))
    again: list[ReceivedMessage] = []
    consumer = PushConsumer(group, **options(cluster, route_poll_s=0.2, rebalance_s=0.3))

    @consumer.subscribe(topic)
    async def fail_once(message: ReceivedMessage) -> Retry | None:
        if message.reconsume_times == 0:
            return Retry(delay_level=1)
        again.append(message)
        return None

    async with consumer:
        await until(lambda: len([queue for queue in consumer.queues if queue.topic != topic]) == 3)
        await until(lambda: len(again) == 30)
    assert sorted(message.text for message in again) == sorted(names(30))
    assert len({message.stored_queue_id for message in again}) > 1, "by chance, over all of them"


async def test_a_group_without_retry_queues_gives_up_at_once(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    group = f"G-{topic}"
    set_group(cluster, SubscriptionGroup(group, retry_queues=0))
    await send(cluster, topic, ["bad", "good"])
    got: list[str] = []
    consumer = PushConsumer(group, **options(cluster))

    @consumer.subscribe(topic)
    async def take(message: ReceivedMessage) -> Retry | None:
        got.append(message.text)
        return RETRY if message.text == "bad" else None

    async with consumer:
        table = consumer._running.offsets.table  # type: ignore[union-attr]
        await until(lambda: sum(table.of_topic(topic).values()) == 2)
    assert got == ["bad", "good"]
    assert dead_letters(cluster, group) == 0


async def test_the_tries_of_a_group_end_where_it_says(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    group = f"G-{topic}"
    await send(cluster, topic, ["bad"])
    tries: list[int] = []
    consumer = PushConsumer(group, retries=2, **options(cluster))

    @consumer.subscribe(topic)
    async def fail(message: ReceivedMessage) -> Retry:
        tries.append(message.reconsume_times)
        return RETRY

    async with consumer:
        await until(lambda: dead_letters(cluster, group) == 1)
    assert tries == [0, 1, 2]


async def test_a_group_that_may_not_consume_is_told_so(
    cluster: ServerCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(cluster, topic, queues=1)
    group = f"G-{topic}"
    set_group(cluster, SubscriptionGroup(group, consume_enable=False))
    await send(cluster, topic, ["one"])
    pull = {
        "consumerGroup": group, "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "32",
        "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*",
        "subVersion": "0", "expressionType": "TAG",
    }  # fmt: skip
    with Control(cluster.broker) as broker:
        answer = broker.call(RequestCode.PULL_MESSAGE, pull)
    text = f"subscription group no permission, {group}"
    assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, text)
    got: list[str] = []
    consumer = PushConsumer(group, **options(cluster))
    consumer.subscribe(topic, lambda message: got.append(message.text))
    with caplog.at_level(logging.WARNING):
        async with consumer:
            await until(lambda: text in caplog.text)
            assert not got
            set_group(cluster, SubscriptionGroup(group))
            await until(lambda: got == ["one"])


async def test_broadcasting_leaves_nothing_at_the_broker(
    cluster: ServerCluster, topic: str, tmp_path: Path
) -> None:
    make_topic(cluster, topic, queues=1)
    group = f"G-{topic}"
    await send(cluster, topic, names(3))
    got: list[str] = []
    consumer = PushConsumer(
        group, message_model=MessageModel.BROADCASTING, offset_folder=tmp_path, **options(cluster)
    )

    @consumer.subscribe(topic)
    async def take(message: ReceivedMessage) -> Retry | None:
        got.append(message.text)
        return RETRY if message.text == "m1" else None

    async with consumer:
        await until(lambda: len(got) == 3)
        await consumer.commit()
    with Control(cluster.broker) as broker:
        reset = {"topic": topic, "group": group, "timestamp": "0", "isForce": "true"}
        answer = broker.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)
        assert answer.remark == f"THe consumer group <{group}> not exist", "it has no offset there"
        assert broker.max_offset(f"%RETRY%{group}", 0) == 0
        assert broker.max_offset(f"%DLQ%{group}", 0) == 0
