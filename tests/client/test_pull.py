"""The pull consumer: any queue, any offset, the same in threads and on a loop."""

import asyncio

import pytest

from rocketeer.client.aio.pull_consumer import PullConsumer
from rocketeer.client.plans.pull import PullStatus
from rocketeer.client.sync.pull_consumer import PullConsumer as SyncPullConsumer
from rocketeer.errors import BrokerRefused, ClientClosed, NoBroker, NoRoute
from rocketeer.model.queue import MessageQueue
from support.cluster import ServerCluster
from support.consuming import make_topic, names, send


async def test_every_message_of_a_queue_can_be_read_from_any_offset(
    cluster: ServerCluster, topic: str
) -> None:
    queues = make_topic(cluster, topic, queues=2)
    await send(cluster, topic, names(100), queue_id=1)
    async with PullConsumer(f"G-{topic}", nameserver=cluster.namesrv) as consumer:
        assert await consumer.queues(topic) == queues
        assert [message.text async for message in consumer.read(queues[1])] == names(100)
        assert [message.text async for message in consumer.read(queues[1], 40, 50)] == names(100)[40:50]
        assert [message.text async for message in consumer.read(queues[0])] == []

        found = await consumer.pull(queues[1], 10, max_count=3)
        assert (found.status, found.next_offset, found.min_offset, found.max_offset) == (
            PullStatus.FOUND,
            13,
            0,
            100,
        )
        assert [message.text for message in found.messages] == ["m10", "m11", "m12"]
        assert (await consumer.pull(queues[1], 100)).status is PullStatus.NO_NEW
        beyond = await consumer.pull(queues[1], 5000)
        assert (beyond.status, beyond.next_offset) == (PullStatus.OFFSET_ILLEGAL, 100)


def test_threads_read_the_same(cluster: ServerCluster, topic: str) -> None:
    queues = make_topic(cluster, topic, queues=1)
    asyncio.run(send(cluster, topic, names(50)))
    consumer = SyncPullConsumer(f"G-{topic}", nameserver=cluster.namesrv)
    with pytest.raises(ClientClosed):
        consumer.queues(topic)
    with consumer:
        assert consumer.queues(topic) == queues
        assert [message.text for message in consumer.read(queues[0])] == names(50)
        assert [message.text for message in consumer.read(queues[0], 48)] == ["m48", "m49"]
        assert consumer.pull(queues[0], 0, max_count=2).next_offset == 2
        assert (consumer.min_offset(queues[0]), consumer.max_offset(queues[0])) == (0, 50)
        consumer.commit(queues[0], 7)
        assert consumer.committed(queues[0]) == 7


async def test_tags_are_filtered(cluster: ServerCluster, topic: str) -> None:
    queues = make_topic(cluster, topic, queues=1)
    for tag in ("a", "b", "c", "a"):
        await send(cluster, topic, [tag], tags=tag)
    async with PullConsumer(f"G-{topic}", nameserver=cluster.namesrv) as consumer:
        found = await consumer.pull(queues[0], 0, tags="a || c")
        assert [message.text for message in found.messages] == ["a", "c", "a"]
        none = await consumer.pull(queues[0], 0, tags="nobody")
        assert (none.status, none.next_offset) == (PullStatus.NO_MATCH, 4)


async def test_a_pull_may_wait_for_the_next_message(cluster: ServerCluster, topic: str) -> None:
    queues = make_topic(cluster, topic, queues=1)
    async with PullConsumer(f"G-{topic}", nameserver=cluster.namesrv) as consumer:
        waiting = asyncio.create_task(consumer.pull(queues[0], 0, hold_s=20))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await send(cluster, topic, ["at last"])
        assert [message.text for message in (await waiting).messages] == ["at last"]


async def test_times_lead_to_offsets(cluster: ServerCluster, topic: str) -> None:
    queues = make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(3))
    await asyncio.sleep(0.1)
    await send(cluster, topic, names(3))
    async with PullConsumer(f"G-{topic}", nameserver=cluster.namesrv) as consumer:
        stored_ms = [message.store_ms async for message in consumer.read(queues[0])]
        assert await consumer.offset_at(queues[0], stored_ms[3]) >= 3
        assert await consumer.offset_at(queues[0], stored_ms[2]) <= 2
        assert await consumer.offset_at(queues[0], 0) == 0
        assert await consumer.earliest_ms(queues[0]) == stored_ms[0]


async def test_a_message_can_be_sent_back(cluster: ServerCluster, topic: str) -> None:
    queues = make_topic(cluster, topic, queues=1)
    await send(cluster, topic, ["again"])
    group = f"G-{topic}"
    async with PullConsumer(group, nameserver=cluster.namesrv) as consumer:
        (message,) = (await consumer.pull(queues[0], 0)).messages
        await consumer.send_back(message, delay_level=1)
        retry = MessageQueue(f"%RETRY%{group}", "broker-a", 0)
        back = await _wait_for(consumer, retry)
    assert (back.text, back.topic, back.reconsume_times) == ("again", topic, 1)


async def _wait_for(consumer: PullConsumer, queue: MessageQueue):  # type: ignore[no-untyped-def]
    for _ in range(200):
        try:
            found = await consumer.pull(queue, 0, hold_s=1)
        except (NoRoute, BrokerRefused):
            await asyncio.sleep(0.1)
            continue
        if found.messages:
            return found.messages[0]
    raise AssertionError("it did not come back")


async def test_errors_name_what_is_missing(cluster: ServerCluster, topic: str) -> None:
    async with PullConsumer(f"G-{topic}", nameserver=cluster.namesrv) as consumer:
        with pytest.raises(NoRoute, match=f"{topic}.*{cluster.namesrv}"):
            await consumer.queues(topic)
        queues = make_topic(cluster, topic, queues=1)
        with pytest.raises(NoBroker, match="elsewhere"):
            await consumer.max_offset(MessageQueue(topic, "elsewhere", 0))
        with pytest.raises(BrokerRefused, match=r"broker-a.*SYSTEM_ERROR.*queueId\[77\]"):
            await consumer.pull(MessageQueue(topic, "broker-a", 77), 0)
        assert await consumer.max_offset(queues[0]) == 0
