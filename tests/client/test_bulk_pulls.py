"""Many messages wait: our broker is asked for several pulls' worth at a time, and nobody else is."""

from collections.abc import Callable
from typing import Any

import pytest

from rocketeer.aio import LitePullConsumer, Message, Producer, PushConsumer
from rocketeer.client.core.encoding import split_batch
from rocketeer.client.core.rpc_hooks import RpcContext
from rocketeer.client.plans.pull import BULK_FIELD
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.codes import RequestCode
from support.cluster import ServerCluster, chosen_make
from support.consuming import make_topic, names, options, until

COUNT = 1000


class Pulls:
    """Sees all pulls of a consumer; `before` may change them."""

    def __init__(self, before: Callable[[dict[str, str]], object] = lambda fields: None) -> None:
        self.asked: list[int] = []
        self.found: list[int] = []
        self._before = before

    def before_request(self, context: RpcContext) -> None:
        if context.code == RequestCode.PULL_MESSAGE and not context.fields["topic"].startswith("%"):
            self.asked.append(int(context.fields["maxMsgNums"]))
            self._before(context.fields)

    def after_reply(self, context: RpcContext) -> None:
        if context.code == RequestCode.PULL_MESSAGE and context.reply is not None and context.reply.body:
            fields = context.fields
            self.found.append(int(context.reply.ext["nextBeginOffset"]) - int(fields["queueOffset"]))


async def fill(cluster: ServerCluster, topic: str, **fields: Any) -> None:
    make_topic(cluster, topic, queues=1)
    messages = [Message(topic, text.encode(), **fields) for text in names(COUNT)]
    async with Producer("senders", nameserver=cluster.namesrv) as producer:
        for part in split_batch(messages, bytes_max=1 << 18):
            await producer.send(part)


async def consumed(
    cluster: ServerCluster, topic: str, pulls: Pulls, tags: str = "*", **more: Any
) -> list[str]:
    """What a listener got of one queue, in the order it was stored."""
    got: dict[int, str] = {}
    consumer = PushConsumer(f"G-{topic}", rpc_hooks=[pulls], **options(cluster, **more))

    @consumer.subscribe(topic, tags=tags)
    async def take(message: Any) -> None:
        got[message.queue_offset] = message.text

    async with consumer:
        # With the pull behind the last that found something.
        await until(lambda: len(got) >= COUNT and len(pulls.asked) > len(pulls.found))
    return [got[offset] for offset in sorted(got)]


@pytest.mark.skipif(chosen_make() == "apache", reason="it gives 32 at a time")
async def test_a_queue_far_behind_comes_in_large_pulls(cluster: ServerCluster, topic: str) -> None:
    await fill(cluster, topic)
    pulls = Pulls()
    assert await consumed(cluster, topic, pulls) == names(COUNT)
    assert pulls.found[:2] == [32, 32], (
        "first as RocketMQ's clients do, then the broker is asked whether it can"
    )
    assert max(pulls.found) == max(pulls.asked) == 8 * 32
    assert pulls.asked[-1] == 32, "with nothing behind a pull is as all others"
    assert sum(pulls.found) == COUNT


@pytest.mark.skipif(chosen_make() == "apache", reason="it gives 32 at a time")
async def test_large_pulls_serve_a_lite_pull_consumer_in_order(cluster: ServerCluster, topic: str) -> None:
    await fill(cluster, topic)
    pulls = Pulls()
    got: list[str] = []
    consumer = LitePullConsumer(f"G-{topic}", rpc_hooks=[pulls], **options(cluster))
    await consumer.assign([MessageQueue(topic, "broker-a", 0)])
    async with consumer:
        while len(got) < COUNT:
            got += [message.text for message in await consumer.poll(timeout_s=20)]
    assert got == names(COUNT)
    assert max(pulls.found) == 8 * 32


async def test_a_broker_that_does_not_know_large_pulls_is_asked_for_no_more_than_before(
    cluster: ServerCluster, topic: str
) -> None:
    await fill(cluster, topic)
    pulls = Pulls(before=lambda fields: fields.pop(BULK_FIELD, None))  # as if it had not been read
    assert await consumed(cluster, topic, pulls) == names(COUNT)
    assert set(pulls.asked) == {32}


@pytest.mark.parametrize(
    ("tags", "more"),
    [("*", {"pull_interval_s": 0.001}), ("wanted", {})],
    ids=["pausing", "tags"],
)
async def test_others_are_served_pull_by_pull(
    cluster: ServerCluster, topic: str, tags: str, more: dict[str, Any]
) -> None:
    await fill(cluster, topic, tags="wanted")
    asked_in_bulk: list[str] = []
    pulls = Pulls(before=lambda fields: asked_in_bulk.append(fields.get(BULK_FIELD, "")))
    assert await consumed(cluster, topic, pulls, tags, **more) == names(COUNT)
    assert set(asked_in_bulk) == {""}
    assert set(pulls.asked) == {32}
