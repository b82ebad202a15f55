"""Messages handed to a loop over a consumer: each counts as consumed when the next one is asked for.

So a loop that ends in the middle, or with an error, leaves the rest to whoever consumes next.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from rocketeer.client.core.process_queue import ProcessQueue
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue


class Delivery(NamedTuple):
    """A message, and the group's offset once it is consumed."""

    held: ProcessQueue
    message: ReceivedMessage
    after: QueueOffset


def hand_out(held: ProcessQueue, most: int) -> list[Delivery]:
    """Take the next messages out of a queue."""
    messages = held.take(most)
    end = held.commit()
    afters = [*(message.queue_offset for message in messages[1:]), end]
    return [Delivery(held, message, after) for message, after in zip(messages, afters, strict=True)]


class IterationBuffer:
    """The messages a loop has yet to see. One thread takes from it; `done` may be read by another."""

    def __init__(self) -> None:
        self._deliveries: deque[Delivery] = deque()
        self._last: Delivery | None = None
        self.done: dict[MessageQueue, QueueOffset] = {}
        """Offsets up to which messages were consumed."""

    def add(self, deliveries: Iterable[Delivery]) -> None:
        self._deliveries.extend(deliveries)

    def next(self) -> ReceivedMessage | None:
        """The next message; None when more must be added. The one before counts as consumed."""
        self.settle()
        while self._deliveries:
            delivery = self._deliveries.popleft()
            if not delivery.held.dropped:  # else: let go, or the reader was sent elsewhere
                self._last = delivery
                return delivery.message
        return None

    def settle(self) -> None:
        """Count the last message as consumed."""
        last, self._last = self._last, None
        if last is not None and not last.held.dropped:
            self.done[last.held.queue] = last.after
