"""Which queue a message goes to: in turn, or as a selector of the user's choice says.

A selector is any callable of (queues, message, arg) that returns one of the queues:

    producer.send(message, selector=by_hash, arg=order_id)      # messages of one order stay in order
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias
from zlib import crc32

from rocketeer.client.core.fault import FaultTable
from rocketeer.client.core.routes import TopicRoutes
from rocketeer.errors import ClientError
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue
from rocketeer.record.java_hash import java_hash

Selector: TypeAlias = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]
"""A callable of (queues, message, arg) that returns one of the queues; given to `send` as `selector=`."""


def by_hash(queues: Sequence[MessageQueue], message: Message, arg: Any = None) -> MessageQueue:
    """The queue of a key: `arg`, or the message's sharding key. The same one the Java client would choose."""
    key = message.sharding_key if arg is None else arg
    if key is None:
        raise ClientError("by_hash needs a key: give arg=..., or the message a sharding_key=")
    return queues[hash_index(key, len(queues))]


def by_random(queues: Sequence[MessageQueue], message: Message, arg: Any = None) -> MessageQueue:
    """Choose a queue at random."""
    return random.choice(queues)


def java_hash_code(key: object) -> int:
    """What Java's hashCode gives for the same key: a String, Integer, Long or Boolean.

    >>> java_hash_code("order-7"), java_hash_code(7), java_hash_code(1 << 32), java_hash_code(True)
    (-1207111304, 7, 1, 1231)
    """
    if isinstance(key, str):
        return java_hash(key)
    if isinstance(key, bool):
        return 1231 if key else 1237
    if isinstance(key, int):
        if -(1 << 31) <= key < 1 << 31:
            return key
        if -(1 << 63) <= key < 1 << 63:
            folded = (key ^ (key >> 32)) & 0xFFFFFFFF
            return folded - (1 << 32) if folded & 0x80000000 else folded
    raise ClientError(f"no hash that Java shares for {key!r}: use a text or a whole number")


def hash_index(key: object, count: int) -> int:
    """Which of `count` queues a key's messages go to: as Java's SelectMessageQueueByHash has it."""
    # Java's % takes the sign of the left side, Python's that of the right.
    return abs(java_hash_code(key)) % count


class QueueById:
    """Which queue a message with an id of its own goes to: always one of the same broker, which may know it already.

    The broker is chosen first, each by a number made of its name and the id, the highest wins: more queues change no
    id's broker, and one broker more takes over its share and leaves the others' ids where they are.

    >>> queues = [MessageQueue("T", f"broker-{name}", number) for name in "ab" for number in range(4)]
    >>> QueueById(queues).choose(7).broker_name == QueueById(queues[:-1]).choose(7).broker_name
    True
    """

    def __init__(self, queues: Sequence[MessageQueue]) -> None:
        assert queues
        self._queues = queues
        by_broker: dict[str, list[int]] = {}
        for at, queue in enumerate(queues):
            by_broker.setdefault(queue.broker_name, []).append(at)
        self._brokers = [(name.encode(), places) for name, places in sorted(by_broker.items())]

    @property
    def one_broker(self) -> bool:
        """Whether the place is simply the hash modulo the number of queues."""
        return len(self._brokers) == 1

    def index(self, hashed: int) -> int:
        """The place of the queue among all, for a hash of the id (64 bits count)."""
        number = (hashed & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")
        _, places = max(self._brokers, key=lambda broker: (crc32(number + broker[0]), broker[0]))
        return places[hashed % len(places)]

    def choose(self, hashed: int) -> MessageQueue:
        return self._queues[self.index(hashed)]


def next_queue(
    known: TopicRoutes, failed_broker: str | None = None, faults: FaultTable | None = None
) -> MessageQueue:
    """The next queue in turn, on another broker than the one that just failed if there is another.

    With a fault table: on a broker that is not to be kept away from, or else on one of the less bad.
    """
    queues = known.publish
    count = len(queues)
    assert count, "the caller has checked that there is a queue"
    if faults is not None:
        return _next_available(known, faults)
    if failed_broker is not None:
        for _ in range(count):
            queue = queues[known.next_index() % count]
            if queue.broker_name != failed_broker:
                return queue
    return queues[known.next_index() % count]


def _next_available(known: TopicRoutes, faults: FaultTable) -> MessageQueue:
    queues = known.publish
    start = known.next_index()
    for distance in range(len(queues)):
        queue = queues[(start + distance) % len(queues)]
        if faults.available(queue.broker_name):
            return queue
    broker = faults.least_bad()
    if broker is not None:
        own = [queue for queue in queues if queue.broker_name == broker]
        if own:
            return own[known.next_index() % len(own)]
        faults.forget(broker)
    return queues[known.next_index() % len(queues)]
