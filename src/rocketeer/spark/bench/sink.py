"""What `rocketeer bench spark-sink` measures, in a process of its own: `python -m rocketeer.spark.bench.sink JSON`.

The same rows, read from Parquet, written three ways: to Parquet again, to a topic at least once, and effectively
once; to Kafka, if there is one. Prints figures as one JSON line.
"""

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from rocketeer.spark.bench import kafka
from rocketeer.spark.bench.measuring import CpuMeter, rates_in_turn, report

AT_LEAST: Final = "topic, at least once"
ONCE: Final = "topic, effectively once"


def make_rows(spark: SparkSession, count: int, body_bytes: int, path: str) -> DataFrame:
    """Bodies that hardly compress, as Parquet would otherwise have less to write."""
    blocks = (body_bytes + 63) // 64
    noise = ", ".join(f"sha2(concat(id, '-{block}'), 256)" for block in range(blocks))
    rows = spark.range(0, count, 1, 4).selectExpr(
        "id", f"encode(left(concat({noise}), {body_bytes}), 'utf-8') body", "concat('tag', id % 10) tags"
    )
    rows.write.parquet(path)
    return spark.read.parquet(path)


def measure(spark: SparkSession, plan: dict[str, Any]) -> dict[str, Any]:
    """Rows/s of every way to write them, and what a row costs in Python processes."""
    folder = Path(plan["folder"])
    rows = make_rows(spark, plan["count"], plan["body_bytes"], str(folder / "rows"))
    options = {"nameserver": plan["nameserver"], "topic": plan["topic"]}
    once = {**options, "delivery": "effectively-once", "idColumn": "id"}

    spent: dict[str, list[float]] = {AT_LEAST: [], ONCE: []}

    def to_topic(name: str, frame: DataFrame, given: dict[str, str]) -> None:
        meter = CpuMeter(only_python=True)
        frame.write.format("rocketmq").options(**given).mode("append").save()
        spent[name].append(meter.seconds())

    ways: dict[str, Callable[[], None]] = {
        "parquet": lambda: rows.write.mode("overwrite").parquet(str(folder / "written")),
        AT_LEAST: lambda: to_topic(AT_LEAST, rows.drop("id"), options),
        ONCE: lambda: to_topic(ONCE, rows, once),
    }
    if "kafka" in plan:
        kafka.make_topic(spark, plan)
        ways["kafka"] = lambda: kafka.write(rows, plan)
    figures: dict[str, Any] = dict(rates_in_turn(ways, plan["count"], plan["rounds"]))
    for name, found in spent.items():
        warm_s = statistics.median(found[1:])
        figures[f"{name}: Python us/row"] = round(warm_s / plan["count"] * 1e6, 2)
    return figures


if __name__ == "__main__":
    report(measure)
