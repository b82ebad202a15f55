"""How far behind each group is on each topic it has consumed: read from offsets, queues and what pulls got."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from rocketeer.broker.topics import TopicTable
from rocketeer.model.offsets import QueueOffset
from rocketeer.observe.counters import Counters
from rocketeer.steps import Steps
from rocketeer.store.read_queue import ReadQueue

PAIRS_MAX: Final = 100_000
"""Most pairs on a page, those that committed first: anybody may commit offsets for any name."""
QUEUES_AT_ONCE: Final = 256
TIMES_MAX: Final = 1 << 14
"""Most store times that are remembered."""


StoreMs = Callable[[str, int, QueueOffset], int]
"""When the message at a queue's offset was stored; below 0 if it is not there any more."""


class OffsetPairs(Protocol):
    """What is asked of the table of consumers' offsets."""

    def pairs(self) -> Iterator[tuple[str, str, Mapping[int, QueueOffset]]]:
        """Topic, group and its offset by queue."""
        ...


class Queues(Protocol):
    """The queues as readers see them: in a group they end at what is confirmed."""

    def get(self, topic: str, queue_id: int) -> ReadQueue | None: ...


@dataclass(slots=True)
class Lag:
    """One group on one topic. Times are the store times of messages; 0 when there is no such message."""

    topic: str
    group: str
    ends: int = 0
    """The sum of the queues' ends."""
    consumed: int = 0
    messages: int = 0
    inflight: int = 0
    ready: int = 0
    unconsumed_ms: int = 0
    """When the oldest message that it has not consumed was stored."""
    ungot_ms: int = 0
    """The same of the oldest that it did not get."""
    queues: dict[int, int] = field(default_factory=dict)
    """Messages by queue, of queues with a lag."""


class LagReader:
    """Remembers the times of messages that groups stand at: most do not move between two scrapes."""

    def __init__(
        self,
        offsets: OffsetPairs,
        topics: TopicTable,
        queues: Queues,
        store_ms: StoreMs,
        counters: Counters,
    ) -> None:
        self._offsets = offsets
        self._topics = topics
        self._queues = queues
        self._store_ms_at = store_ms
        self._counters = counters
        self._times: dict[tuple[str, int, int], int] = {}
        self._times_before: dict[tuple[str, int, int], int] = {}

    def read(self, each: Callable[[Lag], None]) -> Steps[None]:
        """Call `each` with the lag of every (topic, group) pair; pairs whose topic is gone are left out."""
        self._times_before, self._times = self._times, {}
        told = 0
        for topic, group, offsets in self._offsets.pairs():
            config = self._topics.get(topic)
            if config is not None:
                each((yield from self._lag(topic, group, config.read_queues, offsets)))
                told += 1
                if told == PAIRS_MAX:
                    break
            yield

    def _lag(
        self, topic: str, group: str, read_queues: int, offsets: Mapping[int, QueueOffset]
    ) -> Steps[Lag]:
        lag = Lag(topic, group)
        gets = self._counters.gets.get((topic, group))
        pulled = gets.queues if gets is not None else {}
        queues = self._queues
        for queue_id in range(read_queues):
            if queue_id % QUEUES_AT_ONCE == QUEUES_AT_ONCE - 1:
                yield
            queue = queues.get(topic, queue_id)
            if queue is None:
                continue
            end = queue.max_offset
            lag.ends += end
            at = offsets.get(queue_id, 0)
            if at >= end:
                lag.consumed += end
                continue
            # What expired cannot be consumed any more; who never committed starts at the beginning.
            at = max(at, queue.min_offset)
            lag.consumed += at
            got = min(max(at, pulled[queue_id].pulled_to if queue_id in pulled else at), end)
            lag.messages += end - at
            lag.queues[queue_id] = end - at
            lag.inflight += got - at
            lag.unconsumed_ms = _earlier(lag.unconsumed_ms, self._store_ms(topic, queue_id, QueueOffset(at)))
            if got < end:
                lag.ready += end - got
                lag.ungot_ms = _earlier(lag.ungot_ms, self._store_ms(topic, queue_id, QueueOffset(got)))
        return lag

    def _store_ms(self, topic: str, queue_id: int, offset: QueueOffset) -> int:
        key = (topic, queue_id, offset)
        known = self._times.get(key)
        if known is None:
            known = self._times_before.get(key)
            if known is None:
                known = max(0, self._store_ms_at(topic, queue_id, offset))
            if len(self._times) < TIMES_MAX:
                self._times[key] = known
        return known


def _earlier(one: int, other: int) -> int:
    """The earlier of two times; 0 stands for none."""
    return min(one, other) if one and other else one or other
