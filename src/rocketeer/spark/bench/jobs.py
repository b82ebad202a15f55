"""What `rocketeer bench spark-jobs` measures, in a process of its own: `python -m rocketeer.spark.bench.jobs JSON`.

Jobs over the same messages, beside Spark copying the rows from Parquet to Parquet. Prints figures as one JSON line.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

from pyspark.sql import SparkSession

from rocketeer.spark.bench.measuring import rates_in_turn, report
from rocketeer.spark.jobs.archive.command import ArchiveTerms, archive
from rocketeer.spark.jobs.audit.command import audit

JobRun: TypeAlias = Callable[[], None]

COPY: Final = "parquet copy"
ARCHIVE: Final = "archive"
AUDIT: Final = "audit"


def jobs(spark: SparkSession, plan: dict[str, Any], folder: Path) -> dict[str, JobRun]:
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


def measure(spark: SparkSession, plan: dict[str, Any]) -> dict[str, Any]:
    """Messages/s of every job; the audit's in MB of the log as well."""
    figures = rates_in_turn(jobs(spark, plan, Path(plan["folder"])), plan["count"], plan["rounds"])
    return figures | {"audit MB/s": round(figures[AUDIT] * plan["log_bytes"] / plan["count"] / 1e6)}


if __name__ == "__main__":
    report(measure)
