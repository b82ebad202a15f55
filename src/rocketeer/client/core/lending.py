"""Messages lent to a loop over a consumer: each counts as consumed when the next one is asked for.

So a loop that ends in the middle, or with an error, leaves the rest to whoever consumes next.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from rocketeer.client.core.process_queue import ProcessQueue
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.model.queue import MessageQueue


class Lent(NamedTuple):
    """A message, and the group's offset once it is consumed."""

    held: ProcessQueue
    message: ReceivedMessage
    after: int


def lend(held: ProcessQueue, most: int) -> list[Lent]:
    """Take the next messages out of a queue."""
    messages = held.take(most)
    end = held.commit()
    afters = [*(message.queue_offset for message in messages[1:]), end]
    return [Lent(held, message, after) for message, after in zip(messages, afters, strict=True)]


class Loan:
    """What a loop has in hand. One thread takes from it; `done` may be read by another."""

    def __init__(self) -> None:
        self._lent: deque[Lent] = deque()
        self._last: Lent | None = None
        self.done: dict[MessageQueue, int] = {}
        """Offsets up to which messages were consumed."""

    def add(self, lent: Iterable[Lent]) -> None:
        self._lent.extend(lent)

    def next(self) -> ReceivedMessage | None:
        """The next message; None when more must be lent. The one before counts as consumed."""
        self.settle()
        while self._lent:
            lent = self._lent.popleft()
            if not lent.held.dropped:  # else: let go, or the reader was sent elsewhere
                self._last = lent
                return lent.message
        return None

    def settle(self) -> None:
        """The last message is consumed too."""
        last, self._last = self._last, None
        if last is not None and not last.held.dropped:
            self.done[last.held.queue] = last.after
