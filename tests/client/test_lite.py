"""The lite pull consumer: polled or looped over, by subscription or by hand, and nothing given is lost."""

import asyncio

import pytest

from rocketeer.client.aio.lite_pull_consumer import LitePullConsumer
from rocketeer.client.sync.lite_pull_consumer import LitePullConsumer as SyncLitePullConsumer
from rocketeer.errors import ClientClosed, ClientError
from support.cluster import ServerCluster
from support.consuming import make_topic, names, options, send, until


async def drain(consumer: LitePullConsumer, count: int) -> list[str]:
    got: list[str] = []
    for _ in range(400):
        got += [message.text for message in await consumer.poll(0.1)]
        if len(got) >= count:
            return got
    raise AssertionError(f"{len(got)} of {count} messages came: {got}")


async def test_poll_gives_everything_once(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    await send(cluster, topic, names(100))
    consumer = LitePullConsumer(f"G-{topic}", **options(cluster))
    consumer.subscribe(topic)
    async with consumer:
        assert sorted(await drain(consumer, 100)) == sorted(names(100))
        assert await consumer.poll(0.05) == []
    with pytest.raises(ClientClosed):
        await consumer.poll(0)


async def test_two_members_under_one_name_are_refused(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    first, second = (
        LitePullConsumer(f"G-{topic}", instance_name="one", **options(cluster)) for _ in range(2)
    )
    first.subscribe(topic)
    second.subscribe(topic)
    async with first:
        for _ in range(2):
            with pytest.raises(ClientError, match="instance_name"):
                await second.start()


async def test_what_was_polled_counts_when_poll_is_called_again(cluster: ServerCluster, topic: str) -> None:
    queues = make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(10))
    consumer = LitePullConsumer(f"G-{topic}", **options(cluster, commit_interval_s=0.02))
    consumer.subscribe(topic)
    async with consumer:
        first = await consumer.poll(20, max_count=4)
        assert [message.text for message in first] == names(4)
        await asyncio.sleep(0.1)
        assert await consumer.committed(queues[0]) == 0, "still in the caller's hands"
        await consumer.poll(20, max_count=4)
        for _ in range(400):
            if await consumer.committed(queues[0]) == 4:
                break
            await asyncio.sleep(0.02)
        assert await consumer.committed(queues[0]) == 4
        await consumer.commit()
        assert await consumer.committed(queues[0]) == 8
        assert consumer.position(queues[0]) == 8


async def test_a_loop_that_fails_gives_its_last_message_again(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(6))
    seen: list[str] = []

    async def read(fail_at: str) -> None:
        consumer = LitePullConsumer(f"G-{topic}", **options(cluster))
        consumer.subscribe(topic)
        async with consumer:
            async for message in consumer:
                seen.append(message.text)
                if message.text == fail_at:
                    raise RuntimeError(fail_at)
                if message.text == "m5":
                    return

    with pytest.raises(RuntimeError, match="m2"):
        await read(fail_at="m2")
    await read(fail_at="nobody")
    assert seen == ["m0", "m1", "m2", "m2", "m3", "m4", "m5"]

    await send(cluster, topic, ["m6"])
    after = LitePullConsumer(f"G-{topic}", **options(cluster))
    after.subscribe(topic)
    async with after:
        assert await drain(after, 1) == ["m6"], "a loop that was left in order has consumed its last message"


def test_threads_loop_over_it_too(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    asyncio.run(send(cluster, topic, names(60)))
    got: list[str] = []
    with_break = SyncLitePullConsumer(f"G-{topic}", **options(cluster))
    with_break.subscribe(topic)
    with with_break:
        for message in with_break:
            got.append(message.text)
            if len(got) == 25:
                break
    rest = SyncLitePullConsumer(f"G-{topic}", **options(cluster))
    rest.subscribe(topic)
    with rest:
        assert len(rest.assignment) == 4
        while len(got) < 60:
            got += [message.text for message in rest.poll(1)]
    assert sorted(got) == sorted(names(60)), "what was pulled but not given was not lost"


async def test_queues_can_be_assigned_by_hand(cluster: ServerCluster, topic: str) -> None:
    queues = make_topic(cluster, topic, queues=3)
    for queue in range(3):
        await send(cluster, topic, names(3, f"q{queue}-"), queue_id=queue)
    consumer = LitePullConsumer(f"G-{topic}", **options(cluster))
    await consumer.assign(queues[:2])
    with pytest.raises(ClientError, match="exclude"):
        consumer.subscribe(topic)
    async with consumer:
        assert sorted(await drain(consumer, 6)) == names(3, "q0-") + names(3, "q1-")
        await consumer.assign(queues[2:])
        assert consumer.assignment == queues[2:]
        assert await drain(consumer, 3) == names(3, "q2-")


async def test_seeking_goes_anywhere(cluster: ServerCluster, topic: str) -> None:
    queues = make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(10))
    consumer = LitePullConsumer(f"G-{topic}", **options(cluster))
    consumer.subscribe(topic)
    async with consumer:
        assert await drain(consumer, 10) == names(10)
        await consumer.seek(queues[0], 7)
        assert await drain(consumer, 3) == ["m7", "m8", "m9"]
        await consumer.seek_to_begin(queues[0])
        assert (await drain(consumer, 10))[0] == "m0"
        await consumer.seek_to_begin(queues[0])
        await consumer.poll(20, max_count=1)
        await consumer.seek_to_end(queues[0])
        await send(cluster, topic, ["new"])
        assert await drain(consumer, 1) == ["new"]
        await consumer.seek_to_time(queues[0], 0)
        assert (await drain(consumer, 11))[0] == "m0"
        with pytest.raises(ClientError, match="not among"):
            await consumer.seek(make_topic(cluster, f"{topic}-x", queues=1)[0], 0)


async def test_paused_queues_give_nothing(cluster: ServerCluster, topic: str) -> None:
    queues = make_topic(cluster, topic, queues=2)
    consumer = LitePullConsumer(f"G-{topic}", **options(cluster))
    consumer.subscribe(topic)
    async with consumer:
        consumer.pause(queues[0])
        for queue in range(2):
            await send(cluster, topic, names(3, f"q{queue}-"), queue_id=queue)
        assert await drain(consumer, 3) == names(3, "q1-")
        assert await consumer.poll(0.2) == []
        consumer.resume(queues[0])
        assert await drain(consumer, 3) == names(3, "q0-")


async def test_without_auto_commit_only_commit_counts(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    await send(cluster, topic, names(4))
    for number in range(3):
        consumer = LitePullConsumer(f"G-{topic}", auto_commit=False, **options(cluster))
        consumer.subscribe(topic)
        async with consumer:
            if number < 2:
                assert await drain(consumer, 4) == names(4)
            else:
                assert await consumer.poll(0.3) == []
            if number == 1:
                await consumer.commit()


async def test_tags_and_new_topics_apply_while_it_runs(cluster: ServerCluster, topic: str) -> None:
    other = f"{topic}-other"
    make_topic(cluster, topic, queues=1)
    make_topic(cluster, other, queues=1)
    consumer = LitePullConsumer(f"G-{topic}", **options(cluster))
    consumer.subscribe(topic, tags="a")
    async with consumer:
        await send(cluster, topic, ["b1"], tags="b")
        await send(cluster, topic, ["a1"], tags="a")
        assert await drain(consumer, 1) == ["a1"]
        consumer.subscribe(other)
        await until(lambda: len(consumer.assignment) == 2)
        await send(cluster, other, ["o1"])
        assert await drain(consumer, 1) == ["o1"]


async def test_closing_ends_a_poll_and_a_loop_that_wait(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic)
    consumer = LitePullConsumer(f"G-{topic}", **options(cluster))
    consumer.subscribe(topic)
    await consumer.start()
    polling = asyncio.create_task(consumer.poll(600))

    async def loop() -> list[str]:
        return [message.text async for message in consumer]

    looping = asyncio.create_task(loop())
    await asyncio.sleep(0.1)
    await consumer.close()
    assert await asyncio.wait_for(polling, 30) == []
    assert await asyncio.wait_for(looping, 30) == []
