"""Idempotent producers against a running cluster (of ours: Apache's broker does not know them)."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import wait

import pytest

from rocketeer import Message, MessageQueue, Producer, aio
from rocketeer.errors import BrokerRefused, ClientError, ConfigError, NoBroker
from support.cluster import ServerCluster, running_cluster
from support.senders import read_topic

GROUP = "test-idempotent"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def sequences(cluster: ServerCluster, topic: str) -> list[dict[str, list[int]]]:
    """Of each queue the numbers by producer, in the order they are stored."""
    found: list[dict[str, list[int]]] = []
    for queue in read_topic(cluster.broker, topic, 4):
        numbers: dict[str, list[int]] = {}
        for message in queue:
            properties = message.properties_dict()
            numbers.setdefault(properties["PRODUCER_ID"], []).append(int(properties["PRODUCER_SEQ"]))
        found.append(numbers)
    return found


async def test_many_sends_at_a_time_are_numbered_without_a_gap(cluster: ServerCluster, topic: str) -> None:
    async with aio.Producer(
        GROUP, nameserver=cluster.namesrv, idempotent=True, send_timeout_s=30
    ) as producer:
        messages = [Message(topic, b"%d" % number) for number in range(200)]
        batches = [[Message(topic, b"b%d-%d" % (number, item)) for item in range(3)] for number in range(10)]
        results = await asyncio.gather(*(producer.send(each) for each in (*messages, *batches)))
    assert all(result.ok for result in results)
    places = [(result.queue, result.queue_offset) for result in results]
    assert len(set(places)) == len(places)
    count = 0
    for queue in sequences(cluster, topic):
        for numbers in queue.values():
            assert numbers == list(range(len(numbers)))
            count += len(numbers)
    assert count == 230


def test_threads_share_the_sequences(cluster: ServerCluster, topic: str) -> None:
    with Producer(GROUP, nameserver=cluster.namesrv, idempotent=True, send_timeout_s=30) as producer:
        producer.send(Message(topic, b"first"))
        futures = [producer.send_async(Message(topic, b"%d" % number)) for number in range(100)]
        wait(futures, 60)
        assert all(future.result().ok for future in futures)
        with pytest.raises(ClientError, match="waits for every answer"):
            producer.send_oneway(Message(topic, b"x"))
    stored = [numbers for queue in sequences(cluster, topic) for numbers in queue.values()]
    assert sum(map(len, stored)) == 101
    assert all(numbers == list(range(len(numbers))) for numbers in stored)


def test_a_producer_that_starts_again_under_its_name_goes_on(cluster: ServerCluster, topic: str) -> None:
    queue = MessageQueue(topic, "broker-a", 2)
    for life in range(3):
        with Producer(
            GROUP, nameserver=cluster.namesrv, idempotent=True, producer_id="shop-1", send_timeout_s=30
        ) as producer:
            if life == 0:
                producer.send(Message(topic, b"elsewhere"), queue=MessageQueue(topic, "broker-a", 0))
            assert producer.next_sequence(queue) == 5 * life
            for number in range(5):
                producer.send(Message(topic, b"%d" % number), queue=queue)
    assert sequences(cluster, topic)[2] == {"shop-1": list(range(15))}


async def test_a_name_is_for_one_producer_at_a_time(cluster: ServerCluster, topic: str) -> None:
    queue = MessageQueue(topic, "broker-a", 0)
    options = {
        "nameserver": cluster.namesrv,
        "idempotent": True,
        "producer_id": "twice",
        "send_timeout_s": 20,
    }
    async with aio.Producer(GROUP, **options) as one, aio.Producer(GROUP, **options) as other:
        await one.send(Message(topic, b"a"), queue=queue)
        await other.send(Message(topic, b"b"), queue=queue)
        await other.send(Message(topic, b"c"), queue=queue)
        with pytest.raises(BrokerRefused, match="sequence 3 expected, got 1, which another message has"):
            await one.send(Message(topic, b"d"), queue=queue)
    bodies = [message.body for message in read_topic(cluster.broker, topic, 4)[0]]
    assert bodies == [b"a", b"b", b"c"]


async def test_messages_with_an_id_are_stored_once_whoever_sends_them(
    cluster: ServerCluster, topic: str
) -> None:
    results = []
    for _ in range(3):
        async with aio.Producer(
            GROUP, nameserver=cluster.namesrv, idempotent=True, producer_id=f"{topic}-sink", send_timeout_s=30
        ) as producer:
            await producer.queues(topic)
            each = [Message(topic, b"x", properties={"DEDUP_ID": f"row-{number}"}) for number in range(20)]
            results.append([await producer.send(message) for message in each[:10]])
            batch = await producer.send(each[10:], queue=MessageQueue(topic, "broker-a", 1))
            results[-1].append(batch)
    assert [[each.offset_message_id for each in life] for life in results[1:]] == [
        [each.offset_message_id for each in results[0]]
    ] * 2
    assert sum(map(len, read_topic(cluster.broker, topic, 4))) == 20


async def test_a_refused_message_leaves_no_gap(cluster: ServerCluster, topic: str) -> None:
    async with aio.Producer(
        GROUP, nameserver=cluster.namesrv, idempotent=True, send_timeout_s=30
    ) as producer:
        await producer.send(Message(topic, b"0"), queue=MessageQueue(topic, "broker-a", 0))
        queue = MessageQueue(topic, "broker-a", 0)
        sends = [producer.send(Message(topic, b"%d" % number), queue=queue) for number in range(1, 5)]
        with pytest.raises(BrokerRefused):
            await producer.send(Message(topic, b"x"), queue=MessageQueue(topic, "broker-a", 77))
        results = await asyncio.gather(*sends)
    assert all(result.ok for result in results)
    (numbers,) = sequences(cluster, topic)[0].values()
    assert numbers == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("properties", [{}, {"DEDUP_ID": "7"}], ids=["numbered", "with-an-id"])
@pytest.mark.parametrize("producer_id", [None, "shop-1"])
async def test_a_queue_that_does_not_exist_is_refused_at_once(
    cluster: ServerCluster, topic: str, producer_id: str | None, properties: dict[str, str]
) -> None:
    message = Message(topic, b"x", properties=properties)
    async with aio.Producer(
        GROUP, nameserver=cluster.namesrv, idempotent=True, producer_id=producer_id, send_timeout_s=60
    ) as producer:
        await producer.create_topic(topic, queues=4)
        async with asyncio.timeout(20):
            for number in (4, 99, 1 << 31):
                with pytest.raises(BrokerRefused):
                    await producer.send(message, queue=MessageQueue(topic, "broker-a", number))
            with pytest.raises(NoBroker, match="nobody"):
                await producer.send(message, queue=MessageQueue(topic, "nobody", 0))
            with pytest.raises(ClientError, match="queue -1 leaves the choice to the broker"):
                await producer.send(message, queue=MessageQueue(topic, "broker-a", -1))
            assert (await producer.send(message, queue=MessageQueue(topic, "broker-a", 3))).ok


def test_options_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match="idempotent=True"):
        Producer(GROUP, producer_id="x")
    with pytest.raises(ConfigError, match="128 characters"):
        Producer(GROUP, idempotent=True, producer_id="x" * 129)
