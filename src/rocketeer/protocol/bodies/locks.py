"""Queues a consumer locks (41) and unlocks (42) for ordered consumption, as JSON."""

from collections.abc import Iterable
from dataclasses import dataclass

from rocketeer.model.java_types import I32, java
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_as, loading_request
from rocketeer.steps import Steps


@dataclass(frozen=True, slots=True)
class LockRequest:
    """A client's wish to own, or to let go of, queues of its group."""

    consumer_group: str
    client_id: str
    queues: frozenset[MessageQueue]


class QueueWire(Wire):
    """A message queue under Java's names."""

    broker_name: str
    queue_id: I32
    topic: str


class _LockRequestWire(Wire):
    consumer_group: str
    client_id: str
    mq_set: list[QueueWire] | None = None


class _LockReplyWire(Wire):
    locked: list[QueueWire] | None = java("lockOKMQSet", None)


_request_decoder = decoder(_LockRequestWire)
_reply_decoder = decoder(_LockReplyWire)


def _to_wire(queues: Iterable[MessageQueue]) -> list[QueueWire]:
    return [QueueWire(queue.broker_name, queue.queue_id, queue.topic) for queue in queues]


def _from_wire(wires: list[QueueWire] | None) -> frozenset[MessageQueue]:
    return frozenset(MessageQueue(wire.topic, wire.broker_name, wire.queue_id) for wire in wires or ())


def encode_lock_request(request: LockRequest) -> bytes:
    return encode(
        _LockRequestWire(request.consumer_group, request.client_id, _to_wire(sorted(request.queues)))
    )


class LockParts:
    """A lock request whose queues are read in portions: there may be many."""

    def __init__(self, wire: _LockRequestWire) -> None:
        self.consumer_group = wire.consumer_group
        self.client_id = wire.client_id
        self._queues = wire.mq_set or []

    @property
    def queue_count(self) -> int:
        return len(self._queues)

    @property
    def longest_name(self) -> int:
        """Characters of the longest name of a topic or a broker."""
        return max([max(len(wire.topic), len(wire.broker_name)) for wire in self._queues], default=0)

    def queues(self, start: int, end: int) -> list[MessageQueue]:
        return [MessageQueue(wire.topic, wire.broker_name, wire.queue_id) for wire in self._queues[start:end]]


def opening_lock_request(data: bytes) -> Steps[LockParts]:
    return LockParts((yield from loading_request(_request_decoder, data)))


def encode_locked_queues(queues: Iterable[MessageQueue]) -> bytes:
    """The answer to 41: the queues the client owns now."""
    return encode(_LockReplyWire(_to_wire(queues)))


def decode_locked_queues(data: bytes) -> frozenset[MessageQueue]:
    return _from_wire(load_as(_reply_decoder, data).locked)
