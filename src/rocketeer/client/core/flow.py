"""When a queue has enough: pulling waits while listeners are behind, so memory stays flat."""

from dataclasses import dataclass
from typing import Final

from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.process_queue import ProcessQueue

BULK_BATCHES: Final = 8
"""Most batches of `pull_batch` messages that are asked for at a time, of a broker that gives them."""


@dataclass(frozen=True, slots=True)
class PullLimits:
    """How much one queue may hold. A topic's limits are shared evenly by its queues in this member's hands."""

    messages: int
    bytes: int
    span: int | None

    @classmethod
    def of(cls, config: ConsumerConfig, *, ordered: bool, queues_of_topic: int) -> "PullLimits":
        share = max(queues_of_topic, 1)
        messages, size = config.queue_messages_max, config.queue_bytes_max
        if config.topic_messages_max > 0:
            messages = max(1, config.topic_messages_max // share)
        if config.topic_bytes_max > 0:
            size = max(1, config.topic_bytes_max // share)
        # Ordered queues finish from the front: their span says nothing.
        return cls(messages, size, None if ordered else config.span_max)

    def reason_to_wait(self, held: ProcessQueue) -> str | None:
        """Why the next pull must wait; None when it need not."""
        if held.count > self.messages:
            return f"{held.count} unfinished messages, limit {self.messages}"
        if held.bytes > self.bytes:
            return f"{held.bytes} bytes of unfinished messages, limit {self.bytes}"
        if self.span is not None and held.span > self.span:
            return f"offsets {held.min_offset} to {held.max_offset} unfinished, limit {self.span}"
        return None

    def to_ask_for(self, held: ProcessQueue, pull_batch: int) -> int:
        """How many messages the next pull may ask a broker for that gives many at a time.

        `pull_batch` as long as nothing waits; else as many as wait, up to the queue's limit.
        """
        room = min(self.messages - held.count, held.behind, BULK_BATCHES * pull_batch)
        return max(room, pull_batch)
