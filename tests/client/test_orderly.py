"""Ordered consumption: one message after the other, by one member at a time, nothing passes a failed one."""

import asyncio
import threading
import time
from collections import Counter, defaultdict

import pytest

from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.core.outcome import COMMIT, RETRY, ROLLBACK, Ordered, Retry
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.sync.push_consumer import PushConsumer as SyncPushConsumer
from support.cluster import ServerCluster
from support.consuming import dead_letters, make_topic, names, options, send, until, until_sync


def test_each_queue_is_consumed_in_order_and_by_one_thread_at_a_time(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=3)

    async def fill() -> None:
        await asyncio.gather(*(send(cluster, topic, names(60), queue_id=queue) for queue in range(3)))

    asyncio.run(fill())
    seen: dict[int, list[str]] = defaultdict(list)
    at_it: Counter[int] = Counter()
    overlaps: list[int] = []
    consumer = SyncPushConsumer(f"G-{topic}", orderly=True, **options(cluster))

    @consumer.subscribe(topic)
    def take(message: ReceivedMessage) -> None:
        at_it[message.queue_id] += 1
        if at_it[message.queue_id] > 1:
            overlaps.append(message.queue_id)
        time.sleep(0.001)
        seen[message.queue_id].append(message.text)
        at_it[message.queue_id] -= 1

    with consumer:
        until_sync(lambda: sum(map(len, seen.values())) >= 180)
    assert dict(seen) == {queue: names(60) for queue in range(3)}
    assert overlaps == []


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_nothing_passes_a_message_that_fails(cluster: ServerCluster, topic: str, kind: str) -> None:
    topic = f"{topic}{kind}"
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(5))
    tries: list[tuple[str, int]] = []
    consumer = PushConsumer(f"G-{topic}", orderly=True, suspend_s=0.05, **options(cluster))

    def take(message: ReceivedMessage) -> Retry | None:
        tries.append((message.text, message.reconsume_times))
        if message.text == "m2" and message.reconsume_times < 2:
            return RETRY
        return None

    async def take_async(message: ReceivedMessage) -> Retry | None:
        await asyncio.sleep(0)
        return take(message)

    consumer.subscribe(topic, take if kind == "thread" else take_async)
    async with consumer:
        await until(lambda: len(tries) >= 7)
    assert tries == [("m0", 0), ("m1", 0), ("m2", 0), ("m2", 1), ("m2", 2), ("m3", 0), ("m4", 0)]


async def test_a_message_that_had_its_tries_is_buried_and_the_queue_goes_on(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(4))
    tries: list[str] = []
    group = f"G-{topic}"
    consumer = PushConsumer(group, orderly=True, retries=2, suspend_s=0.02, **options(cluster))

    @consumer.subscribe(topic)
    async def take(message: ReceivedMessage) -> Retry | None:
        tries.append(message.text)
        if message.text == "m1":
            raise ValueError("never")
        return Retry(delay_level=-1) if message.text == "m2" else None

    async with consumer:
        await until(lambda: "m3" in tries)
        await until(lambda: dead_letters(cluster, group) == 2)
    assert tries == ["m0", "m1", "m1", "m1", "m2", "m3"]


async def test_a_listener_may_commit_by_itself(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(6))
    seen: list[str] = []
    rolled = False
    consumer = PushConsumer(f"G-{topic}", orderly=True, auto_commit=False, suspend_s=0.02, **options(cluster))

    @consumer.subscribe(topic)
    async def take(message: ReceivedMessage) -> Ordered | None:
        nonlocal rolled
        seen.append(message.text)
        if message.text == "m1":
            return COMMIT
        if message.text == "m3" and not rolled:
            rolled = True
            return ROLLBACK
        return None

    async with consumer:
        await until(lambda: "m5" in seen)
    assert seen == ["m0", "m1", "m2", "m3", "m2", "m3", "m4", "m5"], "back to behind the last commit"

    again: list[str] = []
    second = PushConsumer(f"G-{topic}", orderly=True, **options(cluster))
    second.subscribe(topic, lambda message: again.append(message.text))
    async with second:
        await until(lambda: "m5" in again)
    assert again == ["m2", "m3", "m4", "m5"], "only what was committed is finished"


async def test_lists_are_given_in_order_too(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(9))
    seen: list[str] = []
    sizes: set[int] = set()
    consumer = PushConsumer(f"G-{topic}", orderly=True, consume_batch=4, **options(cluster))

    @consumer.subscribe(topic)
    def take(messages: list[ReceivedMessage]) -> None:
        sizes.add(len(messages))
        seen.extend(message.text for message in messages)

    async with consumer:
        await until(lambda: len(seen) >= 9)
    assert seen == names(9)
    assert max(sizes) <= 4


async def test_a_queue_changes_hands_without_overlap_or_repetition(
    cluster: ServerCluster, topic: str
) -> None:
    """A second member joins, then the first leaves: who has the lock consumes, and where the other stopped."""
    make_topic(cluster, topic, queues=4)
    seen: dict[int, list[int]] = defaultdict(list)
    at_it: Counter[int] = Counter()
    overlaps: list[int] = []
    guard = threading.Lock()
    group = f"G-{topic}"

    def take(message: ReceivedMessage) -> None:
        with guard:
            at_it[message.queue_id] += 1
            if at_it[message.queue_id] > 1:
                overlaps.append(message.queue_id)
        time.sleep(0.002)
        with guard:
            seen[message.queue_id].append(int(message.text))
            at_it[message.queue_id] -= 1

    def member() -> PushConsumer:
        made = PushConsumer(group, orderly=True, lock_renew_s=0.3, **options(cluster))
        made.subscribe(topic, take)
        return made

    async def sending() -> None:
        for start in range(0, 90, 30):
            bodies = [str(number) for number in range(start, start + 30)]
            await asyncio.gather(*(send(cluster, topic, bodies, queue_id=queue) for queue in range(4)))
            await asyncio.sleep(0.3)

    def mine(consumer: PushConsumer) -> int:
        return sum(queue.topic == topic for queue in consumer.queues)

    first, second = member(), member()
    async with second:
        async with first:
            sender = asyncio.create_task(sending())
            await until(lambda: mine(first) == 2 and mine(second) == 2, "the queues are shared")
        await until(lambda: mine(second) == 4, "the rest is handed over")
        await sender
        await until(lambda: sum(map(len, seen.values())) >= 360)
    assert overlaps == []
    assert {queue: numbers == sorted(set(numbers)) for queue, numbers in seen.items()} == dict.fromkeys(
        range(4), True
    )


async def test_a_paused_ordered_consumer_stops_behind_the_message_it_is_at(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(20))
    seen: list[str] = []
    consumer = PushConsumer(f"G-{topic}", orderly=True, **options(cluster))

    @consumer.subscribe(topic)
    async def take(message: ReceivedMessage) -> None:
        seen.append(message.text)
        if len(seen) == 5:
            consumer.pause()
        await asyncio.sleep(0.001)

    async with consumer:
        await until(lambda: len(seen) == 5)
        await asyncio.sleep(0.1)
        assert len(seen) == 5
        consumer.resume()
        await until(lambda: len(seen) == 20)
    assert seen == names(20)


async def test_a_queue_that_pauses_after_a_failure_is_handed_over_at_once(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(2))
    tries: list[str] = []
    seen: list[str] = []
    failing = PushConsumer(f"G-{topic}", orderly=True, suspend_s=25.0, **options(cluster))

    @failing.subscribe(topic)
    async def fail(message: ReceivedMessage) -> Retry:
        tries.append(message.text)
        return RETRY

    other = PushConsumer(f"G-{topic}", orderly=True, **options(cluster))
    other.subscribe(topic, lambda message: seen.append(message.text))
    async with failing:
        await until(lambda: tries == ["m0"])
        began_s = time.monotonic()
    async with other:
        await until(lambda: seen == names(2))
    assert time.monotonic() - began_s < 20, "not after the pause"
