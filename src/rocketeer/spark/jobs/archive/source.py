"""The stream behind `archive`: its tasks write what they read into the lake's files, and give Spark only a summary.

So no message passes through the JVM: the worker that fetched it writes it. Offsets, limits and checkpoints are those
of the source `rocketmq`.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.lake.locations import LakeLocation
from rocketeer.spark.jobs.lake.state import Range, ranges_json, with_ranges
from rocketeer.spark.jobs.lake.writer import LakeWriter, WriterTerms, queue_runs, summary_json
from rocketeer.spark.source.columns import SCHEMA
from rocketeer.spark.source.offsets import QueueOffsets, from_json
from rocketeer.spark.source.options import SourceOptions, parse_options
from rocketeer.spark.source.reading import RangePartition, read_partition
from rocketeer.spark.source.stream import StreamReader

NAME: Final = "rocketmq-archive"
LAKE: Final = "lake"
STORAGE: Final = "lakestoragesecret"
"""Also credentials: Spark hides options with such a name where it shows plans."""
SUFFIX: Final = "lakesuffix"
COMPRESSION: Final = "lakecompression"
FILE_BYTES: Final = "lakefilebytes"
ENDS: Final = "lakeends"
SUMMARY: Final = StructType([StructField(name, StringType()) for name in ("files", "asked", "ranges")])
"""Summary of a task: the files it wrote, the ranges it was to read, and those it found."""


class ArchiveSource(DataSource):
    """The source's options, and some of the lake's."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return SUMMARY

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        given = {name.lower(): value for name, value in dict(self.options).items()}
        storage = json.loads(given.pop(STORAGE))
        place = LakeLocation(given.pop(LAKE), tuple((name, value) for name, value in storage))
        terms = WriterTerms(given.pop(COMPRESSION), int(given.pop(FILE_BYTES)), given.pop(SUFFIX))
        ends = from_json(json.loads(given.pop(ENDS)))
        return ArchiveReader(parse_options(given, streaming=True), place, terms, ends)


class ArchiveReader(StreamReader):
    """Plans like any stream of the source; a task's rows are its files."""

    def __init__(
        self, options: SourceOptions, place: LakeLocation, terms: WriterTerms, ends: QueueOffsets
    ) -> None:
        super().__init__(options, SCHEMA)
        self._place = place
        self._terms = terms
        self._ends = ends

    def _starting_places(self) -> QueueOffsets:
        """Where a query without a checkpoint starts. If the lake has messages all the same: behind them."""
        return {queue: self._ends.get(queue, offset) for queue, offset in super()._starting_places().items()}

    def _check_checkpoint(self, places: QueueOffsets) -> None:
        """It is the lake's: which of its topics are archived further is said anew each time."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, RangePartition):
            return
        writer = LakeWriter(self._place, self._terms)
        found: list[tuple[MessageQueue, Range]] = []
        for batch in read_partition(self._options, SCHEMA, partition):
            writer.add(batch)
            found += queue_runs(batch.column("topic")[0].as_py(), batch)
        asked = [(piece.queue, Range(piece.begin, piece.end)) for piece, _ in partition.pieces]
        yield pa.RecordBatch.from_pydict(
            {
                "files": [summary_json(writer.finish())],
                "asked": [json.dumps(ranges_json(with_ranges({}, asked)))],
                "ranges": [json.dumps(ranges_json(with_ranges({}, found)))],
            }
        )
