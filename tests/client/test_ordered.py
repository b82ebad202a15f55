"""Ordered messages: by key and for all, through rebalances and restarts; order topics of the name server."""

import asyncio
from collections import defaultdict

import pytest

from rocketeer.aio import Message, Producer, PushConsumer, by_hash
from rocketeer.bench.control import Control
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.errors import ClientError
from rocketeer.protocol.codes import RequestCode
from support.cluster import ServerCluster, restart_broker
from support.consuming import make_topic, options, until

pytestmark = pytest.mark.own_cluster

KEYS = [f"order-{number}" for number in range(8)]
EACH = 40


class Ledger:
    """What was consumed, by key: a message may come again, but none may be passed over."""

    def __init__(self) -> None:
        self.last: dict[str, int] = defaultdict(lambda: -1)
        self.queues: dict[str, set[int]] = defaultdict(set)
        self.faults: list[str] = []
        self.count = 0

    def take(self, message: ReceivedMessage) -> None:
        key, _, text = message.text.partition(":")
        number = int(text)
        self.count += 1
        self.queues[key].add(message.queue_id)
        if number > self.last[key] + 1:
            self.faults.append(f"{key}: {number} after {self.last[key]}")
        self.last[key] = max(self.last[key], number)

    @property
    def complete(self) -> bool:
        return all(self.last[key] == EACH - 1 for key in KEYS)


async def send_in_order(cluster: ServerCluster, topic: str, pause_s: float = 0.0) -> None:
    """Each key's messages one after the other, each until it is acknowledged, whatever happens to the broker."""
    async with Producer("ordered", nameserver=cluster.namesrv, route_poll_s=0.3) as producer:

        async def one_key(key: str) -> None:
            for number in range(EACH):
                message = Message(topic, f"{key}:{number}".encode(), sharding_key=key)
                async with asyncio.timeout(60):
                    while True:
                        try:
                            await producer.send(message, selector=by_hash, arg=key, timeout_s=3)
                            break
                        except ClientError:
                            await asyncio.sleep(0.1)
                await asyncio.sleep(pause_s)

        await asyncio.gather(*(one_key(key) for key in KEYS))


def member(cluster: ServerCluster, topic: str, ledger: Ledger) -> PushConsumer:
    config = options(cluster, rebalance_s=0.5, route_poll_s=0.3, lock_renew_s=0.5, suspend_s=0.05)
    consumer = PushConsumer(f"G-{topic}", orderly=True, **config)

    @consumer.subscribe(topic)
    async def take(message: ReceivedMessage) -> None:
        ledger.take(message)
        await asyncio.sleep(0.002)

    return consumer


async def test_the_messages_of_a_key_keep_their_order_while_members_come_and_go(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=4)
    ledger = Ledger()
    sending = asyncio.create_task(send_in_order(cluster, topic, 0.01))
    first, second, third = (member(cluster, topic, ledger) for _ in range(3))
    async with first:
        await until(lambda: ledger.count > 20)
        async with second:
            await until(lambda: ledger.count > 60)
            await third.start()
            await until(lambda: ledger.count > 120)
            await third.close()
        await sending
        await until(lambda: ledger.complete)
    assert ledger.faults == []
    assert all(len(queues) == 1 for queues in ledger.queues.values()), "a key stays in its queue"
    assert ledger.count == len(KEYS) * EACH, "each once: queues are handed over behind the last message"


async def test_one_queue_orders_everything(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    got: list[int] = []
    consumer = PushConsumer(f"G-{topic}", orderly=True, **options(cluster))
    consumer.subscribe(topic, lambda message: got.append(int(message.text)))
    async with consumer, Producer(f"PG-{topic}", nameserver=cluster.namesrv) as producer:
        for number in range(100):
            await producer.send(Message(topic, str(number).encode()))
        await until(lambda: len(got) == 100)
    assert got == list(range(100))


async def test_an_order_configuration_says_which_queues_are_sent_to(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=4)
    conf = {"namespace": "ORDER_TOPIC_CONFIG", "key": topic, "value": "broker-a:2"}
    async with Producer(f"PG-{topic}", nameserver=cluster.namesrv, route_poll_s=0.1) as producer:

        async def queues_become(count: int) -> None:
            for _ in range(2000):
                if len(await producer.queues(topic)) == count:
                    return
                await asyncio.sleep(0.02)
            raise AssertionError(f"never {count} queues")

        assert len(await producer.queues(topic)) == 4
        with Control(cluster.namesrv) as names:
            names.ask(RequestCode.UPDATE_NAMESRV_CONFIG, {}, b"orderMessageEnable=true")
            names.ask(RequestCode.PUT_KV_CONFIG, conf)
        await queues_become(2)
        used = {(await producer.send(Message(topic, b"x"))).queue.queue_id for _ in range(8)}
        assert used == {0, 1}
        with Control(cluster.namesrv) as names:
            names.ask(RequestCode.DELETE_KV_CONFIG, {"namespace": conf["namespace"], "key": topic})
        await queues_become(4)


@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill"])
async def test_a_restart_of_the_broker_passes_no_message_over(
    cluster: ServerCluster, topic: str, kill: bool
) -> None:
    make_topic(cluster, topic, queues=4)
    ledger = Ledger()
    first, second = (member(cluster, topic, ledger) for _ in range(2))
    async with first, second:
        sending = asyncio.create_task(send_in_order(cluster, topic, 0.02))
        await until(lambda: ledger.count > 60)
        await asyncio.to_thread(restart_broker, cluster, kill=kill)
        await asyncio.wait_for(sending, 90)
        await until(lambda: ledger.complete, timeout_s=90)
    assert ledger.faults == []
    assert all(len(queues) == 1 for queues in ledger.queues.values())
