"""How many messages and bytes came into each topic since the start, read off the ends of its queues.

Storing counts nothing: a queue's end says how many messages it got, and its entries say how large they are. Sizes are
added up behind the writers, in slices from `catch_up`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

import numpy as np

from rocketeer.model.offsets import QueueOffset
from rocketeer.steps import Steps

ENTRY: Final = np.dtype([("log_offset", ">i8"), ("size", ">i4"), ("tag_code", ">i8")])
assert ENTRY.itemsize == 20, "an entry of a consume queue"
READ_ENTRIES: Final = 8_192
"""Looked at in one step: some 50 us."""
QUEUES_AT_ONCE: Final = 256
"""Passed by in one step, of those that have nothing new."""
SIZE_BUCKETS: Final = (1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20)

Key = tuple[str, int]


class Queue(Protocol):
    """What is asked of a consume queue."""

    @property
    def min_offset(self) -> QueueOffset: ...

    @property
    def max_offset(self) -> QueueOffset: ...

    def read(self, offset: QueueOffset, count: int) -> bytes:
        """Entries from `offset` on, at most `count`, as their bytes."""
        ...


class Queues(Protocol):
    """What is asked of the store's table of queues: a dict, of which new keys stand last."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Key]: ...

    def __reversed__(self) -> Iterator[Key]: ...

    def __contains__(self, key: object, /) -> bool: ...

    def __getitem__(self, key: Key, /) -> Queue: ...

    def get(self, key: Key, /) -> Queue | None: ...


class _Seen:
    """One queue since it was first seen."""

    __slots__ = ("bytes", "queue", "seen", "start")

    def __init__(self, queue: Queue, start: int) -> None:
        self.queue = queue
        self.start = start
        self.seen = start
        """Entries below it are in `bytes`."""
        self.bytes = 0


class StoredTopics:
    """Belongs to the loop thread, as the queues do."""

    def __init__(self, queues: Queues) -> None:
        """`queues` are those of the store, by topic and id; made anew after a topic was deleted."""
        self._queues = queues
        self._seen: dict[Key, _Seen] = {}
        self._round: Iterator[tuple[Key, _Seen]] | None = None
        self._at: _Seen | None = None
        """The queue that the round is at."""
        self._by_topic: dict[str, dict[Key, None]] = {}
        self._indexed = 0
        """So many keys are in it, some of them of queues that are gone."""
        self._last: tuple[Key, Queue] | None = None
        """The newest of them: those behind it in `queues` are not in it yet."""
        self.sizes = [0] * (len(SIZE_BUCKETS) + 1)
        """Messages by size: up to each of SIZE_BUCKETS, and larger ones."""
        self.sizes_sum = 0

    def start(self) -> None:
        """What the queues hold now was there before."""
        self._seen = {
            key: _Seen(queue, queue.max_offset) for key in self._queues for queue in (self._queues[key],)
        }

    # --- asking ------------------------------------------------------------------------------

    def messages(self) -> Steps[dict[str, int]]:
        """Messages since the start, by topic; topics that got none are left out."""
        counts: dict[str, int] = {}
        for topic, count, _ in self.each():
            if count:
                counts[topic] = counts.get(topic, 0) + count
            yield
        return counts

    def bytes(self) -> Steps[dict[str, int]]:
        """Bytes of the records that were looked at since the start, by topic."""
        sizes: dict[str, int] = {}
        for topic, _, size in self.each():
            if size:
                sizes[topic] = sizes.get(topic, 0) + size
            yield
        return sizes

    def of(self, topic: str) -> tuple[int, int]:
        """Messages and bytes of one topic since the start."""
        messages = size = 0
        for key in self._keys_of(topic):
            seen = self._seen_of(key)
            if seen is not None:
                messages += seen.queue.max_offset - seen.start
                size += seen.bytes
        return messages, size

    def each(self) -> "Iterator[tuple[str, int, int]]":
        """Topic, messages and bytes of one queue after the other: for whoever adds up in steps."""
        for (topic, _), seen in self._all():
            yield topic, seen.queue.max_offset - seen.start, seen.bytes

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
                entry = next(self._round, None)
                if entry is None:
                    self._round = None
                    return True
                self._at = entry[1]
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
        sizes = np.frombuffer(raw, ENTRY, len(raw) // ENTRY.itemsize)["size"].astype(np.int64)
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

    def _all(self) -> "Iterator[tuple[Key, _Seen]]":
        """Every queue there is now. One that was made anew since begins anew, those that are gone are forgotten."""
        queues, known = self._queues, self._seen
        if len(known) > len(queues):
            for key in [key for key in known if key not in queues]:
                del known[key]
        for key in list(queues):
            seen = self._seen_of(key)
            if seen is not None:
                yield key, seen

    def _seen_of(self, key: Key) -> _Seen | None:
        queue = self._queues.get(key)
        if queue is None:  # gone while somebody walked over the queues
            return None
        seen = self._seen.get(key)
        if seen is None or seen.queue is not queue:
            seen = self._seen[key] = _Seen(queue, queue.min_offset)
        return seen

    def _keys_of(self, topic: str) -> "Iterable[Key]":
        self._index()
        return self._by_topic.get(topic, ())

    def _index(self) -> None:
        """Take in the queues that are new: they stand behind those that were there."""
        queues = self._queues
        if self._indexed > 2 * len(queues):
            self._by_topic, self._indexed, self._last = {}, 0, None
        new = []
        for key in reversed(queues):
            if self._last is not None and key == self._last[0] and queues[key] is self._last[1]:
                break
            new.append(key)
        else:
            self._by_topic, self._indexed = {}, 0  # the last one is gone: begin anew
        if new:
            self._last = new[0], queues[new[0]]
            self._indexed += len(new)
            for key in reversed(new):
                self._by_topic.setdefault(key[0], {})[key] = None
