"""Arrow batches into a lake's Parquet files, in a task: one file per topic and day, rolled when it is large.

The files count only once a commit names them; what a task returns is what that commit needs. What of which queue is
in a file stands in its footer, and each of its pages has a checksum: a file proves itself.
"""

import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from isal.isal_zlib import crc32

from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.locations import LakeLocation
from rocketeer.spark.jobs.lake.state import DataFile, QueuePart, Range, partition_folder

ArrowBatch: TypeAlias = Any  # pyarrow has no types of its own for mypy

ROW_GROUP_BYTES: Final = 32 << 20
_DAY_US: Final = 86_400_000_000
_CHECKSUM_MODULUS: Final = (1 << 31) - 1
# Values that repeat; the others would only fill dictionaries that are thrown away.
_DICTIONARIES: Final = [
    "brokerName", "queueId", "tags", "bornHost", "storeHost", "flag", "sysFlag", "reconsumeTimes",
    "properties.key_value.key",
]  # fmt: skip


QUEUES: Final = b"rocketeer.queues"
"""In a file's footer: what it has of which queue."""


@dataclass(frozen=True)
class WriterTerms:
    """How files are written."""

    compression: str = "zstd"
    file_bytes: int = 256 << 20
    suffix: str = ".parquet"
    """What readers of plain files know such a file by."""


class LakeWriter:
    """One per task. `add` rows, then `finish`; an abandoned writer leaves files that nobody counts."""

    def __init__(self, place: LakeLocation, terms: WriterTerms) -> None:
        self._place = place
        self._terms = terms
        self._open: dict[str, OpenLakeFile] = {}
        self._done: list[DataFile] = []

    def add(self, batch: ArrowBatch) -> None:
        """Rows with the lake's columns; those of one topic or many, of one day or many."""
        for folder, part in _by_folder(batch):
            file = self._open.get(folder)
            if file is None:
                file = self._open[folder] = OpenLakeFile(self._place, folder, part.schema, self._terms)
            file.add(part)
            if file.bytes >= self._terms.file_bytes:
                self._done.append(self._open.pop(folder).close())

    def finish(self) -> list[DataFile]:
        """Every file is on disk when this returns."""
        self._done += [file.close() for file in self._open.values()]
        self._open.clear()
        return self._done


def _by_folder(batch: ArrowBatch) -> Iterator[tuple[str, ArrowBatch]]:
    """The batch cut by topic and day; mostly in one piece, as a queue's messages come in the order of storing."""
    days = pc.floor(
        pc.divide(batch.column("storeTimestamp").cast(pa.int64()).cast(pa.float64()), float(_DAY_US))
    )
    days = days.cast(pa.int64()).to_numpy(zero_copy_only=False)
    topics = batch.column("topic").dictionary_encode()
    kinds = topics.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    rows = batch.drop_columns(["topic"])
    keys = kinds * (1 << 32) + days
    names = topics.dictionary.to_pylist()
    if not (keys != keys[0]).any():
        yield _folder(names, int(kinds[0]), int(days[0])), rows
        return
    for key in np.unique(keys).tolist():
        picked = np.flatnonzero(keys == key)
        yield _folder(names, key >> 32, key & ((1 << 32) - 1)), rows.take(pa.array(picked))


def _folder(names: list[str], kind: int, day: int) -> str:
    return partition_folder(names[kind], datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m-%d"))


class OpenLakeFile:
    """A Parquet file being written; rows come without their topic."""

    def __init__(self, place: LakeLocation, folder: str, schema: Any, terms: WriterTerms) -> None:
        self._place = place
        self._path = f"{folder}/{uuid.uuid4().hex}{terms.suffix}"
        self._sink = place.write(self._path)
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression=terms.compression,
            use_dictionary=_DICTIONARIES,
            write_page_checksum=True,
            write_statistics=[
                "queueId",
                "queueOffset",
                "bornTimestamp",
                "storeTimestamp",
                "tags",
                "brokerName",
            ],
        )
        self._waiting: list[ArrowBatch] = []
        self._waiting_bytes = 0
        self._rows = 0
        self._store_us = (1 << 62, -(1 << 62))
        self._parts: dict[tuple[str, int], QueuePart] = {}

    @property
    def bytes(self) -> int:
        return int(self._sink.tell()) + self._waiting_bytes

    def add(self, rows: ArrowBatch) -> None:
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        self._rows += len(rows)
        stored = pc.min_max(rows.column("storeTimestamp").cast(pa.int64()))
        low, high = stored["min"].as_py(), stored["max"].as_py()
        self._store_us = (min(self._store_us[0], low), max(self._store_us[1], high))
        for part in queue_parts(rows):
            place = (part.broker, part.queue)
            before = self._parts.get(place)
            self._parts[place] = part if before is None else joined(before, part)
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting)
            self._writer.write_table(table, row_group_size=len(table))
        self._waiting, self._waiting_bytes = [], 0

    def close(self) -> DataFile:
        self._flush()
        parts = [asdict(self._parts[place]) for place in sorted(self._parts)]
        self._writer.add_key_value_metadata({QUEUES: json.dumps(parts).encode()})
        self._writer.close()
        size = int(self._sink.tell())
        self._sink.close()
        self._place.settle(self._path)
        return DataFile(self._path, self._rows, size, self._store_us[0] // 1000, self._store_us[1] // 1000)


def parts_of(metadata: Any) -> list[QueuePart] | None:
    """What a file's footer says it has of each queue; None for one that others wrote."""
    found = (metadata.metadata or {}).get(QUEUES)
    return None if found is None else [QueuePart(**part) for part in json.loads(found)]


def queue_parts(rows: ArrowBatch) -> Iterator[QueuePart]:
    """What a batch has of each queue, with a checksum: rows in any order have the same, and ranges' may be xor-ed.

    Spark's SQL for it: bit_xor(crc32(body) * (queueOffset % 2147483647 + 1)).
    """
    offsets = _offsets(rows)
    sums = body_crcs(rows.column("body")) * (offsets % _CHECKSUM_MODULUS + 1)
    sizes = _lengths(rows.column("body"))
    for broker, queue, at in _by_queue(rows):
        mine = offsets[at]
        yield QueuePart(
            broker,
            queue,
            QueueOffset(int(mine.min())),
            QueueOffset(int(mine.max()) + 1),
            len(mine),
            int(sizes[at].sum()),
            int(np.bitwise_xor.reduce(sums[at])),
        )


def queue_runs(topic: str, rows: ArrowBatch) -> Iterator[tuple[MessageQueue, Range]]:
    """The offsets that a batch of one topic has of each queue, as runs without a hole."""
    offsets = _offsets(rows)
    for broker, queue, at in _by_queue(rows):
        mine = np.sort(offsets[at])
        for run in np.split(mine, np.flatnonzero(np.diff(mine) != 1) + 1):
            begin, end = QueueOffset(int(run[0])), QueueOffset(int(run[-1]) + 1)
            yield MessageQueue(topic, broker, queue), Range(begin, end)


def _offsets(rows: ArrowBatch) -> Any:
    return rows.column("queueOffset").to_numpy(zero_copy_only=False).astype(np.int64)


def _by_queue(rows: ArrowBatch) -> Iterator[tuple[str, int, Any]]:
    """(broker, queue, which rows are of it) of a batch that is not empty."""
    brokers = rows.column("brokerName").dictionary_encode()
    kinds = brokers.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    queues = rows.column("queueId").to_numpy(zero_copy_only=False).astype(np.int64)
    names = brokers.dictionary.to_pylist()
    places = kinds * (1 << 32) + queues
    for place in [int(places[0])] if not (places != places[0]).any() else np.unique(places).tolist():
        yield names[place >> 32], place & ((1 << 32) - 1), places == place


def joined(one: QueuePart, other: QueuePart) -> QueuePart:
    """Two parts of one queue as one."""
    return QueuePart(
        one.broker,
        one.queue,
        min(one.begin, other.begin),
        max(one.end, other.end),
        one.rows + other.rows,
        one.body_bytes + other.body_bytes,
        one.checksum ^ other.checksum,
    )


def body_crcs(column: Any) -> Any:
    """CRC-32 of every body, as Spark's `crc32` gives it."""
    places, data = _places(column)
    view = memoryview(data) if data is not None else memoryview(b"")
    return np.fromiter(
        (crc32(view[begin:end]) for begin, end in pairwise(places.tolist())),
        dtype=np.int64,
        count=len(column),
    )


def _lengths(column: Any) -> Any:
    places, _ = _places(column)
    return np.diff(places.astype(np.int64))


def _places(column: Any) -> tuple[Any, Any]:
    kind = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    _, offsets, data = column.buffers()
    return np.frombuffer(offsets, kind, len(column) + 1 + column.offset)[column.offset :], data


def summary_json(files: Iterable[DataFile]) -> str:
    """What a task hands to the driver."""
    return json.dumps([asdict(file) for file in files])


def files_of(summary: str) -> list[DataFile]:
    return [DataFile(**file) for file in json.loads(summary)]
