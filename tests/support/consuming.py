"""What tests of consumers share: topics with something in them, and waiting for what must happen."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any

from rocketeer.aio import Message, Producer
from rocketeer.bench.control import Control
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import ConsumeFromWhere
from support.cluster import ServerCluster

WAIT_S = 40
"""What must happen happens in a second; the machine may be busy."""
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def options(cluster: ServerCluster, **more: Any) -> dict[str, Any]:
    """Offsets are stored at once, and rebalancing happens on notices only: no test waits for a timer."""
    return {
        "nameserver": cluster.namesrv,
        "consume_from": FIRST,
        "commit_interval_s": 0.1,
        "rebalance_s": 600.0,
        "pull_hold_s": 5.0,
        **more,
    }


def make_topic(cluster: ServerCluster, topic: str, queues: int = 4) -> list[MessageQueue]:
    with Control(cluster.broker) as broker:
        broker.create_topic(topic, queues=queues)
    return [MessageQueue(topic, "broker-a", number) for number in range(queues)]


async def send(
    cluster: ServerCluster, topic: str, bodies: Iterable[str], *, queue_id: int | None = None, **fields: Any
) -> None:
    """One message per body, in turn over the queues or all to one."""
    async with Producer("senders", nameserver=cluster.namesrv, send_timeout_s=60) as producer:
        for body in bodies:
            queue = None if queue_id is None else MessageQueue(topic, "broker-a", queue_id)
            await producer.send(Message(topic, body.encode(), **fields), queue=queue)


def names(count: int, prefix: str = "m") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


async def until(condition: Callable[[], bool], what: str = "", timeout_s: float = WAIT_S) -> float:
    """Wait for it; the seconds it took."""
    began_s = time.monotonic()
    while not condition():
        assert time.monotonic() - began_s < timeout_s, f"not within {timeout_s:g} s: {what}"
        await asyncio.sleep(0.01)
    return time.monotonic() - began_s


def until_sync(condition: Callable[[], bool], what: str = "", timeout_s: float = WAIT_S) -> float:
    began_s = time.monotonic()
    while not condition():
        assert time.monotonic() - began_s < timeout_s, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.01)
    return time.monotonic() - began_s


def dead_letters(cluster: ServerCluster, group: str) -> int:
    """How many messages the group has given up."""
    with Control(cluster.broker) as broker:
        return broker.max_offset(f"%DLQ%{group}", 0)


def stored_count(cluster: ServerCluster, topic: str, queues: int = 4) -> int:
    """How many messages the topic's queues show."""
    with Control(cluster.broker) as broker:
        return sum(broker.max_offset(topic, queue_id) for queue_id in range(queues))


def wait_stored(cluster: ServerCluster, topic: str, count: int, queues: int = 4) -> None:
    """Wait until so many are there, and no more: Apache's broker answers first and shows messages a little later."""
    until_sync(lambda: stored_count(cluster, topic, queues) >= count, f"{count} messages in {topic}")
    assert stored_count(cluster, topic, queues) == count
