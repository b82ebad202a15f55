"""Small batches without a Python task: the process that plans a stream reads them, and Spark gets rows with the plan.

Handing over to a Python task and back takes Spark longer than all the rest of a small batch. PySpark has a way for
rows to come with the plan, but keeps it for a reader of its own (that of `simpleStreamReader`, all of whose rows come
through the driver). Ours is such a reader for as long as it has rows at hand. The plan says the same with rows and
without: should they get lost before they are used, a task reads them, as it does with larger batches.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
from pyspark.sql.types import StructType

from rocketeer.errors import RocketeerError
from rocketeer.spark.source.options import SourceOptions
from rocketeer.spark.source.reading import RangePartition, read_partition
from rocketeer.spark.source.stream import StreamReader

log = logging.getLogger(__name__)

BYTES_MAX: Final = 512 << 10
"""What goes through the driver at once; a task reads more than that."""


class PrefetchingReader(StreamReader):
    """Reads small batches when it plans them."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._rows: list[Any] = []
        self._record_bytes = 0.0
        """About how large rows are: those that were last read here."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        tasks = super().partitions(start, end)
        whole = self._small(tasks)
        rows = None if whole is None else self._read_here(whole)
        if whole is None or rows is None:
            return tasks
        self._rows = rows
        self.__class__ = _WithRows
        return [whole]

    def _small(self, tasks: Sequence[InputPartition]) -> RangePartition | None:
        """One task in place of all, if it is worth reading here."""
        if len(tasks) > 1 and (self._options.min_partitions or self._options.max_records_per_partition):
            return None
        pieces = tuple(piece for task in tasks if isinstance(task, RangePartition) for piece in task.pieces)
        records = sum(piece.records for piece, _ in pieces)
        if not 0 < records <= self._options.prefetch_records:
            return None
        if records * self._record_bytes > BYTES_MAX:
            self._record_bytes /= 2  # they may become smaller again: looked at now and then
            return None
        return RangePartition(pieces)

    def _read_here(self, task: RangePartition) -> list[Any] | None:
        """Arrow batches; None if they are too large, or not to be had at once."""
        rows: list[Any] = []
        count = size = 0
        try:
            for batch in read_partition(single_attempt(self._options), self._schema, task):
                rows.append(batch)
                count += batch.num_rows
                size += batch.nbytes
                self._record_bytes = size / count
                if size > BYTES_MAX:
                    return None
        except (RocketeerError, OSError) as error:
            log.warning("small batch left to a task error=%s", error)
            return None
        return rows


class _WithRows(PrefetchingReader, _SimpleStreamReaderWrapper):
    """A PrefetchingReader between planning a batch and handing over its rows."""

    def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any]:
        rows, self._rows = self._rows, []
        self.__class__ = PrefetchingReader  # type: ignore[assignment]
        return iter(rows)


def single_attempt(options: SourceOptions) -> SourceOptions:
    """Options to try once and leave out nothing: waiting for brokers, and saying what is lost, is what tasks do."""
    size = min(options.fetch_bytes, BYTES_MAX)
    return replace(options, fetch_timeout_ms=0, fail_on_data_loss=True, fetch_bytes=size)
