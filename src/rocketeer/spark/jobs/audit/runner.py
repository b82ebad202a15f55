"""Runs the tasks of an audit on Spark."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rocketeer.audit.store import Runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


def with_spark(spark: "SparkSession") -> Runner:
    """Run tasks as Spark tasks; on a cluster every machine must have the store's folder under the same path."""

    def run_all(tasks: Sequence[T], work: Callable[[T], R]) -> list[R]:
        if not tasks:
            return []

        def run(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            for batch in batches:
                numbers = batch.column(0).to_pylist()
                values = [pickle.dumps(work(tasks[number])) for number in numbers]
                columns = [pa.array(numbers, pa.int64()), pa.array(values, pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, names=["id", "value"])

        frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, "id long, value binary")
        rows = sorted(frame.collect(), key=lambda row: int(row.id))
        return [pickle.loads(row.value) for row in rows]  # noqa: S301 our own tasks made them

    return run_all
