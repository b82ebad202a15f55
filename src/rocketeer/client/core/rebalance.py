"""What a member takes up and lets go when queues or members change: a pure difference, carried out in aio."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from rocketeer.client.core.allocate import Strategy
from rocketeer.model.queue import MessageQueue


class Change(NamedTuple):
    """First let go, then take up: a queue that moved is in nobody's hands for a moment, never in two."""

    revoked: tuple[MessageQueue, ...]
    assigned: tuple[MessageQueue, ...]


def share_of(
    me: str, queues: Iterable[MessageQueue], clients: Iterable[str], strategy: Strategy
) -> frozenset[MessageQueue]:
    """The queues of one topic that are mine among these members. Sorted here, so that all members agree."""
    return frozenset(strategy(me, sorted(set(queues)), sorted(set(clients))))


def difference(topic: str, mine: Collection[MessageQueue], current: Iterable[MessageQueue]) -> Change:
    """From what this member holds to what it should hold of one topic; other topics are left alone."""
    held = {queue for queue in current if queue.topic == topic}
    return Change(tuple(sorted(held - set(mine))), tuple(sorted(set(mine) - held)))


def without_subscription(
    topics: Collection[str], current: Iterable[MessageQueue]
) -> tuple[MessageQueue, ...]:
    """Queues of topics that are not subscribed any more."""
    return tuple(sorted(queue for queue in current if queue.topic not in topics))
