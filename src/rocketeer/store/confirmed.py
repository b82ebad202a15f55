"""Reading no further than what is confirmed: in a group, what lies behind may yet be cut off, and nobody may see it.

Queues are in the order of the log, so a bound of the log is a bound of each queue; where it lies is looked for from
the queue's end. The parts that read are given
queues that end there; a store without a group has none of this.
"""

from collections.abc import Callable, Collection
from heapq import heappop, heappush
from typing import Final

from rocketeer.answers import AnswersInOrder, Schedule, at_once
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.record.layout import StoredMessage
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.consume_queue import ConsumeQueue
from rocketeer.store.filtered import RecordTest
from rocketeer.store.get import Accepts, Fetched, GetStatus, QueueReader
from rocketeer.store.index import Index
from rocketeer.store.lookup import Lookup
from rocketeer.store.queue_entry import QueueEntry
from rocketeer.store.queue_table import QueueTable
from rocketeer.store.read_queue import ReadQueue

UNBOUNDED: Final = LogOffset(1 << 62)


class BoundedQueue:
    """A queue that ends at the bound."""

    def __init__(self, queue: ConsumeQueue, end: QueueOffset) -> None:
        self._queue = queue
        self.max_offset = end
        self.topic, self.queue_id, self.min_offset = queue.topic, queue.queue_id, queue.min_offset
        self.unit, self.put_right = queue.unit, queue.put_right

    @property
    def real_end(self) -> QueueOffset:
        return self._queue.max_offset

    def read(self, offset: QueueOffset, count: int) -> bytes:
        return self._queue.read(offset, max(0, min(count, self.max_offset - offset)))

    def entry(self, offset: QueueOffset) -> QueueEntry | None:
        return self._queue.entry(offset) if offset < self.max_offset else None

    def offset_by_time(self, store_ms: int, store_ms_of: Callable[[LogOffset, int], int]) -> QueueOffset:
        found = self._queue.offset_by_time(store_ms, store_ms_of)
        return max(self.min_offset, min(found, QueueOffset(self.max_offset - 1)))


class ConfirmedBound:
    """Up to where the log may be read. Belongs to the loop thread; stands in for the table of queues."""

    def __init__(self, queues: QueueTable, schedule: Schedule = at_once) -> None:
        """`schedule`: a hundred thousand queues may get messages between two acknowledgements."""
        self.queues = queues
        self.limit = UNBOUNDED
        self.on_advanced: list[Callable[[], None]] = []
        self._arrived: list[tuple[LogOffset, tuple[str, int]]] = []
        """A heap of queues that got messages, each once, with where in the log one of these ends."""
        self._noted: set[tuple[str, int]] = set()
        """The same, to look them up."""
        self._answers = AnswersInOrder(self._tell_next, schedule)
        self._tell: list[tuple[Collection[tuple[str, int]], Callable[[str, int, QueueOffset], None]]] = []

    @property
    def entries_per_file(self) -> int:
        return self.queues.entries_per_file

    def get(self, topic: str, queue_id: int) -> ReadQueue | None:
        queue = self.queues.get(topic, queue_id)
        return None if queue is None else self.bounded(queue)

    def bounded(self, queue: ConsumeQueue) -> ReadQueue:
        end = self.end(queue)
        return queue if end == queue.max_offset else BoundedQueue(queue, end)

    def end(self, queue: ConsumeQueue) -> QueueOffset:
        """Behind the last entry whose message lies below the bound."""
        end, limit = queue.max_offset, self.limit
        if limit >= UNBOUNDED or end <= queue.min_offset or _is_below(queue, QueueOffset(end - 1), limit):
            return end
        # The bound is near the end nearly always: steps that double, then halves.
        step, low, high = 1, QueueOffset(end - 1), end
        while low > queue.min_offset and not _is_below(queue, low, limit):
            high, low, step = low, max(queue.min_offset, QueueOffset(low - step)), 2 * step
        if not _is_below(queue, low, limit):
            return low
        while high - low > 1:
            middle = QueueOffset((low + high) // 2)
            low, high = (middle, high) if _is_below(queue, middle, limit) else (low, middle)
        return high

    def admits(self, message: StoredMessage) -> bool:
        return message.log_offset + message.size <= self.limit

    # --- who waits for messages --------------------------------------------------------------

    def listener(
        self, awaited: Collection[tuple[str, int]], told: Callable[[str, int, QueueOffset], None]
    ) -> Callable[[str, int, QueueOffset], None]:
        """A listener for arrivals; `told` hears of them when they are confirmed."""
        self._tell.append((awaited, told))
        return self._arrival

    def _arrival(self, topic: str, queue_id: int, max_offset: QueueOffset) -> None:
        key = topic, queue_id
        queue = self.queues.get(topic, queue_id)  # it may have gone with the same part of the log
        if queue is not None and key not in self._noted:
            self._note(key, queue.max_log_offset)

    def _note(self, key: tuple[str, int], message_end: LogOffset) -> None:
        self._noted.add(key)
        heappush(self._arrived, (message_end, key))

    def _end_of(self, entry: QueueEntry | None) -> LogOffset:
        """The log offset behind the entry's message; just beyond the bound if that is unknown."""
        return LogOffset(self.limit + 1 if entry is None or entry.is_blank else entry.log_offset + entry.size)

    def advance(self, limit: LogOffset) -> None:
        """Raise the bound to `limit` and report the arrivals below it."""
        self.limit = limit
        for advanced in self.on_advanced:
            advanced()
        self._answers.go_on()

    def _tell_next(self) -> bool:
        """Report the next queue whose arrivals are confirmed; False when there is none."""
        arrived = self._arrived
        if not arrived or arrived[0][0] > self.limit:
            return False
        _, key = heappop(arrived)
        self._noted.discard(key)
        queue = self.queues.get(*key)
        if queue is not None:
            end = self.end(queue)
            if end < queue.max_offset:
                self._note(key, self._end_of(queue.entry(end)))
            for awaited, told in self._tell:
                if key in awaited:
                    told(*key, end)
        return True


def _is_below(queue: ConsumeQueue, offset: QueueOffset, limit: LogOffset) -> bool:
    entry = queue.entry(offset)
    return entry is None or entry.log_offset + entry.size <= limit


class BoundedReader(QueueReader):
    """A reader whose offset is beyond the bound waits there; it is never sent to another offset."""

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: QueueOffset,
        max_count: int,
        accepts: Accepts | None = None,
        matches: RecordTest | None = None,
        large_bytes: int | None = None,
    ) -> Fetched:
        queue = self._queue(topic, queue_id)
        if isinstance(queue, BoundedQueue) and queue.max_offset <= offset <= queue.real_end:
            return Fetched(GetStatus.OFFSET_OVERFLOW_ONE, offset, queue.min_offset, queue.max_offset)
        return super().get(topic, queue_id, offset, max_count, accepts, matches, large_bytes)


class ConfirmedLog:
    """The log for those who copy it and do not count: a slave that reads along has no way to cut its own."""

    def __init__(self, log: CommitLog, bound: ConfirmedBound) -> None:
        self._log = log
        self._bound = bound
        self.segment_bytes = log.segment_bytes

    @property
    def min_offset(self) -> LogOffset:
        return self._log.min_offset

    @property
    def max_offset(self) -> LogOffset:
        return min(self._log.max_offset, self._bound.limit)

    def read(self, offset: LogOffset, size: int) -> memoryview | None:
        return self._log.read(offset, size) if offset + size <= self.max_offset else None


class ConfirmedLookup(Lookup):
    """Finds no messages but confirmed ones."""

    def __init__(
        self, log: CommitLog, bound: ConfirmedBound, index: Index | None, *, query_count_max: int
    ) -> None:
        super().__init__(log, bound, index, query_count_max=query_count_max)
        self._bound = bound

    def message_at(self, log_offset: LogOffset) -> StoredMessage | None:
        message = super().message_at(log_offset)
        return message if message is not None and self._bound.admits(message) else None
