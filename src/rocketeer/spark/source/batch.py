"""The reader of batches: plans once, on the driver."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from rocketeer.spark.source.bounds import check_matched, check_order, ending_places, starting_places
from rocketeer.spark.source.options import SourceOptions
from rocketeer.spark.source.planning import QueueRange
from rocketeer.spark.source.reading import RangePartition, open_view, plan_tasks, read_partition
from rocketeer.spark.source.retries import with_retries

if TYPE_CHECKING:
    from rocketeer.spark.source.view import SourceView


class BatchReader(DataSourceReader):
    """Plans once, on the driver; `read` runs in the executors.

    It has no `pushFilters`: Spark 4.3 keeps what one query pushed with the loaded DataFrame and applies it to the
    next query on it, too. Options choose parts of a topic without that trap.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        with closing(open_view(self._options)) as view:
            return with_retries(self._options, view, lambda: self._plan(view))

    def _plan(self, view: "SourceView") -> list[RangePartition]:
        every = view.queues()
        check_matched(self._options, every)
        view.check_filter(every)
        begin = starting_places(self._options, view, every, default="earliest")
        end = ending_places(self._options, view, every)
        check_order(self._options, begin, end)
        ranges = (QueueRange(queue, begin[queue], end[queue]) for queue in sorted(every))
        return plan_tasks(self._options, view, [piece for piece in ranges if piece.records > 0])

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(self._options, self._schema, partition)
