"""Messages for later: our producers time and recall them, our consumers get them then, and once."""

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from rocketeer import Message, Producer, PullConsumer, aio
from rocketeer.bench.control import Control
from rocketeer.errors import BadRecallHandle, BrokerRefused
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.recall_handle import RecallHandle
from support.cluster import ServerCluster, chosen_make
from support.senders import read_topic, wait_for

pytestmark = pytest.mark.skipif(chosen_make() == "apache", reason="4.9.8 has no timers")
GROUP = "test-timed"


def stored(cluster: ServerCluster, topic: str) -> list[bytes]:
    return [message.body for queue in read_topic(cluster.broker, topic, 4) for message in queue]


def test_a_timed_message_comes_at_its_time_and_not_before(cluster: ServerCluster, topic: str) -> None:
    with Producer(GROUP, nameserver=cluster.namesrv) as producer:
        begin_ms = time.time_ns() // 1_000_000
        at = datetime.now(UTC) + timedelta(seconds=1)
        producer.send(Message(topic, b"at", deliver_at=at))
        producer.send(Message(topic, b"at ms", deliver_at=begin_ms + 1_000))
        producer.send(Message(topic, b"after", delay=1.0))
        producer.send(Message(topic, b"after delta", delay=timedelta(milliseconds=1_500)))
        producer.send(Message(topic, b"past", deliver_at=1))
        assert stored(cluster, topic) == [b"past"]
        wait_for(lambda: len(stored(cluster, topic)) == 5, what="all five")
    for queue in read_topic(cluster.broker, topic, 4):
        for message in queue:
            wanted_ms = {b"past": 0, b"after delta": 1_500}.get(message.body, 1_000)
            assert message.store_ms - begin_ms >= wanted_ms, message.body
            assert message.store_ms - begin_ms < wanted_ms + 5_000, "a machine under load"


async def test_recall_takes_it_back_and_says_when_it_cannot(cluster: ServerCluster, topic: str) -> None:
    async with aio.Producer(GROUP, nameserver=cluster.namesrv) as producer:
        sent = await producer.send(Message(topic, b"taken back", delay=1.0))
        assert sent.recall_handle is not None
        assert RecallHandle.decode(sent.recall_handle).topic == topic
        assert await producer.recall(sent.recall_handle) == sent.message_id
        with pytest.raises(BrokerRefused, match="recalled already") as refused:
            await producer.recall(sent.recall_handle)
        assert refused.value.code == ResponseCode.ILLEGAL_OPERATION
        with pytest.raises(BadRecallHandle, match="recall handle is invalid"):
            await producer.recall("nonsense")
        kept = await producer.send(Message(topic, b"kept", delay=1.0))
        plain = await producer.send(Message(topic, b"plain"))
        assert plain.recall_handle is None
        await asyncio.to_thread(wait_for, lambda: len(stored(cluster, topic)) == 2, what="both")
        assert kept.recall_handle is not None
        with pytest.raises(BrokerRefused, match="delivered"):
            await producer.recall(kept.recall_handle)
    assert sorted(stored(cluster, topic)) == [b"kept", b"plain"]


def test_recall_works_in_threads_and_in_a_namespace(cluster: ServerCluster, topic: str) -> None:
    with Producer(GROUP, nameserver=cluster.namesrv, namespace="shop") as producer:
        sent = producer.send(Message(topic, b"x", delay=timedelta(days=40)))
        assert sent.recall_handle is not None
        assert producer.recall(sent.recall_handle) == sent.message_id


def test_too_far_ahead_is_refused_once_and_not_tried_elsewhere(cluster: ServerCluster, topic: str) -> None:
    with Producer(GROUP, nameserver=cluster.namesrv) as producer:
        for message in (
            Message(topic, b"x", deliver_at=datetime(9999, 1, 1, tzinfo=UTC)),
            Message(topic, b"x", delay=timedelta(days=400)),
        ):
            with pytest.raises(BrokerRefused, match="timer message illegal") as refused:
                producer.send(message)
            assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL
    with Control(cluster.broker) as broker:
        assert sum(broker.max_offset(topic, queue_id) for queue_id in range(4)) == 0


def test_a_consumer_sees_it_once_with_its_own_properties(cluster: ServerCluster, topic: str) -> None:
    with Producer(GROUP, nameserver=cluster.namesrv) as producer:
        queue = MessageQueue(topic, "broker-a", 1)
        producer.send(Message(topic, b"first"), queue=queue)
        for n in range(50):
            timed = Message(topic, b"%d" % n, tags="t", keys="k", properties={"colour": "red"}, delay=0.3)
            producer.send(timed, queue=queue)
    wait_for(lambda: len(stored(cluster, topic)) == 51, what="all")
    with PullConsumer("timed-readers", nameserver=cluster.namesrv) as consumer:
        seen = Counter[bytes]()
        offset = 1
        while offset < 51:
            found = consumer.pull(queue, offset)
            for message in found.messages:
                seen[message.body] += 1
                assert (message.tags, message.keys, message.properties["colour"]) == ("t", ["k"], "red")
            offset = found.next_offset
    assert seen == Counter({b"%d" % n: 1 for n in range(50)})
