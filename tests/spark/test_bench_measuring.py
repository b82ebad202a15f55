"""What `rocketeer bench` says of CPU time is that of the processes it names."""

import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from rocketeer.spark.bench.measuring import CpuMeter

SPENT_S = 1.0


def test_cpu_time_of_python_is_without_that_of_the_jvm(spark: SparkSession) -> None:
    def burn(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        end_s = time.process_time() + SPENT_S
        while time.process_time() < end_s:
            pass

    spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()  # its worker is there
    python, both = CpuMeter(only_python=True), CpuMeter()
    while both.seconds() < SPENT_S:  # in the JVM alone
        spark.range(20_000_000).selectExpr("sum(hash(id))").collect()
    assert python.seconds() < SPENT_S / 2
    before_s = python.seconds()
    spark.range(0, 1, 1, 1).mapInArrow(burn, "id long").collect()
    assert python.seconds() - before_s >= SPENT_S * 0.9
