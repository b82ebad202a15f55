"""Sends of one moment share requests: nobody but the network notices."""

import asyncio
from collections import defaultdict

import pytest

from rocketeer.aio import Message, MessageTooLarge, Producer, PullConsumer, ReceivedMessage, SendFailed
from rocketeer.client.aio.batching import split_result
from rocketeer.client.core.send_result import SendResult, SendStatus
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, reply
from support.cluster import Cluster
from support.consuming import make_topic
from support.stage import stage

BATCH, SINGLE = RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2


async def stored(cluster: Cluster, topic: str) -> dict[str, ReceivedMessage]:
    """By message id."""
    async with PullConsumer(f"G-{topic}", nameserver=cluster.namesrv) as consumer:
        return {
            message.message_id: message
            for queue in await consumer.queues(topic)
            async for message in consumer.read(queue)
        }


async def test_each_caller_gets_its_own_result_and_consumers_see_no_difference(
    cluster: Cluster, topic: str
) -> None:
    make_topic(cluster, topic)
    messages = [
        Message(topic, b"%d" % n, tags=f"t{n % 3}", keys=f"k{n}", flag=n, properties={"number": str(n)})
        for n in range(500)
    ]
    async with Producer("P", nameserver=cluster.namesrv) as producer:
        results = await asyncio.gather(*map(producer.send, messages))
        alone = await producer.send(messages[0])
    async with Producer("P", nameserver=cluster.namesrv, batch_bytes=0) as producer:
        unbatched = await producer.send(messages[0])
    found = await stored(cluster, topic)
    assert len(found) == 502
    for message, result in zip(messages, results, strict=True):
        there = found[result.message_id]
        assert (there.body, there.flag, there.tags, there.keys) == (
            message.body,
            message.flag,
            message.tags,
            [message.keys],
        )
        assert (there.queue_offset, there.offset_message_id) == (
            result.queue_offset,
            result.offset_message_id,
        )
        assert there.queue == result.queue
    kept = [
        {name: value for name, value in found[result.message_id].properties.items() if name != "UNIQ_KEY"}
        for result in (results[0], alone, unbatched)
    ]
    assert kept[0] == kept[1] == kept[2]


async def test_messages_of_a_key_stay_in_order_also_with_one_that_goes_alone(
    cluster: Cluster, topic: str
) -> None:
    make_topic(cluster, topic)
    async with Producer("P", nameserver=cluster.namesrv) as producer:
        large = b"z" * 9000  # is compressed, so it cannot share a request
        sends = [
            producer.send(
                Message(topic, (large if n % 50 == 7 else b"") + b"%06d" % n, sharding_key=f"key-{n % 5}")
            )
            for n in range(300)
        ]
        await asyncio.gather(*sends)
    seen: dict[str, list[int]] = defaultdict(list)
    for message in sorted((await stored(cluster, topic)).values(), key=lambda each: each.queue_offset):
        seen[message.properties["__SHARDINGKEY"]].append(int(message.body[-6:]))
    assert len(seen) == 5
    assert all(numbers == sorted(numbers) for numbers in seen.values())


async def test_one_that_is_wrong_harms_no_other(cluster: Cluster, topic: str) -> None:
    make_topic(cluster, topic)
    wrong = Message(topic, b"x", properties={"long": "x" * 40_000})
    async with Producer("P", nameserver=cluster.namesrv) as producer:
        outcomes = await asyncio.gather(
            *(producer.send(wrong if n == 5 else Message(topic, b"%d" % n)) for n in range(10)),
            return_exceptions=True,
        )
    assert isinstance(outcomes.pop(5), MessageTooLarge)
    assert all(isinstance(outcome, SendResult) for outcome in outcomes)
    assert len(await stored(cluster, topic)) == 9


async def test_what_cannot_be_in_a_batch_goes_alone() -> None:
    with stage() as broker:
        async with Producer("P", nameserver=broker.address) as producer:
            await asyncio.gather(
                *(producer.send(Message("T", b"x", delay_level=1)) for _ in range(3)),
                *(producer.send(Message("T", b"x", delay=5)) for _ in range(3)),
                *(producer.send(Message("T", b"x" * 5000)) for _ in range(3)),
            )
        assert (len(broker.asked(SINGLE)), broker.asked(BATCH)) == (9, [])
        async with Producer("P", nameserver=broker.address, batch_bytes=0) as producer:
            await asyncio.gather(*(producer.send(Message("T", b"x")) for _ in range(5)))
        assert (len(broker.asked(SINGLE)), broker.asked(BATCH)) == (14, [])


async def test_sends_that_come_within_the_linger_share_a_request() -> None:
    with stage() as broker:
        async with Producer("P", nameserver=broker.address, linger_ms=300) as producer:
            tasks = []
            for _ in range(5):
                tasks.append(asyncio.create_task(producer.send(Message("T", b"x"))))
                await asyncio.sleep(0.01)
            await asyncio.gather(*tasks)
        assert (len(broker.asked(BATCH)), broker.asked(SINGLE)) == (1, [])


async def test_a_batch_that_fails_fails_each_of_its_sends() -> None:
    with stage({BATCH: lambda command: None}) as broker:
        async with Producer(
            "P", nameserver=broker.address, send_timeout_s=0.3, close_timeout_s=0.2
        ) as producer:
            outcomes = await asyncio.gather(
                *(producer.send(Message("T", b"x")) for _ in range(5)), return_exceptions=True
            )
    assert all(isinstance(outcome, SendFailed) for outcome in outcomes)
    assert len({id(outcome) for outcome in outcomes}) == 5


async def test_a_batch_that_is_refused_is_sent_one_by_one() -> None:
    def refuse(command: Command) -> Command:
        return reply(command, 13, "not as a batch")

    with stage({BATCH: refuse}) as broker:
        async with Producer("P", nameserver=broker.address) as producer:
            results = await asyncio.gather(*(producer.send(Message("T", b"%d" % n)) for n in range(5)))
        assert len({result.message_id for result in results}) == 5
        assert [command.body for command in broker.asked(SINGLE)] == [b"%d" % n for n in range(5)]


@pytest.mark.parametrize("places", ["a,b,c", "a"])
def test_a_result_is_split_by_ids_and_offsets(places: str) -> None:
    queue = MessageQueue("T", "b", 1)
    whole = SendResult(SendStatus.SEND_OK, "1,2,3", places, queue, 7)
    each = split_result(whole, 3)
    assert [(one.message_id, one.queue_offset, one.queue) for one in each] == [
        ("1", 7, queue),
        ("2", 8, queue),
        ("3", 9, queue),
    ]
    assert [one.offset_message_id for one in each] == (["a", "b", "c"] if len(places) > 1 else ["a"] * 3)
