"""One queue in a consumer's hands: what was pulled and is not finished yet, and how far the group may commit.

Only the event loop changes it; threads that run listeners read `dropped` and `lock_held`.

Invariants: messages stand in the order of their offsets; `commit_offset` is the smallest unfinished one, so
whatever happens nothing behind it is lost; `taken` messages of an ordered queue are the first ones.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence

from rocketeer.client.core.received import ReceivedMessage
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue


class ProcessQueue:
    """Made when a queue is assigned, dropped when it is taken away or its offset is set anew."""

    def __init__(self, queue: MessageQueue, offset: QueueOffset, *, lock_until_s: float = math.inf) -> None:
        self.queue = queue
        self.next_offset = offset
        """Where the next pull begins."""
        self.dropped = False
        """No longer ours: listeners not started yet are not started, offsets are not committed any more."""
        self.lock_until_s = lock_until_s
        """Ordered consumption: until when the broker's lock is ours for sure."""
        self.broker_id = 0
        """Which broker of the name to read from, as the last reply suggested."""
        self.behind = 0
        """How many messages the last pull left at the broker."""
        self.bulk: bool | None = None
        """Whether its broker gives more than RocketMQ's caps at a time; None: it was not asked yet."""
        self.pull_committed_offset = offset
        """The newest one that a pull told the broker."""
        self.pull_committed_s = 0.0
        """When a pull told one (monotonic seconds)."""
        self.busy = False
        """Ordered consumption: a listener is at it, or it pauses before the next try."""
        self.pulled_ms = 0
        self.consumed_ms = 0
        self._order: deque[ReceivedMessage] = deque()
        self._finished: set[QueueOffset] = set()
        self._bytes = 0
        self._taken = 0

    # --- how much it holds -------------------------------------------------------------------

    @property
    def count(self) -> int:
        return len(self._order) - len(self._finished)

    @property
    def bytes(self) -> int:
        return self._bytes

    @property
    def span(self) -> int:
        """How far the newest message is ahead of the oldest unfinished one."""
        return self._order[-1].queue_offset - self._order[0].queue_offset if self._order else 0

    @property
    def min_offset(self) -> QueueOffset:
        return self._order[0].queue_offset if self._order else QueueOffset(0)

    @property
    def max_offset(self) -> QueueOffset:
        return self._order[-1].queue_offset if self._order else QueueOffset(0)

    @property
    def commit_offset(self) -> QueueOffset:
        """Everything before it is finished."""
        return self._order[0].queue_offset if self._order else self.next_offset

    # --- coming in and going out -------------------------------------------------------------

    def put(self, messages: Sequence[ReceivedMessage], next_offset: QueueOffset) -> None:
        """What a pull brought; the next one begins at `next_offset`."""
        order = self._order
        last = order[-1].queue_offset if order else -1
        held = 0
        for message in messages:
            offset = message.queue_offset
            assert offset > last, "a queue gives its messages in order"
            last = offset
            held += message.size
        self._bytes += held
        order.extend(messages)
        self.next_offset = QueueOffset(max(next_offset, last + 1))

    def finish(self, messages: Iterable[ReceivedMessage]) -> QueueOffset:
        """Consumed, or sent back; what may be committed now. Finishing a message twice changes nothing."""
        order, finished = self._order, self._finished
        for message in messages:
            if order and order[0] is message:  # mostly they finish in the order they came
                order.popleft()
                self._bytes -= message.size
                if not finished:
                    continue
                while finished and order and order[0].queue_offset in finished:
                    finished.discard(order.popleft().queue_offset)
            elif self.holds(message):
                finished.add(message.queue_offset)
                self._bytes -= message.size
        return self.commit_offset

    def holds(self, message: ReceivedMessage) -> bool:
        """True while the message is unfinished."""
        return message.queue_offset >= self.commit_offset and message.queue_offset not in self._finished

    def overdue(self, now_s: float, timeout_s: float, most: int = 16) -> list[ReceivedMessage]:
        """The oldest unfinished messages, as far as their listeners have run for too long."""
        found: list[ReceivedMessage] = []
        for message in self._order:
            if message.queue_offset in self._finished:
                continue
            if len(found) == most or not 0 < message.started_s < now_s - timeout_s:
                break
            found.append(message)
        return found

    # --- ordered consumption: from the front, and perhaps again -------------------------------

    @property
    def taken(self) -> int:
        """Handed to a listener and neither committed nor given back."""
        return self._taken

    @property
    def waiting(self) -> int:
        return len(self._order) - self._taken

    def take(self, most: int) -> list[ReceivedMessage]:
        """The next messages for the listener."""
        start = self._taken
        self._taken = min(start + most, len(self._order))
        return [self._order[at] for at in range(start, self._taken)]

    def give_back(self, count: int) -> None:
        """The last `count` of those taken come again."""
        assert 0 <= count <= self._taken, f"{count} of {self._taken} taken messages given back"
        self._taken -= count

    def commit(self) -> QueueOffset:
        """All taken messages are finished; what may be committed now."""
        for _ in range(self._taken):
            self._bytes -= self._order.popleft().size
        self._taken = 0
        return self.commit_offset

    def rollback(self) -> None:
        """All messages taken since the last commit come again."""
        self._taken = 0

    def lock_held(self, now_s: float) -> bool:
        return now_s < self.lock_until_s
