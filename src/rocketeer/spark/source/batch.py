"""The reader of batches: plans once, on the driver."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceReader,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from rocketeer.spark.source.bounds import ending_places, starting_places
from rocketeer.spark.source.options import SourceOptions
from rocketeer.spark.source.planning import QueueRange
from rocketeer.spark.source.pushdown import RowFilter, collect
from rocketeer.spark.source.reading import RangePartition, open_view, plan_tasks, read_partition
from rocketeer.spark.source.retries import with_retries

if TYPE_CHECKING:
    from rocketeer.spark.source.view import View


class BatchReader(DataSourceReader):
    """Plans once, on the driver; `read` runs in the executors."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._rows: RowFilter | None = None

    def partitions(self) -> Sequence[InputPartition]:
        view = open_view(self._options)
        try:
            return with_retries(self._options, view, lambda: self._plan(view))
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
    """The same in a session with `spark.sql.python.filterPushdown.enabled`.

    We do not set it: Spark 4.3 keeps the filters that one query pushed with the loaded DataFrame, and applies them to
    the next query on it, too, and to all of a query that uses the DataFrame twice. docs/spark.md warns of it.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._rows = collect(filters)
        return filters  # Spark checks them all again: ours only spare work
