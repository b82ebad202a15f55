"""What a lake says of itself, as values: files, and ranges of queues. Pure; `delta.py` and `parquet.py` do the IO."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """Offsets [begin, end) of a queue."""

    begin: QueueOffset
    end: QueueOffset


@dataclass(frozen=True, slots=True)
class QueuePart:
    """What of one queue is in a file: between `begin` and `end`, so many rows, and their checksum."""

    broker: str
    queue: int
    begin: QueueOffset
    end: QueueOffset
    rows: int
    body_bytes: int
    checksum: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of the lake; `path` is relative to it. Its queues stand in the file's own footer."""

    path: str
    rows: int
    bytes: int
    store_ms_min: int
    store_ms_max: int

    @property
    def topic(self) -> str:
        return unquote(self.path.split("/", 1)[0].removeprefix("topic="))

    @property
    def date(self) -> str:
        return self.path.split("/", 2)[1].removeprefix("date=")


def partition_folder(topic: str, date: str) -> str:
    """`topic=Orders/date=2026-11-15`; any topic's name makes one folder."""
    return f"topic={quote(topic, safe='')}/date={date}"


@dataclass
class LakeState:
    """A lake at one version of it."""

    version: int = 0
    files: dict[str, DataFile] = field(default_factory=dict)
    ranges: dict[MessageQueue, list[Range]] = field(default_factory=dict)
    """Which offsets of queues are archived. Empty where messages were left out on purpose (`dedup`)."""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files.values())

    @property
    def topics(self) -> set[str]:
        return {file.topic for file in self.files.values()}

    def archived(self) -> dict[MessageQueue, tuple[Range, ...]]:
        return {queue: tuple(self.ranges[queue]) for queue in sorted(self.ranges)}

    def ends(self) -> dict[MessageQueue, QueueOffset]:
        """Where to go on: behind the last message archived of each queue."""
        return {queue: ranges[-1].end for queue, ranges in self.ranges.items()}


def with_ranges(
    known: Mapping[MessageQueue, Iterable[Range]], new: Iterable[tuple[MessageQueue, Range]]
) -> dict[MessageQueue, list[Range]]:
    """Two tables of ranges as one, in as few ranges as can be."""
    found = {queue: list(ranges) for queue, ranges in known.items()}
    for queue, one in new:
        found.setdefault(queue, []).append(one)
    return {queue: merged(ranges) for queue, ranges in found.items()}


def lost_between(
    reached: Mapping[MessageQueue, QueueOffset],
    asked: Mapping[MessageQueue, Sequence[Range]],
    found: Mapping[MessageQueue, Iterable[Range]],
) -> int:
    """How many messages a batch passed over, behind where the one before it ended: those nobody asked for any more
    because they were gone, and those that were asked for and not found.

    >>> queue = MessageQueue("T", "broker-a", 0)
    >>> lost_between({queue: 10}, {queue: [Range(12, 20)]}, {queue: [Range(12, 15), Range(16, 20)]})
    3
    """
    lost = 0
    for queue, ranges in asked.items():
        wanted = ranges[-1].end - reached.get(queue, ranges[0].begin)
        lost += max(wanted - sum(one.end - one.begin for one in found.get(queue, ())), 0)
    return lost


def ranges_json(ranges: Mapping[MessageQueue, Iterable[Range]]) -> list[list[Any]]:
    return [[q.topic, q.broker_name, q.queue_id, r.begin, r.end] for q in sorted(ranges) for r in ranges[q]]


def ranges_of(value: Iterable[Iterable[Any]]) -> dict[MessageQueue, list[Range]]:
    found: dict[MessageQueue, list[Range]] = {}
    for topic, broker, queue, begin, end in value:
        found.setdefault(MessageQueue(topic, broker, int(queue)), []).append(
            Range(QueueOffset(int(begin)), QueueOffset(int(end)))
        )
    return found


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The same offsets in as few ranges as can be, in order.

    >>> merged([Range(5, 9), Range(0, 3), Range(3, 5), Range(11, 12)])
    [Range(begin=0, end=9), Range(begin=11, end=12)]
    """
    found: list[Range] = []
    for one in sorted(ranges):
        if found and one.begin <= found[-1].end:
            found[-1] = Range(found[-1].begin, max(found[-1].end, one.end))
        else:
            found.append(one)
    return found
