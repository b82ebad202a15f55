"""What `rocketeer bench spark-sink` measures, in a process of its own: `python -m rocketeer.spark.bench_sink JSON`.

The same rows, read from Parquet, written three ways: to Parquet again, to a topic at least once, and effectively
once. Prints figures as one JSON line.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rocketeer.spark.bench import Peaks
from rocketeer.spark.sessions import session


def make_rows(spark: SparkSession, count: int, body_bytes: int, path: str) -> DataFrame:
    """Bodies that hardly compress, as Parquet would otherwise have less to write."""
    blocks = (body_bytes + 63) // 64
    noise = ", ".join(f"sha2(concat(id, '-{block}'), 256)" for block in range(blocks))
    rows = spark.range(0, count, 1, 4).selectExpr(
        "id", f"encode(left(concat({noise}), {body_bytes}), 'utf-8') body", "concat('tag', id % 10) tags"
    )
    rows.write.parquet(path)
    return spark.read.parquet(path)


def measure(spark: SparkSession, plan: dict[str, Any]) -> dict[str, int]:
    """Rows/s, the median of all rounds; the ways take turns, so that a noisy moment hits them alike."""
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
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(plan["rounds"] + 1):  # the first one warms up
        for name, write in ways.items():
            began_s = time.monotonic()
            write()
            if number:
                rates[name].append(plan["count"] / (time.monotonic() - began_s))
    return {name: round(statistics.median(found)) for name, found in rates.items()}


def main(plan: dict[str, Any]) -> dict[str, Any]:
    spark = session(
        "rocketeer-bench",
        master=plan["master"],
        config={
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": "2g",
            "spark.driver.host": "127.0.0.1",
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    with Peaks() as peaks:
        figures: dict[str, Any] = dict(measure(spark, plan))
    figures["python worker peak MB"] = peaks.worker_kb // 1024
    spark.stop()
    return figures


if __name__ == "__main__":
    print("FIGURES " + json.dumps(main(json.loads(sys.argv[1]))), flush=True)
