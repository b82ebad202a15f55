"""One queue of a topic on one broker: what rebalancing hands out and offsets are kept for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """Ordered by topic, broker name, queue id: members in any language must sort a group's queues alike."""

    topic: str
    """The topic it is a part of."""
    broker_name: str
    """The broker that has it: a master and its slaves have one name."""
    queue_id: int
    """0 .. n - 1 within its topic and broker."""
