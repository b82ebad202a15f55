"""What operators ask a running consumer through the broker."""

import asyncio
import json
import threading

from rocketeer.bench.control import Control
from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol import fastjson
from rocketeer.protocol.bodies.offsets import decode_queue_offsets
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command
from support.cluster import ServerCluster
from support.consuming import make_topic, names, options, send, until


async def ask(cluster: ServerCluster, code: int, ext: dict[str, str]) -> Command:
    """Ask the broker, which asks the consumer."""

    def through_broker() -> Command:
        with Control(cluster.broker) as broker:
            return broker.call(code, ext)

    return await asyncio.to_thread(through_broker)


async def test_it_tells_what_it_is_doing(cluster: ServerCluster, topic: str) -> None:
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
        answer = await ask(cluster, RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
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


async def test_it_tells_its_offsets(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(5))
    group = f"G-{topic}"
    got: list[str] = []
    consumer = PushConsumer(group, **options(cluster))
    consumer.subscribe(topic, lambda message: got.append(message.text))
    async with consumer:
        table = consumer._running.offsets.table  # type: ignore[union-attr]
        await until(lambda: table.get(MessageQueue(topic, "broker-a", 0)) == 5)
        asked = {"topic": topic, "group": group}
        answer = await ask(cluster, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, asked)
        client_id = consumer.client_id
    body = fastjson.loads(answer.body)
    ((queue, offset),) = body["consumerTable"][client_id].items()
    assert (json.loads(queue), offset) == ({"brokerName": "broker-a", "queueId": 0, "topic": topic}, 5)


async def test_offsets_an_operator_sets_are_consumed_from(cluster: ServerCluster, topic: str) -> None:
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
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            {"topic": topic, "group": group, "timestamp": "0", "isForce": "true"},
        )
        assert (answer.code, decode_queue_offsets(answer.body)) == (0, dict.fromkeys(queues, 0))
        await until(lambda: len(got) == 20)
    assert sorted(got) == sorted(names(10) * 2)


async def test_a_group_goes_back_to_a_millisecond_while_its_members_run(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=2)
    group = f"G-{topic}"
    got: list[ReceivedMessage] = []
    members = [PushConsumer(group, **options(cluster)) for _ in range(2)]
    for member in members:
        member.subscribe(topic, got.append)
    async with members[0], members[1]:
        await until(lambda: all(len(member.queues) >= 1 for member in members))
        for body in names(6):
            await send(cluster, topic, [body], queue_id=int(body[1:]) % 2)
            await asyncio.sleep(0.003)  # stored in different milliseconds
        await until(lambda: len(got) == 6)
        for member in members:
            await member.commit()
        began = next(message for message in got if message.text == "m3").store_ms
        later = {message.text for message in got if message.store_ms >= began}
        asked = {"topic": topic, "group": group, "timestamp": str(began), "isForce": "false"}
        answer = await ask(cluster, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, asked)
        assert answer.code == 0, answer.remark
        await until(lambda: {message.text for message in got[6:]} >= later)
        await send(cluster, topic, ["last"])
        await until(lambda: got[-1].text == "last")
    again = [message.text for message in got[6:-1]]
    assert len(again) == len(set(again)), "each once more"
    # Between two messages RocketMQ takes the nearer one: m2, of the other queue, may come again.
    assert later <= set(again) <= later | {"m2"}


async def test_one_message_is_consumed_on_demand(cluster: ServerCluster, topic: str) -> None:
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
            answer = await ask(cluster, code, ext)
            results[message.text] = json.loads(answer.body)
        assert [message.text for message in got] == ["good", "bad", "good", "bad"]
        held = consumer._running.assigned.held()  # type: ignore[union-attr]
        assert {each.commit_offset for each in held if each.queue.topic == topic} == {2}, "offsets stay"
    assert results["good"]["consumeResult"] == "CR_SUCCESS"
    assert results["bad"]["consumeResult"] == "CR_THROW_EXCEPTION"
    assert "as asked" in results["bad"]["remark"]
