"""Members share the queues, and hand them over when one comes or goes: told by the broker, not by a timer."""

import asyncio
import logging
import random
import time
from collections import Counter

import pytest

from rocketeer.client.aio.lite_pull_consumer import LitePullConsumer
from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.core.allocate import AveragelyByCircle
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.rpc_hooks import RpcContext
from rocketeer.client.plans.groups import group_view
from rocketeer.protocol.codes import RequestCode
from support.cluster import ServerCluster
from support.consuming import make_topic, names, options, send, until


def queues_of(consumer: PushConsumer, topic: str) -> set[int]:
    return {queue.queue_id for queue in consumer.queues if queue.topic == topic}


async def test_members_share_the_queues_and_every_message_is_consumed_once(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=8)
    got: Counter[str] = Counter()
    members = [PushConsumer(f"G-{topic}", **options(cluster)) for _ in range(3)]
    for member in members:
        member.subscribe(topic, lambda message: got.update([message.text]))
        await member.start()
    await until(lambda: sorted(len(queues_of(member, topic)) for member in members) == [2, 3, 3])
    everything = [queue for member in members for queue in queues_of(member, topic)]
    assert sorted(everything) == list(range(8))
    await send(cluster, topic, names(100))
    await until(lambda: len(got) == 100)
    assert set(got.values()) == {1}
    for member in members:
        await member.close()


async def test_a_member_that_leaves_hands_over_at_the_brokers_notice(
    cluster: ServerCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """10 ms on a machine with nothing else to do. The timer is ten minutes away: it was the notice."""
    make_topic(cluster, topic, queues=4)
    got: list[str] = []
    stays, leaves = (PushConsumer(f"G-{topic}", **options(cluster)) for _ in range(2))
    for member in (stays, leaves):
        member.subscribe(topic, lambda message: got.append(message.text))
        await member.start()
    await until(lambda: len(queues_of(stays, topic)) == len(queues_of(leaves, topic)) == 2)
    await send(cluster, topic, names(20))
    await until(lambda: len(got) == 20)

    with caplog.at_level(logging.INFO, logger="rocketeer.client.aio"):
        caplog.clear()
        began_s = time.monotonic()
        await leaves.close()
        await until(lambda: len(queues_of(stays, topic)) == 4)
        took_s = time.monotonic() - began_s
    await send(cluster, topic, names(20, "after"))
    await until(lambda: len(got) == 40)
    notice = f"group changed group=G-{topic} client={stays.client_id}"
    await stays.close()
    assert sorted(got) == sorted(names(20) + names(20, "after")), "nothing twice: offsets were stored before"
    events = [record.getMessage() for record in caplog.records]
    told = next(at for at, event in enumerate(events) if event.startswith(notice))
    taken = [at for at, event in enumerate(events) if event.startswith("queue taken up")]
    assert len(taken) >= 2
    assert told < taken[0], "first the notice, then the queues"
    assert took_s < 20, "the work of milliseconds, from the first step of leaving to the last queue taken up"


async def test_a_member_that_leaves_with_work_in_hand_finishes_it_and_hands_over_the_rest(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=2)
    got: Counter[str] = Counter()
    started = asyncio.Event()

    async def slowly(message: ReceivedMessage) -> None:
        started.set()
        await asyncio.sleep(0.2)
        got.update([message.text])

    stays, leaves = (PushConsumer(f"G-{topic}", concurrency=1, **options(cluster)) for _ in range(2))
    stays.subscribe(topic, lambda message: got.update([message.text]))
    leaves.subscribe(topic, slowly)
    for member in (stays, leaves):
        await member.start()
    await until(lambda: len(queues_of(stays, topic)) == len(queues_of(leaves, topic)) == 1)
    await send(cluster, topic, names(40))
    await asyncio.wait_for(started.wait(), 20)
    await leaves.close()
    await until(lambda: len(got) == 40)
    await stays.close()
    assert set(got.values()) == {1}, "what was in hand was finished and committed, the rest went over"


async def test_a_strategy_of_the_users_choice_deals_out_the_queues(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=4)
    members = [PushConsumer(f"G-{topic}", strategy=AveragelyByCircle(), **options(cluster)) for _ in range(2)]
    for member in members:
        member.subscribe(topic, print)
        await member.start()
    await until(
        lambda: {frozenset(queues_of(m, topic)) for m in members} == {frozenset({0, 2}), frozenset({1, 3})}
    )
    for member in members:
        await member.close()


async def test_push_and_lite_members_share_a_group(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=4)
    pushed: list[str] = []
    polled: list[str] = []
    push = PushConsumer(f"G-{topic}", **options(cluster))
    push.subscribe(topic, lambda message: pushed.append(message.text))
    lite = LitePullConsumer(f"G-{topic}", **options(cluster))
    lite.subscribe(topic)
    async with push, lite:
        await until(lambda: len(queues_of(push, topic)) == len(lite.assignment) == 2)
        await send(cluster, topic, names(20))
        while len(polled) + len(pushed) < 20:
            polled += [message.text for message in await lite.poll(0.1)]
    assert sorted(pushed + polled) == sorted(names(20))
    assert pushed
    assert polled


async def test_new_queues_are_taken_up(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=2)
    consumer = PushConsumer(f"G-{topic}", **options(cluster, route_poll_s=0.2))
    consumer.subscribe(topic, print)
    async with consumer:
        assert queues_of(consumer, topic) == {0, 1}
        make_topic(cluster, topic, queues=4)
        await until(lambda: queues_of(consumer, topic) == {0, 1, 2, 3})


async def test_members_that_subscribe_differently_are_named_in_the_log(
    cluster: ServerCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(cluster, topic)
    one, other = (PushConsumer(f"G-{topic}", **options(cluster, rebalance_s=0.2)) for _ in range(2))
    one.subscribe(topic, print, tags="a")
    async with one:
        assert (await _view(one))[topic] == "a"
        await asyncio.sleep(0.01)
        other.subscribe(topic, print, tags="b")
        with caplog.at_level(logging.WARNING):
            async with other:
                await until(lambda: f"group G-{topic} is subscribed differently" in caplog.text)
    assert "'b'" in caplog.text


async def _view(consumer: PushConsumer) -> dict[str, str]:
    instance = consumer._running.instance  # type: ignore[union-attr]
    address = instance.routes.master("broker-a")
    assert address is not None
    return (await instance.run(group_view(address, consumer.config.group, 3))).expressions


class Looks:
    """Counts how often a consumer asks who is in its group."""

    def __init__(self) -> None:
        self.count = 0

    def before_request(self, context: RpcContext) -> None:
        self.count += context.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP

    def after_reply(self, context: RpcContext) -> None: ...


async def test_a_consumer_that_looks_by_itself_draws_nothing_from_a_seeded_generator(
    cluster: ServerCluster, topic: str
) -> None:
    """Whoever seeds `random` wants the same numbers every time, also with a consumer in another thread."""
    make_topic(cluster, topic, queues=1)
    looks = Looks()
    consumer = PushConsumer(f"G-{topic}", rpc_hooks=[looks], **options(cluster, rebalance_s=0.02))
    consumer.subscribe(topic, lambda message: None)
    async with consumer:
        await until(lambda: queues_of(consumer, topic) == {0})
        state, before = random.getstate(), looks.count
        await until(lambda: looks.count > before + 3)
        assert random.getstate() == state
