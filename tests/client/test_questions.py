"""What operators ask a running consumer through the broker; a broker that cannot pass it on yet is left out."""

import asyncio
import inspect
import json
import threading
from typing import Any

from rocketeer.bench.control import Control
from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol import fastjson
from rocketeer.protocol.bodies.offsets import encode_queue_offsets
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request
from support.cluster import Cluster
from support.consuming import make_topic, names, options, send, until


async def ask(
    cluster: Cluster,
    consumer: PushConsumer,
    code: int,
    ext: dict[str, str],
    *,
    pushed: int | None = None,
    pushed_body: bytes = b"",
) -> Command | None:
    """Ask the broker, which asks the consumer; or the consumer, as such a broker would."""

    def through_broker() -> Command:
        with Control(cluster.broker) as broker:
            return broker.call(code, ext)

    reply = await asyncio.to_thread(through_broker)
    if reply.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return reply
    instance = consumer._running.instance  # type: ignore[union-attr]
    answer: Any = instance._pushed(request(pushed or code, ext, pushed_body), cluster.broker)
    answered: Command | None = await answer if inspect.isawaitable(answer) else answer
    return answered


async def test_it_tells_what_it_is_doing(cluster: Cluster, topic: str) -> None:
    make_topic(cluster, topic, queues=2)
    await send(cluster, topic, names(4), tags="a")
    hang = threading.Event()
    got: list[str] = []
    group = f"G-{topic}"
    consumer = PushConsumer(group, **options(cluster))

    @consumer.subscribe(topic, tags="a || b")
    def a_listener_with_a_name(message: ReceivedMessage) -> None:
        got.append(message.text)
        if len(got) == 4:
            hang.wait(60)

    async with consumer:
        await until(lambda: len(got) == 4)
        ext = {"consumerGroup": group, "clientId": consumer.client_id, "jstackEnable": "true"}
        answer = await ask(cluster, consumer, RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
        assert answer is not None
        assert answer.code == 0
        info = fastjson.loads(answer.body)
        hang.set()
    queues = {
        json.loads(key)["queueId"]: state for key, state in info["mqTable"].items() if topic in key[-90:]
    }
    assert set(queues) >= {0, 1}
    assert "a_listener_with_a_name" in info["jstack"]
    assert info["properties"]["consumeThreadMax"] == "20"
    assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert info["properties"]["PROP_NAMESERVER_ADDR"] == f"{cluster.namesrv};"
    assert {each["topic"]: each["subString"] for each in info["subscriptionSet"]}[topic] == "a || b"
    assert topic in info["statusTable"]


async def test_it_tells_its_offsets(cluster: Cluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(5))
    group = f"G-{topic}"
    got: list[str] = []
    consumer = PushConsumer(group, **options(cluster))
    consumer.subscribe(topic, lambda message: got.append(message.text))
    async with consumer:
        table = consumer._running.offsets.table  # type: ignore[union-attr]
        await until(lambda: table.get(MessageQueue(topic, "broker-a", 0)) == 5)
        instance = consumer._running.instance  # type: ignore[union-attr]
        command = request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": topic, "group": group})
        answer: Any = instance._pushed(command, cluster.broker)
    body = fastjson.loads(answer.body)
    ((queue, offset),) = body["messageQueueTable"].items()
    assert (json.loads(queue), offset) == ({"brokerName": "broker-a", "queueId": 0, "topic": topic}, 5)


async def test_offsets_an_operator_sets_are_consumed_from(cluster: Cluster, topic: str) -> None:
    queues = make_topic(cluster, topic, queues=2)
    await send(cluster, topic, names(10))
    group = f"G-{topic}"
    got: list[str] = []
    consumer = PushConsumer(group, **options(cluster))
    consumer.subscribe(topic, lambda message: got.append(message.text))
    async with consumer:
        await until(lambda: len(got) == 10)
        table = consumer._running.offsets.table  # type: ignore[union-attr]
        await until(lambda: sum(table.of_topic(topic).values()) == 10)
        await consumer.commit()  # brokers refuse to reset what was never stored
        answer = await ask(
            cluster,
            consumer,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            {"topic": topic, "group": group, "timestamp": "0", "isForce": "true"},
            pushed=RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
            pushed_body=encode_queue_offsets(dict.fromkeys(queues, 0)),
        )
        assert answer is None or answer.code == 0, answer
        await until(lambda: len(got) == 20)
    assert sorted(got) == sorted(names(10) * 2)


async def test_one_message_is_consumed_on_demand(cluster: Cluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, ["good", "bad"])
    group = f"G-{topic}"
    got: list[ReceivedMessage] = []
    consumer = PushConsumer(group, **options(cluster))

    @consumer.subscribe(topic)
    async def take(message: ReceivedMessage) -> None:
        got.append(message)
        if len(got) > 2 and message.text == "bad":
            raise ValueError("as asked")

    async with consumer:
        await until(lambda: len(got) == 2)
        results = {}
        for message in list(got):
            ext = {
                "consumerGroup": group,
                "clientId": consumer.client_id,
                "msgId": message.offset_message_id,
                "brokerName": "broker-a",
            }
            code = RequestCode.CONSUME_MESSAGE_DIRECTLY
            answer = await ask(cluster, consumer, code, ext, pushed_body=message._raw)
            assert answer is not None
            results[message.text] = json.loads(answer.body)
        assert [message.text for message in got] == ["good", "bad", "good", "bad"]
        held = consumer._running.holdings.held()  # type: ignore[union-attr]
        assert {each.commit_offset for each in held if each.queue.topic == topic} == {2}, "offsets stay"
    assert results["good"]["consumeResult"] == "CR_SUCCESS"
    assert results["bad"]["consumeResult"] == "CR_THROW_EXCEPTION"
    assert "as asked" in results["bad"]["remark"]
