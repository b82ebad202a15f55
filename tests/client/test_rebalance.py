"""Members share the queues, and hand them over when one comes or goes: told by the broker, not by a timer."""

import asyncio
import logging
import time
from collections import Counter

import pytest

from rocketeer.client.aio.lite_pull_consumer import LitePullConsumer
from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.core.allocate import AveragelyByCircle
from support.cluster import Cluster
from support.consuming import make_topic, names, options, send, until
from support.peers import java_peer


def queues_of(consumer: PushConsumer, topic: str) -> set[int]:
    return {queue.queue_id for queue in consumer.queues if queue.topic == topic}


async def test_members_share_the_queues_and_every_message_is_consumed_once(
    cluster: Cluster, topic: str
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


async def test_a_member_that_leaves_hands_over_within_a_second(cluster: Cluster, topic: str) -> None:
    make_topic(cluster, topic, queues=4)
    got: list[str] = []
    stays, leaves = (PushConsumer(f"G-{topic}", **options(cluster)) for _ in range(2))
    for member in (stays, leaves):
        member.subscribe(topic, lambda message: got.append(message.text))
        await member.start()
    await until(lambda: len(queues_of(stays, topic)) == len(queues_of(leaves, topic)) == 2)
    await send(cluster, topic, names(20))
    await until(lambda: len(got) == 20)

    await leaves.close()
    left_s = time.monotonic()
    await until(lambda: len(queues_of(stays, topic)) == 4)
    took_s = time.monotonic() - left_s
    await send(cluster, topic, names(20, "after"))
    await until(lambda: len(got) == 40)
    await stays.close()
    assert sorted(got) == sorted(names(20) + names(20, "after")), "nothing twice: offsets were stored before"
    assert took_s < 10, (
        "rebalance_s is 600: it was the notice (a second, on a machine with nothing else to do)"
    )


async def test_a_strategy_of_the_users_choice_deals_out_the_queues(cluster: Cluster, topic: str) -> None:
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


async def test_push_and_lite_members_share_a_group(cluster: Cluster, topic: str) -> None:
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


async def test_new_queues_are_taken_up(cluster: Cluster, topic: str) -> None:
    make_topic(cluster, topic, queues=2)
    consumer = PushConsumer(f"G-{topic}", **options(cluster, route_poll_s=0.2))
    consumer.subscribe(topic, print)
    async with consumer:
        assert queues_of(consumer, topic) == {0, 1}
        make_topic(cluster, topic, queues=4)
        await until(lambda: queues_of(consumer, topic) == {0, 1, 2, 3})


async def test_members_that_subscribe_differently_are_named_in_the_log(
    cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(cluster, topic)
    one, other = (PushConsumer(f"G-{topic}", **options(cluster, rebalance_s=0.2)) for _ in range(2))
    one.subscribe(topic, print, tags="a")
    async with one:
        view = await _view(one, topic)
        if not view:
            pytest.skip("this broker does not tell what a group subscribes to (203)")
        await asyncio.sleep(0.01)
        other.subscribe(topic, print, tags="b")
        with caplog.at_level(logging.WARNING):
            async with other:
                await until(lambda: f"group G-{topic} is subscribed differently" in caplog.text)
    assert "'b'" in caplog.text


async def _view(consumer: PushConsumer, topic: str) -> dict[str, str]:
    from rocketeer.client.plans.groups import group_view
    from rocketeer.errors import BrokerRefused

    instance = consumer._running.instance  # type: ignore[union-attr]
    address = instance.routes.master("broker-a")
    assert address is not None
    try:
        return (await instance.run(group_view(address, consumer.config.group, 3))).expressions
    except BrokerRefused:
        return {}


async def test_java_members_and_ours_share_one_group(
    cluster: Cluster, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Both sides must compute the same allocation, or messages would be lost or consumed twice."""
    peer = java_peer(tmp_path_factory.mktemp("java"))
    make_topic(cluster, topic, queues=8)
    group = f"G-{topic}"
    ours: list[str] = []
    members = [PushConsumer(group, **options(cluster)) for _ in range(2)]
    for member in members:
        member.subscribe(topic, lambda message: ours.append(message.text))
        await member.start()
    java = peer.start("consume", namesrv=cluster.namesrv, topic=topic, group=group, expect=1000, seconds=60)
    try:
        await asyncio.to_thread(java.wait_ready)
        await until(lambda: sorted(len(queues_of(member, topic)) for member in members) in ([2, 3], [3, 3]))
        await asyncio.sleep(0.5)
        await send(cluster, topic, names(80))
        await until(lambda: len(set(ours) | set(java.bodies())) == 80)
        assert java.bodies()
        assert ours
        assert sorted(ours + java.bodies()) == sorted(names(80))
        peer.stop_all()
        await until(
            lambda: sum(len(queues_of(member, topic)) for member in members) == 8, "the Java member is gone"
        )
        await send(cluster, topic, names(40, "late"))
        await until(lambda: set(ours) >= set(names(40, "late")))
    finally:
        peer.stop_all()
        for member in members:
            await member.close()
