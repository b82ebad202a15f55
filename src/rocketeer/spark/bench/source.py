"""What `rocketeer bench spark` measures, in a process of its own: `python -m rocketeer.spark.bench.source JSON`.

The same rows three ways, from a broker, from its store's files, from Parquet: an aggregation over two columns and a
scan of all; then what streams take and cost (`streams.py`). The same from Kafka, if there is one. Prints figures
as one JSON line.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rocketeer.spark.bench import kafka, streams
from rocketeer.spark.bench.measuring import rates_in_turn, report

AGGREGATED: Final = "tags string, body binary"


def aggregate(frame: DataFrame, count: int) -> None:
    """Count and sum by tag; every row must be there."""
    rows = (
        frame.groupBy("tags").agg(f.count("*").alias("n"), f.sum(f.length("body")).alias("bytes")).collect()
    )
    seen = sum(int(row.n) for row in rows)
    assert seen == count, f"{seen} rows were read, {count} are there"


def scan(frame: DataFrame) -> None:
    """Every column of every row into nothing."""
    frame.write.format("noop").mode("overwrite").save()


def throughput(spark: SparkSession, plan: dict[str, Any]) -> dict[str, int]:
    """Records/s of every way to read the topic."""

    def broker(schema: str | None) -> DataFrame:
        return _source(spark, schema, nameserver=plan["nameserver"], subscribe=plan["topic"])

    def files(schema: str | None) -> DataFrame:
        return _source(spark, schema, storePath=plan["store"], subscribe=plan["topic"])

    parquet = str(Path(plan["folder"], "parquet"))
    broker(None).write.parquet(parquet)
    count = plan["count"]
    work: dict[str, Callable[[], None]] = {
        "parquet aggregation": lambda: aggregate(spark.read.parquet(parquet).select("tags", "body"), count),
        "broker aggregation": lambda: aggregate(broker(AGGREGATED), count),
        "files aggregation": lambda: aggregate(files(AGGREGATED), count),
        "parquet scan": lambda: scan(spark.read.parquet(parquet)),
        "broker scan": lambda: scan(broker(None)),
        "files scan": lambda: scan(files(None)),
    }
    if "kafka" in plan:
        kafka.write(spark.read.parquet(parquet), plan)
        work |= {
            "kafka aggregation": lambda: aggregate(
                kafka.rows(spark, plan).selectExpr("cast(key as string) tags", "value body"), count
            ),
            "kafka scan": lambda: scan(kafka.rows(spark, plan)),
        }
    return rates_in_turn(work, count, plan["rounds"])


def _source(spark: SparkSession, schema: str | None, **options: str) -> DataFrame:
    reader = spark.read.format("rocketmq").options(**options)
    return (reader if schema is None else reader.schema(schema)).load()


def measure(spark: SparkSession, plan: dict[str, Any]) -> dict[str, Any]:
    if "kafka" in plan:
        kafka.make_topic(spark, plan)
    return (throughput(spark, plan) if plan["rounds"] else {}) | streams.figures(spark, plan)


if __name__ == "__main__":
    report(measure)
