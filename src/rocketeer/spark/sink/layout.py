"""Which queues an effectively-once write chooses from: the same ones in every attempt, whatever joins the cluster.

A row sent again must reach the broker that may have it. So the queues of a topic are noted with the name servers
when a write first meets the topic, in the KV namespace below:

    <producer>/<topic>  ->  {"from": 7, "queues": {"broker-a": 4}, "before": {"broker-a": 3}, "at": 1700000000000}

`producer` is a stream's query or a batch write. A stream takes a changed cluster up between two micro-batches: those
from number `from` on use `queues`, the one before it (which may be sent again) `before`.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from rocketeer.admin.plans.nameservers import delete_kv_anywhere, kv_namespace, kv_of_each, put_kv_anywhere
from rocketeer.errors import BrokerRefused, RocketeerError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.sink.client import SinkClient

NAMESPACE: Final = "ROCKETEER_SPARK_QUEUES"
KEEP_MS: Final = 30 * 86_400_000
"""A write nobody has heard of for so long is over."""
TOUCH_MS: Final = 86_400_000

QueueCounts = dict[str, int]
"""Queues to write to, by broker."""


class Layout(msgspec.Struct, omit_defaults=True):
    """One entry of the table of layouts: the queues that a write uses."""

    queues: QueueCounts
    at: int
    since: int = msgspec.field(default=0, name="from")
    before: QueueCounts | None = None

    def of(self, batch_id: int) -> QueueCounts:
        return self.before if batch_id < self.since and self.before is not None else self.queues


class NotSameQueues(RocketeerError):
    """A noted layout that cannot be read."""


_decoder: Final = msgspec.json.Decoder(Layout)


def listed(topic: str, queues: Mapping[str, int]) -> list[MessageQueue]:
    """The queues in the order every attempt sees."""
    return [
        MessageQueue(topic, broker, queue) for broker in sorted(queues) for queue in range(queues[broker])
    ]


async def settled_queues(client: SinkClient, producer: str, topic: str, batch_id: int) -> QueueCounts:
    """The queues of this write: those noted, or those there are now, noted for the next attempt."""
    key = f"{producer}/{topic}"
    noted = await _read(client, key)
    if noted is None:
        now_ms = client.clock.now_ms()
        await _write(client, key, Layout(await current_queues(client, topic), now_ms))
        await _forget_old(client, now_ms)
        # Another task may have been quicker: its entry is read by all, or ours is.
        noted = await _read(client, key)
        if noted is None:
            raise NotSameQueues(f"the name servers did not keep {key!r} in {NAMESPACE!r}")
    return noted.of(batch_id)


async def current_queues(client: SinkClient, topic: str) -> QueueCounts:
    counts: QueueCounts = {}
    for queue in await client.queues(topic):
        counts[queue.broker_name] = counts.get(queue.broker_name, 0) + 1
    return counts


async def take_up_changes(
    client: SinkClient, producer: str, topic: str, batch_id: int, used: QueueCounts
) -> None:
    """After a micro-batch: the next one uses the queues there are now."""
    key = f"{producer}/{topic}"
    now_ms = client.clock.now_ms()
    current = await current_queues(client, topic)
    if current != used:
        await _write(client, key, Layout(current, now_ms, batch_id + 1, used))
        return
    noted = await _read(client, key)
    if noted is None or noted.at < now_ms - TOUCH_MS:
        await _write(client, key, Layout(used, now_ms))


async def forget(client: SinkClient, producer: str, topic: str) -> None:
    """Delete the note: the write is over and nobody will send its rows again."""
    await client.driver.run(delete_kv_anywhere(client.context, NAMESPACE, f"{producer}/{topic}"))


async def _read(client: SinkClient, key: str) -> Layout | None:
    """The newest note of all name servers: one that was away when it was taken has an old one, or none."""
    values = await client.driver.run(kv_of_each(client.context, NAMESPACE, key))
    try:
        notes = [_decoder.decode(value) for value in values]
    except msgspec.DecodeError as error:
        raise NotSameQueues(
            f"{key!r} in {NAMESPACE!r} at the name servers is not what was noted: {error}"
        ) from None
    return max(notes, key=lambda note: (note.since, note.at), default=None)


async def _write(client: SinkClient, key: str, layout: Layout) -> None:
    value = msgspec.json.encode(layout).decode()
    await client.driver.run(put_kv_anywhere(client.context, NAMESPACE, key, value))


async def _forget_old(client: SinkClient, now_ms: int) -> None:
    try:
        noted = await client.driver.run(kv_namespace(client.context, NAMESPACE))
    except BrokerRefused:
        return  # the next write forgets them
    for key, value in noted.items():
        try:
            old = _decoder.decode(value).at < now_ms - KEEP_MS
        except msgspec.DecodeError:
            old = True
        if old:
            await client.driver.run(delete_kv_anywhere(client.context, NAMESPACE, key))
