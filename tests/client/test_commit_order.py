"""A broker may work on requests in another order than they were sent: the offset a group told last is the one it keeps.

Apache's does, with its pools of threads. Here a proxy brings pulls that carry an offset late to a real broker, and a
scripted broker is as slow, and as careless, as Apache's can be.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from rocketeer.bench.control import Control
from rocketeer.client.aio.lite_pull_consumer import LitePullConsumer
from rocketeer.client.aio.orderly_service import RUN_S
from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.plans.offsets import committed_offset
from rocketeer.client.plans.pull import COMMIT_OFFSET, SUSPEND
from rocketeer.model.route import BrokerData, QueueData, Route
from rocketeer.protocol.bodies.clients import encoding_consumer_list
from rocketeer.protocol.bodies.locks import encode_locked_queues, opening_lock_request
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, reply
from rocketeer.record.hosts import encode_host
from rocketeer.record.layout import PendingMessage, encode_pending
from rocketeer.steps import finish
from support.bodies import decode_heartbeat, encode_route
from support.cluster import ServerCluster
from support.consuming import make_topic, names, options, send, until
from support.proxy import Proxy, proxy
from support.scripted_broker import Play, scripted_broker

orders = pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "ordered"])


def carries_offset(command: Command) -> bool:
    return command.code == RequestCode.PULL_MESSAGE and bool(int(command.ext["sysFlag"]) & COMMIT_OFFSET)


# --- a real broker ---------------------------------------------------------------------------


@pytest.fixture
def between(cluster: ServerCluster) -> Iterator[Proxy]:
    with proxy(int(cluster.broker.rpartition(":")[2]), port=0) as made:
        made.late = carries_offset
        yield made


@pytest.fixture
def detour(between: Proxy) -> Iterator[str]:
    """A name server that sends everybody to the proxy; every topic has one queue."""

    def route(asked: Command) -> Command:
        brokers = (BrokerData("c", "broker-a", {0: between.address}),)
        return reply(asked, body=encode_route(Route((QueueData("broker-a", 1, 1, 6),), brokers), strict=True))

    with scripted_broker({RequestCode.GET_ROUTEINFO_BY_TOPIC: route}) as nameserver:
        yield nameserver.address


def committed(cluster: ServerCluster, topic: str) -> int | None:
    with Control(cluster.broker) as broker:
        return broker.run(committed_offset(broker.cluster, f"G-{topic}", broker.queue(topic, 0)))


@orders
async def test_a_pull_that_comes_behind_the_last_commit_sets_nothing_back(
    cluster: ServerCluster, between: Proxy, detour: str, topic: str, orderly: bool
) -> None:
    make_topic(cluster, topic, queues=1)
    got: list[str] = []

    def is_pulled(offset: int) -> bool:
        pulls = between.requests(RequestCode.PULL_MESSAGE)
        return any(pull.ext["topic"] == topic and pull.ext["queueOffset"] == str(offset) for pull in pulls)

    for behind, round_name in ((3, "a"), (6, "b"), (9, "c")):
        await send(cluster, topic, names(3, round_name), queue_id=0)
        consumer = PushConsumer(f"G-{topic}", orderly=orderly, **options(cluster, nameserver=detour))
        done = asyncio.Event()

        @consumer.subscribe(topic)
        async def take(message: ReceivedMessage, behind: int = behind, done: asyncio.Event = done) -> None:
            await until(lambda: is_pulled(behind), "the next pull, sent while nothing is consumed yet")
            got.append(message.text)
            if message.queue_offset == behind - 1:
                done.set()

        async with consumer, asyncio.timeout(40):
            await done.wait()
        await until(lambda: not between.waiting, "what was sent has reached the broker")
    assert sorted(got) == names(3, "a") + names(3, "b") + names(3, "c")
    assert committed(cluster, topic) == 9


async def half_consumed(
    cluster: ServerCluster, between: Proxy, topic: str, got: list[str], consumer: PushConsumer
) -> None:
    """Have some of eight messages consumed, while a pull that tells that one was is under way."""
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(8), queue_id=0)

    @consumer.subscribe(topic)
    async def take(message: ReceivedMessage) -> None:
        if got:
            await until(lambda: bool(between.waiting), "the pull that tells of the first")
        else:
            await asyncio.sleep(2 * RUN_S)  # or ordered consumption would go on with the next, and count both
        got.append(message.text)

    await consumer.start()
    await until(lambda: len(got) >= 4)


def half_options(cluster: ServerCluster, nameserver: str) -> dict[str, Any]:
    """The pause behind a pull lets the first message be consumed; nothing but pulls tells offsets before the end."""
    return options(
        cluster, nameserver=nameserver, pull_batch=4, pull_interval_s=0.5, concurrency=1, commit_interval_s=60
    )


@orders
async def test_closing_commits_behind_a_pull_that_is_under_way(
    cluster: ServerCluster, between: Proxy, detour: str, topic: str, orderly: bool
) -> None:
    got: list[str] = []
    consumer = PushConsumer(f"G-{topic}", orderly=orderly, **half_options(cluster, detour))
    await half_consumed(cluster, between, topic, got, consumer)
    await consumer.close()
    await until(lambda: not between.waiting, "what was sent has reached the broker")
    assert [int(pull.ext["commitOffset"]) for pull in between.seen if carries_offset(pull)] == [1]
    assert committed(cluster, topic) == len(got)
    again = PushConsumer(f"G-{topic}", orderly=orderly, **options(cluster))
    again.subscribe(topic, lambda message: got.append(message.text))
    async with again:
        await until(lambda: "m7" in got)
    assert sorted(got) == names(8), "each once"


@orders
async def test_a_queue_is_handed_over_behind_a_pull_that_is_under_way(
    cluster: ServerCluster, between: Proxy, detour: str, topic: str, orderly: bool
) -> None:
    got: list[str] = []
    # The queue goes to the member whose name comes first.
    first = PushConsumer(f"G-{topic}", orderly=orderly, instance_name="z", **half_options(cluster, detour))
    await half_consumed(cluster, between, topic, got, first)
    second = PushConsumer(f"G-{topic}", orderly=orderly, instance_name="a", **options(cluster))
    go_on = asyncio.Event()

    @second.subscribe(topic)
    async def take(message: ReceivedMessage) -> None:
        await go_on.wait()

    async with second:
        await until(lambda: not [queue for queue in first.queues if queue.topic == topic], "it is let go")
        await first.close()
        await until(lambda: not between.waiting, "what was sent has reached the broker")
        assert committed(cluster, topic) == len(got)
        go_on.set()


async def test_brokers_hear_of_progress_also_at_the_end_of_a_queue(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=1)
    got: list[str] = []
    consumer = PushConsumer(f"G-{topic}", **options(cluster, commit_interval_s=600))
    consumer.subscribe(topic, lambda message: got.append(message.text))
    sent = 0
    async with consumer:
        while (committed(cluster, topic) or 0) < 5:
            sent += 1
            assert sent <= 40, "after a pull's worth of messages at the latest"
            await send(cluster, topic, ["m"], queue_id=0)
            await until(lambda: len(got) == sent)  # noqa: B023 waited for here


# --- a scripted broker -----------------------------------------------------------------------

HOST = encode_host("127.0.0.1", 1)
QUEUES = 4
MESSAGES = 3
"""Of each queue."""


class ManyThreads:
    """Works on each commit by itself for a while, as one of Apache's threads may."""

    def __init__(self, works_s: list[float] | None = None) -> None:
        self.table: dict[int, int] | None = None
        """Offsets by queue; there is none before the first comes."""
        self.commits = 0
        """It is at so many now."""
        self._works_s = iter(works_s or [])
        self._clients: list[str] = []

    def plays(self) -> dict[int, Play]:
        return {
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: lambda asked: reply(
                asked, body=finish(encoding_consumer_list(self._clients))
            ),
            RequestCode.GET_CONSUMER_CONNECTION_LIST: lambda asked: reply(asked, ResponseCode.SYSTEM_ERROR),
            RequestCode.QUERY_CONSUMER_OFFSET: lambda asked: reply(asked, ext={"offset": "0"}),
            RequestCode.UPDATE_CONSUMER_OFFSET: self._update,
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.UNLOCK_BATCH_MQ: reply,
            RequestCode.PULL_MESSAGE: self._pull,
        }

    def _heartbeat(self, asked: Command) -> Command:
        self._clients = [decode_heartbeat(asked.body).client_id]
        return reply(asked)

    def _lock(self, asked: Command) -> Command:
        wish = finish(opening_lock_request(asked.body))
        return reply(asked, body=encode_locked_queues(wish.queues(0, wish.queue_count)))

    async def _update(self, asked: Command) -> Command:
        await self._commit(asked)
        return reply(asked)

    async def _commit(self, asked: Command) -> None:
        table = self.table
        self.commits += 1
        await asyncio.sleep(next(self._works_s, 0.05))
        self.commits -= 1
        if table is None:
            table = self.table = {}
        table[int(asked.ext["queueId"])] = int(asked.ext["commitOffset"])

    async def _pull(self, asked: Command) -> Command | None:
        flags, offset = int(asked.ext["sysFlag"]), int(asked.ext["queueOffset"])
        if asked.ext["topic"].startswith("%"):
            return None
        if flags & COMMIT_OFFSET:
            await self._commit(asked)
        if offset >= MESSAGES and flags & SUSPEND:
            return None
        code = ResponseCode.SUCCESS if offset < MESSAGES else ResponseCode.PULL_NOT_FOUND
        ext = {"nextBeginOffset": str(MESSAGES), "minOffset": "0", "maxOffset": str(MESSAGES)}
        return reply(asked, code, ext=ext, body=_records(asked, offset))


def _records(asked: Command, first: int) -> bytes:
    return b"".join(
        encode_pending(
            PendingMessage(asked.ext["topic"], int(asked.ext["queueId"]), 0, 0, 1, HOST, b"m", b""),
            queue_offset=offset,
            log_offset=1 + offset,
            store_ms=1,
            store_host=HOST,
        )
        for offset in range(first, MESSAGES)
    )


EVERYTHING = dict.fromkeys(range(QUEUES), MESSAGES)


@pytest.mark.parametrize("commit_interval_s", [0.02, 60], ids=["on the way", "at the end"])
@orders
async def test_the_first_offsets_of_a_group_are_all_kept(orderly: bool, commit_interval_s: float) -> None:
    broker = ManyThreads()
    got: list[str] = []
    with scripted_broker(broker.plays()) as master:
        consumer = PushConsumer(
            "G", nameserver=master.address, orderly=orderly, commit_interval_s=commit_interval_s
        )
        consumer.subscribe("T", lambda message: got.append(message.text))
        async with consumer:
            await until(lambda: len(got) == QUEUES * MESSAGES)
    assert broker.table == EVERYTHING


async def test_the_first_offsets_of_a_lite_pull_consumer_are_all_kept() -> None:
    broker = ManyThreads()
    count = 0
    with scripted_broker(broker.plays()) as master:
        consumer = LitePullConsumer("G", nameserver=master.address)
        consumer.subscribe("T")
        async with consumer:
            while count < QUEUES * MESSAGES:
                count += len(await consumer.poll())
    assert broker.table == EVERYTHING


async def test_closing_commits_behind_a_commit_that_is_under_way() -> None:
    broker = ManyThreads(works_s=[0.5])
    broker.table = {}
    got = 0
    with scripted_broker(broker.plays()) as master:
        consumer = PushConsumer("G", nameserver=master.address, commit_interval_s=0.02)

        @consumer.subscribe("T")
        async def take(message: ReceivedMessage) -> None:
            nonlocal got
            if (message.queue_id, message.queue_offset) != (0, 0):
                await until(lambda: bool(master.asked(RequestCode.UPDATE_CONSUMER_OFFSET)))
            got += 1

        async with consumer:
            await until(lambda: got == QUEUES * MESSAGES)
        await until(lambda: not broker.commits, "it has done all it was asked for")
    assert broker.table == EVERYTHING
