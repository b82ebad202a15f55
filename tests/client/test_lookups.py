"""Messages looked up: by both ids, by key and time, by place; what only shares a hash is not taken for it."""

import asyncio

import pytest

import rocketeer
from rocketeer.aio import Message, Producer, PullConsumer
from rocketeer.errors import MessageNotFound, NoRoute
from rocketeer.model.queue import MessageQueue
from rocketeer.record.java_hash import java_hash
from support.cluster import ServerCluster
from support.consuming import make_topic, until_sync


async def test_a_message_is_found_by_either_id_and_by_its_place(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=2)
    config = {"nameserver": cluster.namesrv}
    async with Producer(f"PG-{topic}", **config) as producer, PullConsumer(f"G-{topic}", **config) as reader:  # type: ignore[arg-type]
        large = b"0123456789abcdef" * 1000
        plain = await producer.send(Message(topic, b"plain", keys=["k1", "k2"], properties={"colour": "red"}))
        squeezed = await producer.send(Message(topic, large))
        batch = await producer.send([Message(topic, b"b0", keys="kb"), Message(topic, b"b1", keys="kb")])
        expected = {plain.message_id: b"plain", squeezed.message_id: large}
        expected |= dict(zip(batch.message_id.split(","), [b"b0", b"b1"], strict=True))
        for message_id, body in expected.items():
            found = await producer.view_message(message_id, topic)
            assert (found.body, found.message_id, found.topic) == (body, message_id, topic)
        offset_ids = [
            plain.offset_message_id,
            squeezed.offset_message_id,
            *batch.offset_message_id.split(","),
        ]
        for offset_id, body in zip(offset_ids, expected.values(), strict=True):
            assert (await reader.view_message(offset_id)).body == body
            assert (await producer.view_message(offset_id, topic)).body == body
        found = await reader.message_at(plain.queue, plain.queue_offset)
        assert (found.body, found.properties["colour"], found.broker_name) == (b"plain", "red", "broker-a")
        for key, count in (("k1", 1), ("k2", 1), ("kb", 2), ("k", 0), ("k1 k2", 0)):
            assert len(await producer.query_messages(topic, key)) == count, key


async def test_what_is_not_there_is_said_so(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    async with Producer(f"PG-{topic}", nameserver=cluster.namesrv) as producer:
        result = await producer.send(Message(topic, b"x"))
        missing = result.offset_message_id[:-4] + "FFF0"
        with pytest.raises(MessageNotFound, match="can not find message"):
            await producer.view_message(missing)
        with pytest.raises(MessageNotFound, match="not 32"):
            await producer.view_message("nonsense")
        with pytest.raises(MessageNotFound, match="in topic"):
            await producer.view_message("nonsense", topic)
        never = "0A000001" + result.message_id[8:]
        with pytest.raises(MessageNotFound, match="in topic"):
            await producer.view_message(never, topic)
        with pytest.raises(NoRoute):
            await producer.query_messages("no-such-topic", "k")
    async with PullConsumer(f"G-{topic}", nameserver=cluster.namesrv) as reader:
        for offset in (1, 999):
            with pytest.raises(MessageNotFound, match=f"no message at offset {offset}"):
                await reader.message_at(MessageQueue(topic, "broker-a", 0), offset)


async def test_keys_and_topics_that_share_a_hash_are_told_apart(cluster: ServerCluster, topic: str) -> None:
    one, other = f"{topic}Aa", f"{topic}BB"
    assert java_hash(f"{one}#Aa") == java_hash(f"{one}#BB"), "planted"
    assert java_hash(f"{one}#key") == java_hash(f"{other}#key"), "planted"
    for name in (one, other):
        make_topic(cluster, name, queues=1)
    async with Producer(f"PG-{topic}", nameserver=cluster.namesrv) as producer:
        for body, where, key in (
            (b"1", one, "Aa"),
            (b"2", one, "BB"),
            (b"3", one, "key"),
            (b"4", other, "key"),
        ):
            await producer.send(Message(where, body, keys=key))
        for where, key, body in (
            (one, "Aa", b"1"),
            (one, "BB", b"2"),
            (one, "key", b"3"),
            (other, "key", b"4"),
        ):
            assert [found.body for found in await producer.query_messages(where, key)] == [body]


async def test_keys_are_looked_up_in_a_time_range(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    async with Producer(f"PG-{topic}", nameserver=cluster.namesrv) as producer:
        for body in (b"0", b"1", b"2"):
            await producer.send(Message(topic, body, keys="k"))
            await asyncio.sleep(1.1)  # the index counts in seconds
        everything = await producer.query_messages(topic, "k")
        assert [message.body for message in everything] == [b"0", b"1", b"2"]
        middle = everything[1].store_ms
        found = await producer.query_messages(topic, "k", begin_ms=middle - 1000, end_ms=middle + 50)
        assert [message.body for message in found] == [b"1"]
        newest = await producer.query_messages(topic, "k", max_count=1)
        assert len(newest) == 1


def test_threads_look_up_too(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    with rocketeer.Producer(f"PG-{topic}", nameserver=cluster.namesrv) as producer:
        result = producer.send(rocketeer.Message(topic, b"x", keys="k"))
        # Brokers write their index a moment after the reply.
        until_sync(lambda: bool(producer.query_messages(topic, "k")), "the message can be found by its key")
        assert producer.view_message(result.message_id, topic).body == b"x"
        assert [found.body for found in producer.query_messages(topic, "k")] == [b"x"]
    with rocketeer.PullConsumer(f"G-{topic}", nameserver=cluster.namesrv) as reader:
        assert reader.view_message(result.offset_message_id).body == b"x"
        assert reader.message_at(result.queue, result.queue_offset).body == b"x"
        assert [found.body for found in reader.query_messages(topic, "k")] == [b"x"]
