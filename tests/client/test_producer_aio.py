"""The producer on asyncio against a running cluster."""

import asyncio
import time

import pytest

from rocketeer.aio import Message, MessageQueue, Producer, SendStatus, by_hash
from rocketeer.errors import BrokerRefused, ClientClosed, NoNameServer
from support.cluster import ServerCluster
from support.consuming import stored_count, until, wait_stored

GROUP = "test-aio-producer"


async def test_many_sends_at_a_time_are_all_stored_once(cluster: ServerCluster, topic: str) -> None:
    async with Producer(GROUP, nameserver=cluster.namesrv, send_timeout_s=30) as producer:
        results = await asyncio.gather(*(producer.send(Message(topic, b"x")) for _ in range(300)))
    assert len({result.message_id for result in results}) == 300
    assert len({(result.queue, result.queue_offset) for result in results}) == 300
    await asyncio.to_thread(wait_stored, cluster, topic, 300)


async def test_batches_queues_and_selectors_work_as_in_threads(cluster: ServerCluster, topic: str) -> None:
    async with Producer(GROUP, nameserver=cluster.namesrv) as producer:
        batch = await producer.send([Message(topic, b"x") for _ in range(5)])
        assert len(batch.message_id.split(",")) == 5
        wanted = MessageQueue(topic, "broker-a", 1)
        assert (await producer.send(Message(topic, b"x"), queue=wanted)).queue == wanted
        keyed = Message(topic, b"x", sharding_key="order-7")
        queues = {(await producer.send(keyed, selector=by_hash)).queue for _ in range(3)}
        assert len(queues) == 1
        assert len(await producer.queues(topic)) == 4


async def test_a_small_window_only_makes_senders_wait(cluster: ServerCluster, topic: str) -> None:
    async with Producer(GROUP, nameserver=cluster.namesrv, in_flight_max=2) as producer:
        results = await asyncio.gather(*(producer.send(Message(topic, b"x")) for _ in range(50)))
    assert all(result.ok for result in results)


async def test_oneway_messages_arrive(cluster: ServerCluster, topic: str) -> None:
    async with Producer(GROUP, nameserver=cluster.namesrv) as producer:
        await producer.send(Message(topic, b"x"))
        for _ in range(50):
            await producer.send_oneway(Message(topic, b"x"))
    await until(lambda: stored_count(cluster, topic) == 51, "closing lets leave what was written")


async def test_errors_are_the_same_as_in_threads(cluster: ServerCluster, topic: str) -> None:
    async with Producer(GROUP, nameserver=cluster.namesrv) as producer:
        await producer.send(Message(topic, b"x"))
        with pytest.raises(BrokerRefused, match="is illegal"):
            await producer.send(Message(topic, b"x"), queue=MessageQueue(topic, "broker-a", 99))
    with pytest.raises(ClientClosed):
        await producer.send(Message(topic, b"x"))
    with pytest.raises(NoNameServer):
        async with Producer(GROUP, nameserver="127.0.0.1:9") as nowhere:
            await nowhere.send(Message(topic, b"x"))


async def test_clients_of_one_name_share_their_connections(cluster: ServerCluster, topic: str) -> None:
    async with (
        Producer("one", nameserver=cluster.namesrv, instance_name="shared") as first,
        Producer("two", nameserver=cluster.namesrv, instance_name="shared") as second,
        Producer("three", nameserver=cluster.namesrv) as third,
    ):
        await first.send(Message(topic, b"x"))
        assert first.working.instance is second.working.instance
        assert first.working.instance is not third.working.instance
        await first.close()
        assert (await second.send(Message(topic, b"x"))).ok


async def test_nothing_is_left_when_a_producer_is_closed(cluster: ServerCluster, topic: str) -> None:
    async with Producer(GROUP, nameserver=cluster.namesrv) as producer:
        await producer.send(Message(topic, b"x"))
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_fan_out_of_many_sends_just_works(cluster: ServerCluster, topic: str) -> None:
    """Far more than may be in flight, and longer under way than a send may take."""
    async with Producer(GROUP, nameserver=cluster.namesrv, in_flight_max=500, send_timeout_s=2.0) as producer:
        results = await asyncio.gather(*(producer.send(Message(topic, b"%d" % n)) for n in range(20_000)))
    assert {result.status for result in results} == {SendStatus.SEND_OK}
    assert len({(result.queue, result.queue_offset) for result in results}) == 20_000


def keep_the_loop_busy(seconds: float) -> None:
    time.sleep(seconds)


async def test_time_in_which_the_loop_did_not_run_is_no_time_out(cluster: ServerCluster, topic: str) -> None:
    async with Producer(GROUP, nameserver=cluster.namesrv, send_timeout_s=0.5) as producer:
        await producer.send(Message(topic, b"first"), timeout_s=10)
        sending = [asyncio.create_task(producer.send(Message(topic, b"x" * 100))) for _ in range(300)]
        await asyncio.sleep(0)
        keep_the_loop_busy(1.0)
        await asyncio.sleep(0)
        keep_the_loop_busy(0.3)
        assert len(await asyncio.gather(*sending)) == 300
