"""The data source `rocketmq`: what Spark finds by its name, and the reader of batches. Streams are in `stream.py`."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from rocketeer.spark.bounds import ending_places, starting_places
from rocketeer.spark.columns import SCHEMA, check_schema
from rocketeer.spark.options import FORMAT, SourceOptions, parse_options
from rocketeer.spark.planning import QueueRange
from rocketeer.spark.pushdown import RowFilter, collect
from rocketeer.spark.reading import RangePartition, open_view, plan_tasks, read_partition

if TYPE_CHECKING:
    from rocketeer.spark.view import View


class RocketmqDataSource(DataSource):
    """`spark.read.format("rocketmq")` and its three siblings."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        check_schema(schema)
        options = parse_options(dict(self.options), streaming=False)
        # A reader that has pushFilters is refused by Spark unless the session allows pushing filters down; the one
        # place that asks with filters in hand is known by its module.
        caller = sys._getframe(1).f_code.co_filename
        pushes = caller.endswith("data_source_pushdown_filters.py")
        return (FilteringReader if pushes else BatchReader)(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from rocketeer.spark.stream import StreamReader

        check_schema(schema)
        return StreamReader(parse_options(dict(self.options), streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from rocketeer.spark.sink import open_writer

        return open_writer(dict(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from rocketeer.spark.sink import open_stream_writer

        return open_stream_writer(dict(self.options), schema, overwrite)


class BatchReader(DataSourceReader):
    """Plans once, on the driver; `read` runs in the executors."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._rows: RowFilter | None = None

    def partitions(self) -> Sequence[InputPartition]:
        view = open_view(self._options)
        try:
            return self._plan(view)
        finally:
            view.close()

    def _plan(self, view: "View") -> list[RangePartition]:
        rows = self._rows or RowFilter()
        every = view.queues()
        # Options are checked against all queues, filters choose among them afterwards.
        begin = starting_places(self._options, view, every, default="earliest")
        end = ending_places(self._options, view, every)
        wanted: list[QueueRange] = []
        for queue in sorted(every):
            if rows.topics is not None and queue.topic not in rows.topics:
                continue
            if not rows.span("queueId").has(queue.queue_id):
                continue
            offsets = rows.span("queueOffset")
            piece = QueueRange(queue, max(begin[queue], offsets.low), min(end[queue], offsets.high + 1))
            if piece.records > 0:
                wanted.append(piece)
        return plan_tasks(self._options, view, wanted)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(self._options, self._schema, partition, self._rows)


class FilteringReader(BatchReader):
    """The same in a session with `spark.sql.python.filterPushdown.enabled`."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._rows = collect(filters)
        return filters  # Spark checks them all again: ours only spare work
