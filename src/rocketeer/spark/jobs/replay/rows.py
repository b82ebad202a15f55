"""From archived or stored messages to rows the sink sends again: which ones, with which properties, how fast."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from rocketeer.errors import ConfigError
from rocketeer.model import property_names as names
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import parse_tags
from rocketeer.spark.jobs.replay.state import Ranges
from rocketeer.spark.jobs.sent_again import new_messages

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

QUEUE: Final = ("topic", "brokerName", "queueId")
_TASK_RATE: Final = 10_000
_STEPS_PER_S: Final = 10
_CONDITIONS_MAX: Final = 64
"""More queues than this are joined with: a plan with thousands of conditions takes longer than the chunk."""


def chosen(
    frame: "DataFrame",
    *,
    since: datetime | None,
    until: datetime | None,
    keys: Sequence[str],
    tags: str | None,
    where: str | None,
) -> "DataFrame":
    """The rows that all given conditions allow."""
    conditions: list[Column] = []
    if since is not None:
        conditions.append(f.col("storeTimestamp") >= f.lit(since))
    if until is not None:
        conditions.append(f.col("storeTimestamp") < f.lit(until))
    if keys:
        words = f.split(f.col("keys"), names.KEY_SEPARATOR)
        conditions.append(reduce(or_, [f.array_contains(words, key) for key in keys]))
    try:
        wanted = parse_tags(tags)
    except ValueError as error:
        raise ConfigError(f"--tag {tags!r}: {error}") from None
    if wanted:
        conditions.append(f.col("tags").isin(*sorted(wanted)))
    if where is not None:
        conditions.append(f.expr(where))
    for condition in conditions:
        frame = frame.where(condition)
    return frame


def in_ranges(spark: "SparkSession", frame: "DataFrame", ranges: Ranges) -> "DataFrame":
    """The rows of a chunk. The bounds over all queues let Parquet skip row groups."""
    offset = f.col("queueOffset")
    low, high = min(r.begin for r in ranges.values()), max(r.end for r in ranges.values())
    bounded = frame.where((offset >= low) & (offset < high))
    if len(ranges) <= _CONDITIONS_MAX:
        inside = [
            (f.col("topic") == q.topic)
            & (f.col("brokerName") == q.broker_name)
            & (f.col("queueId") == q.queue_id)
            & (offset >= r.begin)
            & (offset < r.end)
            for q, r in ranges.items()
        ]
        return bounded.where(reduce(or_, inside))
    return joined_ranges(spark, bounded, [(q, r.begin, r.end) for q, r in ranges.items()])


def joined_ranges(
    spark: "SparkSession", frame: "DataFrame", ranges: Iterable[tuple[MessageQueue, int, int]]
) -> "DataFrame":
    """The rows whose place is in one of the ranges, however many these are."""
    rows = [(q.topic, q.broker_name, q.queue_id, begin, end) for q, begin, end in ranges]
    small = spark.createDataFrame(
        rows, "topic string, brokerName string, queueId int, _begin long, _end long"
    )
    offset = f.col("queueOffset")
    joined = frame.join(f.broadcast(small), list(QUEUE))
    return joined.where((offset >= f.col("_begin")) & (offset < f.col("_end"))).drop("_begin", "_end")


def to_messages(frame: "DataFrame", *, ordered: bool) -> "DataFrame":
    """The columns the sink takes, known by the place of the messages they were."""
    place = f.concat_ws("/", *QUEUE)
    shard = place if ordered else f.col("properties").getItem(names.SHARDING_KEY)
    if ordered:
        frame = frame.repartition(*QUEUE).sortWithinPartitions(*QUEUE, "queueOffset")
    row_id = f.concat_ws("/", place, "queueOffset")
    return new_messages(frame, topic=f.col("topic"), sharding_key=shard, row_id=row_id)


def tasks_at(rate: int, parallelism: int) -> int:
    """How many tasks share a rate."""
    return max(1, min(rate // _TASK_RATE, parallelism))


def rate_options(rate: int, tasks: int) -> dict[str, str]:
    """The sink's options for a task's share. Requests are small: a rate that comes in large heaps is none."""
    share = max(1, rate // tasks)
    return {"maxRowsPerSecond": str(share), "batchRows": str(min(max(1, share // _STEPS_PER_S), 1000))}
