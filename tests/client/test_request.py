"""Questions and answers between our clients, through a real broker."""

import asyncio
import time

import pytest

import rocketeer
from rocketeer.aio import Message, Producer, PushConsumer
from rocketeer.bench.control import Control
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.errors import BrokerRefused, ClientClosed, ClientError, RequestTimeout, SendFailed
from rocketeer.model.message import InvalidMessage
from support.cluster import ServerCluster
from support.consuming import make_topic, options, until


async def test_a_listener_answers_who_asked(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    asked: list[ReceivedMessage] = []
    consumer = PushConsumer(f"G-{topic}", **options(cluster))
    async with Producer("answering", nameserver=cluster.namesrv) as answering:

        @consumer.subscribe(topic)
        async def answer(message: ReceivedMessage) -> None:
            asked.append(message)
            result = await answering.reply(message, b"you said " + message.body)
            assert result.ok

        async with consumer, Producer("asking", nameserver=cluster.namesrv) as asking:
            first = await asking.request(Message(topic, b"first", keys="k1", tags="t"), timeout_s=20)
            assert first.text == "you said first"
            assert first.properties["CORRELATION_ID"] == asked[0].properties["CORRELATION_ID"]
            assert first.topic == "DefaultCluster_REPLY_TOPIC"
            assert {"REPLY_TO_CLIENT", "TTL", "MSG_TYPE", "ARRIVE_TIME", "PUSH_REPLY_TIME"} <= set(
                first.properties
            )
            assert asked[0].keys == ["k1"]
            assert asked[0].properties["TTL"] == "20000"
            bodies = [b"%d" % number for number in range(50)]
            answers = await asyncio.gather(
                *(asking.request(Message(topic, body), timeout_s=20) for body in bodies)
            )
            assert [each.body for each in answers] == [b"you said " + body for body in bodies]
            large = bytes(range(256)) * 400
            echoed = await asking.request(Message(topic, large), timeout_s=20)
            assert echoed.body == b"you said " + large, "compressed on both ways"


def test_threads_ask_and_answer(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    consumer = rocketeer.PushConsumer(f"G-{topic}", **options(cluster))
    with rocketeer.Producer("PG-sync", nameserver=cluster.namesrv) as producer:

        @consumer.subscribe(topic)
        def answer(message: ReceivedMessage) -> None:
            producer.reply(message, message.body.upper())

        with consumer:
            assert producer.request(rocketeer.Message(topic, b"hello"), timeout_s=20).body == b"HELLO"
            futures = [
                producer.request_async(rocketeer.Message(topic, b"m%d" % number), timeout_s=20)
                for number in range(5)
            ]
            assert [future.result(30).body for future in futures] == [b"M%d" % number for number in range(5)]


async def test_a_question_nobody_answers_ends_in_time(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    async with Producer(f"PG-{topic}", nameserver=cluster.namesrv) as producer:
        began_s = time.monotonic()
        with pytest.raises(RequestTimeout, match=r"not answered within 1\.5 s") as caught:
            await producer.request(Message(topic, b"hello?"), timeout_s=1.5)
        assert time.monotonic() - began_s < 20
        assert caught.value.topic == topic
        with pytest.raises(InvalidMessage, match="can be answered"):
            await producer.request([Message(topic, b"a")], timeout_s=1)  # type: ignore[arg-type]


async def test_an_answer_to_nobody_is_refused(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    got: list[ReceivedMessage] = []
    consumer = PushConsumer(f"G-{topic}", **options(cluster))
    consumer.subscribe(topic, got.append)
    async with consumer, Producer(f"PG-{topic}", nameserver=cluster.namesrv) as producer:
        asking = Producer(f"PG-{topic}-asking", nameserver=cluster.namesrv)
        async with asking:
            with pytest.raises(RequestTimeout):
                await asking.request(Message(topic, b"hello?"), timeout_s=1.5)
        await until(lambda: len(got) == 1)
        with pytest.raises(BrokerRefused, match="not found"):
            await producer.reply(got[0], b"too late")
        await producer.send(Message(topic, b"no question"))
        await until(lambda: len(got) == 2)
        with pytest.raises(ClientError, match="nobody waits for an answer"):
            await producer.reply(got[1], b"yes?")


async def test_a_question_ends_when_its_producer_closes(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    producer = Producer(f"PG-{topic}", nameserver=cluster.namesrv, close_timeout_s=0.5)
    await producer.start()
    asking = asyncio.create_task(producer.request(Message(topic, b"?"), timeout_s=60))
    with Control(cluster.broker) as broker:
        await until(lambda: broker.max_offset(topic, 0) == 1)
    await producer.close()
    with pytest.raises(
        (ClientClosed, SendFailed)
    ):  # closed while it waited for the answer, or for the broker's
        await asyncio.wait_for(asking, 20)
