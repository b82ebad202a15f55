"""What both readers share: from offsets to tasks on the driver, from a task to Arrow batches on an executor."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rocketeer.model.subscription import parse_tags
from rocketeer.record.vectorised import OffsetArray, record_offsets
from rocketeer.spark.source import planning
from rocketeer.spark.source.bounds import check_final
from rocketeer.spark.source.brokers import BrokersView
from rocketeer.spark.source.fetch import fetch_range
from rocketeer.spark.source.losses import DataLost, Loss
from rocketeer.spark.source.options import SourceOptions
from rocketeer.spark.source.planning import QueueRange
from rocketeer.spark.source.pulls import PullTerms
from rocketeer.spark.source.store_read import read_files
from rocketeer.spark.source.store_view import StorePlace, StoreView
from rocketeer.spark.source.view import SourceLocation, SourceView
from rocketeer.spark.versions import HAS_LIMITS

log = logging.getLogger(__name__)


class RangePartition(InputPartition):
    """One task: ranges of queues, each with the place to read it from."""

    def __init__(self, pieces: tuple[tuple[QueueRange, SourceLocation], ...]) -> None:
        super().__init__(pieces)
        self.pieces = pieces


def open_view(options: SourceOptions) -> SourceView:
    """Where planning looks: brokers or files."""
    return BrokersView(options) if options.store_path is None else StoreView(options)


def plan_tasks(
    options: SourceOptions, view: SourceView, wanted: Iterable[QueueRange]
) -> list[RangePartition]:
    """Ranges as they were decided on, checked against what is there, cut and put together into tasks."""
    asked = [piece for piece in wanted if piece.begin != piece.end]
    queues = [piece.queue for piece in asked]
    lows, highs = view.lows(queues), view.highs(queues)
    kept: list[QueueRange] = []
    losses: list[Loss] = []
    for piece in asked:
        left, loss = planning.clip(piece, lows[piece.queue], highs[piece.queue])
        if left is not None:
            kept.append(left)
        if loss is not None:
            check_final(view, loss.queue, str(loss))
            losses.append(loss)
    if losses and options.fail_on_data_loss:
        raise DataLost(losses)
    for loss in losses:
        log.warning("data lost: %s", loss)
    pieces = planning.split(kept, options.min_partitions, options.max_records_per_partition)
    tasks = planning.group_small(pieces, options.min_partitions or options.max_records_per_partition)
    return [RangePartition(tuple((piece, view.place(piece)) for piece in task)) for task in tasks]


def read_partition(options: SourceOptions, schema: StructType, partition: InputPartition) -> Iterator[Any]:
    """Arrow batches of a task. Runs in an executor's Python worker."""
    if not isinstance(partition, RangePartition):
        return  # Spark's stand-in for "no partition"
    from rocketeer.spark.source.arrow import Decoder  # the driver never needs pyarrow's compute kernels

    # Before 4.2 PySpark writes no other zone than UTC, and takes none.
    arrow = to_arrow_schema(schema, timezone="UTC") if HAS_LIMITS else to_arrow_schema(schema)
    decoder = Decoder(arrow)
    tags = _tag_set(options)
    for piece, place in partition.pieces:
        keep = _keeper(piece)
        for data, offsets in _buffers(options, piece, place):
            batch = decoder.decode(data, offsets, piece.queue.topic, piece.queue.broker_name, keep, tags)
            if batch is not None:
                yield batch


def _buffers(
    options: SourceOptions, piece: QueueRange, place: SourceLocation
) -> Iterator[tuple[Any, OffsetArray]]:
    """Buffers with records of the range, and where the records begin."""
    if isinstance(place, StorePlace):
        yield from read_files(place, piece, options.tags, options.fail_on_data_loss)
    else:
        for body in fetch_range(PullTerms.of(options), piece, place):
            yield body, record_offsets(body)


def _tag_set(options: SourceOptions) -> Any:
    import pyarrow as pa

    tags = parse_tags(options.tags)
    return pa.array(sorted(tags)) if tags else None


def _keeper(piece: QueueRange) -> Any:
    """Make the mask that keeps records inside the range: filtered pulls may return some behind its end."""

    def keep(heads: NDArray[Any]) -> NDArray[np.bool_]:
        offsets = heads["queue_offset"]
        kept: NDArray[np.bool_] = (offsets >= piece.begin) & (offsets < piece.end)
        return kept

    return keep
