"""What a JVM does before its classes are put into an archive: a little of all that jobs do, on rows made up here."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

Row: TypeAlias = tuple[Any, ...]

_FORMAT: Final = "rocketeer-training"
_SCHEMA: Final = (
    "topic string, queueId int, queueOffset long, body binary, tags string, properties map<string,string>, "
    "storeTimestamp timestamp"
)
_ROWS: Final = 10


def train(spark: SparkSession, folder: Path) -> None:
    """Run queries, batches of a stream and files of a lake; `folder` takes what is written."""
    spark.dataSource.register(TrainingSource)
    rows = spark.read.format(_FORMAT).load()
    rows.createOrReplaceTempView("Training")
    _query(spark)
    _lake(rows, folder / "lake")
    _stream(spark, folder / "checkpoint")


def _query(spark: SparkSession) -> None:
    spark.sql("SELECT count(*) AS n FROM Training").collect()
    statement = """
        SELECT tags, count(DISTINCT queueId), sum(get_json_object(CAST(body AS STRING), '$.amount')) AS amount,
               max(storeTimestamp), percentile_approx(queueOffset, 0.9)
        FROM Training WHERE queueOffset > 1 AND properties['k'] IS NOT NULL GROUP BY tags ORDER BY amount DESC
    """
    for row in spark.sql(statement).toLocalIterator(prefetchPartitions=True):
        str(row)
    opened = f.from_json(f.col("body").cast("string"), "id long, amount double")
    bodies = spark.table("Training").withColumn("parsed", opened).select("parsed.*", "queueId")
    bodies.join(bodies.groupBy("queueId").agg(f.max("amount")), "queueId").orderBy("id").limit(3).collect()


def _lake(rows: DataFrame, lake: Path) -> None:
    rows.write.parquet(str(lake))
    spark = rows.sparkSession
    spark.read.parquet(str(lake)).where("queueId = 1").groupBy("topic").count().collect()
    spark.createDataFrame([("a", 1)], "name string, number int").mapInArrow(_as_is, "name string").collect()


def _as_is(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.select(["name"])


def _stream(spark: SparkSession, checkpoint: Path) -> None:
    windows = f.window("storeTimestamp", "2 seconds")
    sums = (
        spark.readStream.format(_FORMAT)
        .load()
        .withWatermark("storeTimestamp", "1 second")
        .groupBy(windows)
        .count()
    )
    writer = sums.writeStream.outputMode("append").option("checkpointLocation", str(checkpoint))
    query = writer.foreachBatch(_count).trigger(availableNow=True).start()
    query.awaitTermination()


def _count(batch: DataFrame, number: int) -> None:
    batch.count()


class TrainingSource(DataSource):
    """A few rows in the shape of messages."""

    @classmethod
    def name(cls) -> str:
        return _FORMAT

    def schema(self) -> str:
        return _SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader()

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        return _StreamReader()


class _Reader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        return iter(_rows(partition.value))


class _StreamReader(SimpleDataSourceStreamReader):
    """One batch, then nothing."""

    def initialOffset(self) -> dict[str, int]:
        return {"batch": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[Row], dict[str, int]]:
        return iter([] if start["batch"] else _rows(0)), {"batch": 1}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[Row]:
        return iter(_rows(0))


def _rows(queue: int) -> list[Row]:
    return [
        (
            "Training",
            queue,
            number,
            json.dumps({"id": number, "amount": number / 2}).encode(),
            f"t{number % 2}",
            {"k": str(number)},
            datetime.fromtimestamp(number, UTC),
        )
        for number in range(_ROWS)
    ]
