"""What a lake's commits say, as values: files, ranges of queues, checksums. Pure; `folder.py` does the IO."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from rocketeer.model.queue import MessageQueue

APPEND: Final = "append"
COMPACT: Final = "compact"


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """Offsets [begin, end) of a queue."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class QueuePart:
    """What of one queue is in a file: between `begin` and `end`, so many rows, and their checksum."""

    broker: str
    queue: int
    begin: int
    end: int
    rows: int
    body_bytes: int
    checksum: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of the lake; `path` is relative to it, `crc32` is of the file's bytes."""

    path: str
    rows: int
    bytes: int
    crc32: int
    store_ms_min: int
    store_ms_max: int
    queues: tuple[QueuePart, ...]

    @staticmethod
    def from_json(value: dict[str, Any]) -> "DataFile":
        return DataFile(**{**value, "queues": tuple(QueuePart(**part) for part in value["queues"])})


@dataclass(frozen=True, slots=True)
class Commit:
    """One step of a lake. `writer` and `batch` name an append, so that it is not made twice."""

    number: int
    kind: str
    time_ms: int
    added: tuple[DataFile, ...]
    removed: tuple[str, ...] = ()
    ranges: tuple[tuple[MessageQueue, Range], ...] = ()
    writer: str | None = None
    batch: int | None = None

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.added)

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "kind": self.kind,
            "time_ms": self.time_ms,
            "writer": self.writer,
            "batch": self.batch,
            "rows": self.rows,
            "added": [asdict(file) for file in self.added],
            "removed": list(self.removed),
            "ranges": [
                {
                    "topic": q.topic,
                    "broker": q.broker_name,
                    "queue": q.queue_id,
                    "begin": r.begin,
                    "end": r.end,
                }
                for q, r in self.ranges
            ],
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> "Commit":
        return Commit(
            int(value["number"]),
            str(value["kind"]),
            int(value["time_ms"]),
            tuple(DataFile.from_json(file) for file in value["added"]),
            tuple(value["removed"]),
            tuple(
                (MessageQueue(r["topic"], r["broker"], r["queue"]), Range(r["begin"], r["end"]))
                for r in value["ranges"]
            ),
            value["writer"],
            value["batch"],
        )


@dataclass
class LakeState:
    """The sum of commits 0 ... `next_number` - 1."""

    next_number: int = 0
    files: dict[str, DataFile] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    """Files that a compaction replaced, and when (ms)."""
    ranges: dict[MessageQueue, list[Range]] = field(default_factory=dict)
    last_batch: dict[str, int] = field(default_factory=dict)
    """The newest batch of each writer."""

    def to_json(self) -> dict[str, Any]:
        return {
            "next_number": self.next_number,
            "files": [asdict(file) for file in self.files.values()],
            "removed": self.removed,
            "ranges": [
                [q.topic, q.broker_name, q.queue_id, one.begin, one.end]
                for q, ranges in self.ranges.items()
                for one in ranges
            ],
            "last_batch": self.last_batch,
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> "LakeState":
        files = [DataFile.from_json(file) for file in value["files"]]
        state = LakeState(
            int(value["next_number"]),
            {file.path: file for file in files},
            dict(value["removed"]),
            last_batch=dict(value["last_batch"]),
        )
        for topic, broker, queue, begin, end in value["ranges"]:
            state.ranges.setdefault(MessageQueue(topic, broker, queue), []).append(Range(begin, end))
        return state

    def apply(self, commit: Commit) -> None:
        for path in commit.removed:
            del self.files[path]  # KeyError: not what these commits made
            self.removed[path] = commit.time_ms
        for file in commit.added:
            self.files[file.path] = file
        for queue, found in commit.ranges:
            self.ranges[queue] = merged([*self.ranges.get(queue, []), found])
        if commit.writer is not None and commit.batch is not None:
            self.last_batch[commit.writer] = max(commit.batch, self.last_batch.get(commit.writer, -1))
        self.next_number = commit.number + 1

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files.values())

    def has(self, writer: str, batch: int) -> bool:
        """Whether that batch is in. Writers make their batches in order."""
        return batch <= self.last_batch.get(writer, -1)

    def archived(self) -> dict[MessageQueue, tuple[Range, ...]]:
        return {queue: tuple(self.ranges[queue]) for queue in sorted(self.ranges)}

    def ends(self) -> dict[MessageQueue, int]:
        """Where to go on: behind the last message archived of each queue."""
        return {queue: ranges[-1].end for queue, ranges in self.ranges.items()}


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
