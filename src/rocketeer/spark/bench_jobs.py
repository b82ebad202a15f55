"""What `rocketeer bench spark-jobs` measures, in a process of its own: `python -m rocketeer.spark.bench_jobs JSON`.

Jobs over the same messages, beside Spark copying the rows from Parquet to Parquet. Prints figures as one JSON line.
"""

import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

from pyspark.sql import SparkSession

from rocketeer.spark.bench import Peaks
from rocketeer.spark.jobs.archive import ArchiveTerms, archive
from rocketeer.spark.jobs.audit import audit
from rocketeer.spark.sessions import session

Work: TypeAlias = Callable[[], None]

COPY: Final = "parquet copy"
ARCHIVE: Final = "archive"
AUDIT: Final = "audit"


def jobs(spark: SparkSession, plan: dict[str, Any], folder: Path) -> dict[str, Work]:
    """Name -> what one round does. A new job's figure is one more entry here."""
    rows, copied, lake = folder / "rows", folder / "copied", folder / "lake"

    def archive_once() -> None:
        shutil.rmtree(lake, ignore_errors=True)
        terms = ArchiveTerms(
            topics=[plan["topic"]], nameserver=plan["nameserver"], compression=plan["compression"]
        )
        done = archive(spark, lake, terms)
        assert done.rows == plan["count"], f"{done.rows} messages were archived, {plan['count']} are there"

    def audit_once() -> None:
        report = audit(spark, plan["store"])
        assert report.ok, report.table()
        plan["log_bytes"] = report.facts["log bytes"]

    source = spark.read.format("rocketmq").option("nameserver", plan["nameserver"])
    source.option("subscribe", plan["topic"]).load().write.parquet(str(rows))
    return {
        COPY: lambda: spark.read.parquet(str(rows)).write.mode("overwrite").parquet(str(copied)),
        ARCHIVE: archive_once,
        AUDIT: audit_once,
    }


def measure(spark: SparkSession, plan: dict[str, Any]) -> dict[str, int]:
    """Messages/s, the median of all rounds; the jobs take turns, so that a noisy moment hits them alike."""
    work = jobs(spark, plan, Path(plan["folder"]))
    rates: dict[str, list[float]] = {name: [] for name in work}
    for number in range(plan["rounds"] + 1):  # the first one warms up
        for name, once in work.items():
            began_s = time.monotonic()
            once()
            if number:
                rates[name].append(plan["count"] / (time.monotonic() - began_s))
    figures = {name: round(statistics.median(found)) for name, found in rates.items()}
    figures["audit MB/s"] = round(figures[AUDIT] * plan["log_bytes"] / plan["count"] / 1e6)
    return figures


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
