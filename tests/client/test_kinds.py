"""Batches, compressed bodies, large properties, several keys: whole on the other side, and found by every name."""

import datetime

import pytest

from rocketeer.aio import Message, Producer, PullConsumer, PushConsumer
from rocketeer.bench.control import Control
from rocketeer.client.core.outcome import RETRY, Retry
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.errors import MessageTooLarge
from rocketeer.model.message import InvalidMessage
from rocketeer.protocol.codes import RequestCode
from support.cluster import ServerCluster, chosen_make
from support.consuming import make_topic, options, until

LARGE = b"0123456789abcdef" * 2000


async def test_every_kind_comes_whole_once_and_can_be_found(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=2)
    got: dict[str, ReceivedMessage] = {}
    count = 0
    consumer = PushConsumer(f"G-{topic}", **options(cluster))

    @consumer.subscribe(topic)
    async def take(message: ReceivedMessage) -> None:
        nonlocal count
        count += 1
        got[message.message_id] = message

    wide = {f"name-{number}": "v" * 900 for number in range(30)}
    async with consumer, Producer(f"PG-{topic}", nameserver=cluster.namesrv) as producer:
        sent: dict[str, tuple[bytes, list[str]]] = {}
        for body, keys, properties in (
            (b"plain", ["a", "b", "c"], {}),
            (LARGE, ["big"], {"colour": "red"}),
            (b"wide", ["wide"], wide),
            ("grün ☃".encode(), ["ключ"], {"größe": "☃"}),
        ):
            result = await producer.send(Message(topic, body, keys=keys, properties=properties))
            sent[result.message_id] = (body, keys)
        batch = [Message(topic, b"b%d" % number, keys=[f"kb{number}", "all"]) for number in range(5)]
        result = await producer.send(batch)
        for message_id, message in zip(result.message_id.split(","), batch, strict=True):
            sent[message_id] = (message.body, str(message.keys).split())
        await until(lambda: len(got) == len(sent))
        assert count == len(sent), "each once"
        for message_id, (body, keys) in sent.items():
            assert (got[message_id].body, got[message_id].keys) == (body, keys)
            assert (await producer.view_message(message_id, topic)).body == body
            for key in keys:
                found = await producer.query_messages(topic, key)
                assert message_id in [each.message_id for each in found], key
        assert len(await producer.query_messages(topic, "all")) == 5
    assert {
        k: v for k, v in next(m for m in got.values() if m.text == "wide").properties.items() if k in wide
    } == wide


OURS_ALONE = pytest.mark.skipif(chosen_make() == "apache", reason="4.9.8 has no idempotent producers")


@pytest.mark.parametrize(
    "kind",
    ["plain", "batch", "compressed", "delayed", "timer", pytest.param("idempotent", marks=OURS_ALONE)],
)
async def test_every_kind_comes_again_when_its_listener_fails(
    cluster: ServerCluster, topic: str, kind: str
) -> None:
    make_topic(cluster, topic, queues=1)
    tries: list[ReceivedMessage] = []
    consumer = PushConsumer(f"G-{topic}", **options(cluster))

    @consumer.subscribe(topic)
    async def take(message: ReceivedMessage) -> Retry | None:
        tries.append(message)
        return RETRY if message.reconsume_times == 0 else None

    messages: dict[str, Message | list[Message]] = {
        "plain": Message(topic, b"x"),
        "batch": [Message(topic, b"x")],
        "compressed": Message(topic, LARGE),
        "delayed": Message(topic, b"x", delay_level=1),
        "timer": Message(topic, b"x", delay=datetime.timedelta(milliseconds=200)),
        "idempotent": Message(topic, b"x"),
    }
    async with (
        consumer,
        Producer(f"PG-{topic}", nameserver=cluster.namesrv, idempotent=kind == "idempotent") as producer,
    ):
        result = await producer.send(messages[kind])
        await until(lambda: len(tries) == 2)
    first, second = tries
    assert (first.reconsume_times, second.reconsume_times) == (0, 1)
    assert first.body == second.body
    if kind != "timer":
        assert first.message_id == second.message_id == result.message_id


async def test_properties_with_separators_are_refused_here(cluster: ServerCluster, topic: str) -> None:
    for bad in ({"a\x01b": "c"}, {"a": "b\x02c"}, {"": "x"}, {" ": "x"}, {"a": ""}, {"KEYS": "k"}):
        with pytest.raises(InvalidMessage):
            Message(topic, b"x", properties=bad)
    for keys in (["a b"], [""], "\x01", ["ok", "\x02"]):
        with pytest.raises(InvalidMessage):
            Message(topic, b"x", keys=keys)
    with pytest.raises(InvalidMessage):
        Message(topic, b"x", tags="a\x02b")
    make_topic(cluster, topic)
    async with Producer(f"PG-{topic}", nameserver=cluster.namesrv) as producer:
        with pytest.raises(MessageTooLarge, match="all properties together"):
            await producer.send(Message(topic, b"x", properties={"p": "v" * 32_767}))
        with pytest.raises(MessageTooLarge, match="all properties together"):
            await producer.send([Message(topic, b"x", properties={"p": "v" * 32_767})])
        assert (await producer.send(Message(topic, b"x", properties={"p": "v" * 32_000}))).ok


@pytest.mark.parametrize(
    "text",
    [
        "a\x01b\x01c\x02d\x01e",
        "\x02\x02\x01\x02",
        "lonely",
        "KEYS\x01\x02TAGS\x01",
        "KEYS\x01 k1  k2 \x02UNIQ_KEY\x01",
        "a\x01b\x02" * 500,
        "\x00\x01\x00\x02TAGS\x01☃",
        "TAGS\x01t\x02TAGS\x01u",
    ],
    ids=[
        "separator-in-value", "only-separators", "no-value", "empty-values", "spaces-in-keys", "repeated", "nul",
        "twice",
    ],
)  # fmt: skip
async def test_odd_properties_of_other_clients_harm_nothing(
    cluster: ServerCluster, topic: str, text: str
) -> None:
    """Stored or refused with a code; the message before and the one behind it stay readable either way."""
    make_topic(cluster, topic, queues=1)
    header = {
        "a": "PG", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "j": "0",
        "k": "false", "m": "false",
    }  # fmt: skip
    with Control(cluster.broker) as broker:
        for number, properties in enumerate(("KEYS\x01first", text, "KEYS\x01last")):
            answer = broker.call(RequestCode.SEND_MESSAGE_V2, {**header, "i": properties}, b"%d" % number)
            assert answer.code in (0, 13) if number == 1 else answer.code == 0, answer.remark
    async with PullConsumer(f"G-{topic}", nameserver=cluster.namesrv) as reader:
        (queue,) = await reader.queues(topic)
        messages = [message async for message in reader.read(queue)]
        assert [message.body for message in messages if message.body != b"1"] == [b"0", b"2"]
        for message in messages:
            assert isinstance(message.properties, dict)
        for key, body in (("first", b"0"), ("last", b"2")):
            assert [message.body for message in await reader.query_messages(topic, key)] == [body]
