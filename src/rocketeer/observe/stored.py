"""How many messages and bytes came into each topic since the start, read off the ends of its queues.

Storing counts nothing: a queue's end says how many messages it got, and its entries say how large they are. Sizes are
added up behind the writers, in slices from `catch_up`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

import numpy as np

from rocketeer.model.offsets import QueueOffset
from rocketeer.steps import Steps
from rocketeer.store.queue_entry import ENTRY_BYTES, ENTRY_COLUMNS
from rocketeer.store.read_queue import ReadQueue

READ_ENTRIES: Final = 8_192
"""Looked at in one step: some 50 us."""
QUEUES_AT_ONCE: Final = 256
"""Passed by in one step, of those that have nothing new."""
TOPICS_AT_ONCE: Final = 64
"""Whose queues are looked at in one step, for those that are gone."""
SIZE_BUCKETS: Final = (1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20)


class QueueTablePort(Protocol):
    """What is asked of the store's table of queues."""

    def walk(self) -> Iterator[ReadQueue]:
        """One after the other, while queues come and go."""
        ...

    def of_topic(self, topic: str) -> Mapping[int, ReadQueue]:
        """Its queues by id."""
        ...


class _Seen:
    """One queue's state since it was first seen."""

    __slots__ = ("bytes", "queue", "seen", "start")

    def __init__(self, queue: ReadQueue, start: int) -> None:
        self.queue = queue
        self.start = start
        self.seen = start
        """Entries below it are in `bytes`."""
        self.bytes = 0


class StoredTopics:
    """Counts messages and bytes by topic since the start. Belongs to the loop thread, as the queues do."""

    def __init__(self, queues: QueueTablePort) -> None:
        """`queues` are those of the store; made anew after a topic was deleted."""
        self._queues = queues
        self._seen: dict[str, dict[int, _Seen]] = {}
        """By topic and queue id."""
        self._round: Iterator[_Seen | None] | None = None
        self._at: _Seen | None = None
        """The queue that the round is at."""
        self.sizes = [0] * (len(SIZE_BUCKETS) + 1)
        """Messages by size: up to each of SIZE_BUCKETS, and larger ones."""
        self.sizes_sum = 0

    def start(self) -> None:
        """Begin to count: what the queues hold now was there before."""
        self._seen = {}
        for queue in self._queues.walk():
            self._seen.setdefault(queue.topic, {})[queue.queue_id] = _Seen(queue, queue.max_offset)

    # --- asking ------------------------------------------------------------------------------

    def messages(self) -> Steps[dict[str, int]]:
        """Messages since the start, by topic; topics that got none are left out."""
        counts: dict[str, int] = {}
        for found in self.each():
            if found is not None and found[1]:
                counts[found[0]] = counts.get(found[0], 0) + found[1]
            yield
        return counts

    def bytes(self) -> Steps[dict[str, int]]:
        """Bytes of the records that were looked at since the start, by topic."""
        sizes: dict[str, int] = {}
        for found in self.each():
            if found is not None and found[2]:
                sizes[found[0]] = sizes.get(found[0], 0) + found[2]
            yield
        return sizes

    def of(self, topic: str) -> Steps[tuple[int, int]]:
        """Messages and bytes of one topic since the start."""
        messages = size = 0
        for number, queue in enumerate(list(self._queues.of_topic(topic).values()), 1):
            if self._queues.of_topic(topic).get(queue.queue_id) is queue:
                seen = self._seen_of(queue)
                messages += queue.max_offset - seen.start
                size += seen.bytes
            if number % QUEUES_AT_ONCE == 0:
                yield
        return messages, size

    def each(self) -> "Iterator[tuple[str, int, int] | None]":
        """Topic, messages and bytes of one queue after the other, for whoever adds up in steps; None after a step
        that found none."""
        for seen in self._all():
            if seen is None:
                yield None
            else:
                yield seen.queue.topic, seen.queue.max_offset - seen.start, seen.bytes

    # --- keeping up --------------------------------------------------------------------------

    def catch_up(self, is_over: Callable[[], bool]) -> bool:
        """Add up the sizes of new messages until `is_over`; True when there are none left.

        What was left over comes first the next time.
        """
        if self._round is None:
            self._round = self._all()
        passed = 0
        while True:
            if self._at is None:
                try:
                    self._at = next(self._round)
                except StopIteration:
                    self._round = None
                    return True
                if self._at is None:
                    if is_over():
                        return False
                    continue
            if self._at.seen >= self._at.queue.max_offset:
                self._at = None
                passed += 1
                if passed % QUEUES_AT_ONCE == 0 and is_over():
                    return False
                continue
            self._step(self._at)
            if is_over():
                return False

    def _step(self, seen: _Seen) -> None:
        queue = seen.queue
        first = max(
            QueueOffset(seen.seen), queue.min_offset
        )  # what expired in the meantime is not there any more
        count = min(READ_ENTRIES, queue.max_offset - first)
        raw = queue.read(first, count) if count > 0 else b""
        sizes = np.frombuffer(raw, ENTRY_COLUMNS, len(raw) // ENTRY_BYTES)["size"].astype(np.int64)
        total = int(sizes.sum())
        seen.bytes += total
        self.sizes_sum += total
        counted = 0
        for place, bound in enumerate(SIZE_BUCKETS):
            upto = int(np.count_nonzero(sizes <= bound))
            self.sizes[place] += upto - counted
            counted = upto
            if upto == len(sizes):
                break
        self.sizes[-1] += len(sizes) - counted
        # A read ends with its file, and entries that cannot be read are passed over.
        seen.seen = first + (len(sizes) or max(count, 1))

    def _all(self) -> "Iterator[_Seen | None]":
        """Every queue there is now. One that was made anew since begins anew, those that are gone are forgotten."""
        for number, topic in enumerate(list(self._seen), 1):
            self._forget_gone(topic)
            if number % TOPICS_AT_ONCE == 0:
                yield None
        for queue in self._queues.walk():
            yield self._seen_of(queue)

    def _forget_gone(self, topic: str) -> None:
        seen, queues = self._seen.get(topic, {}), self._queues.of_topic(topic)
        if not queues:
            self._seen.pop(topic, None)
            return
        for queue_id in [queue_id for queue_id in seen if queue_id not in queues]:
            del seen[queue_id]

    def _seen_of(self, queue: ReadQueue) -> _Seen:
        of_topic = self._seen.get(queue.topic)
        if of_topic is None:
            of_topic = self._seen[queue.topic] = {}
        seen = of_topic.get(queue.queue_id)
        if seen is None or seen.queue is not queue:
            seen = of_topic[queue.queue_id] = _Seen(queue, queue.min_offset)
        return seen
