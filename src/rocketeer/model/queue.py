"""One queue of a topic on one broker: what rebalancing hands out and offsets are kept for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """Ordered by topic, broker name, queue id: members in any language must sort a group's queues alike."""

    topic: str
    broker_name: str
    queue_id: int
