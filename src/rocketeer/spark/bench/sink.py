"""What `rocketeer bench spark-sink` measures, in a process of its own: `python -m rocketeer.spark.bench.sink JSON`.

The same rows, read from Parquet, written three ways: to Parquet again, to a topic at least once, and effectively
once; to Kafka, if there is one. Prints figures as one JSON line.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rocketeer.spark.bench.measuring import rates_in_turn, report


def make_rows(spark: SparkSession, count: int, body_bytes: int, path: str) -> DataFrame:
    """Bodies that hardly compress, as Parquet would otherwise have less to write."""
    blocks = (body_bytes + 63) // 64
    noise = ", ".join(f"sha2(concat(id, '-{block}'), 256)" for block in range(blocks))
    rows = spark.range(0, count, 1, 4).selectExpr(
        "id", f"encode(left(concat({noise}), {body_bytes}), 'utf-8') body", "concat('tag', id % 10) tags"
    )
    rows.write.parquet(path)
    return spark.read.parquet(path)


def to_kafka(rows: DataFrame, plan: dict[str, Any]) -> None:
    """The same with Spark's own sink for Kafka; it waits for all replicas, of which there is one."""
    chosen = rows.selectExpr("tags as key", "body as value")
    chosen.write.format("kafka").option("kafka.bootstrap.servers", plan["kafka"]).option(
        "topic", plan["topic"]
    ).save()


def measure(spark: SparkSession, plan: dict[str, Any]) -> dict[str, Any]:
    """Rows/s of every way to write them."""
    folder = Path(plan["folder"])
    rows = make_rows(spark, plan["count"], plan["body_bytes"], str(folder / "rows"))
    options = {"nameserver": plan["nameserver"], "topic": plan["topic"]}
    once = {**options, "delivery": "effectively-once", "idColumn": "id"}

    def to_topic(frame: DataFrame, given: dict[str, str]) -> None:
        frame.write.format("rocketmq").options(**given).mode("append").save()

    ways: dict[str, Callable[[], None]] = {
        "parquet": lambda: rows.write.mode("overwrite").parquet(str(folder / "written")),
        "topic, at least once": lambda: to_topic(rows.drop("id"), options),
        "topic, effectively once": lambda: to_topic(rows, once),
    }
    if "kafka" in plan:
        ways["kafka"] = lambda: to_kafka(rows, plan)
    return dict(rates_in_turn(ways, plan["count"], plan["rounds"]))


if __name__ == "__main__":
    report(measure)
