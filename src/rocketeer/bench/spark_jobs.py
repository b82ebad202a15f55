"""`rocketeer bench spark-jobs`: jobs over a topic, beside Spark copying the same rows Parquet to Parquet."""

from typing import Annotated, Final

import typer
from rich.table import Table

from rocketeer.bench.compare import console
from rocketeer.bench.options import Folder, Json
from rocketeer.bench.spark_process import filled_topic, leave, measured, need_pyspark

TOPIC: Final = "BenchSparkJobs"
BARS: Final = {"archive": 80_000, "audit MB/s": 300}
"""Figure -> what it must reach with bodies of 1 KB on 2 cores, the broker beside it."""
BASE: Final = "parquet copy"


def spark_jobs(
    messages: Annotated[int, typer.Option(min=1, help="Messages of the topic.")] = 1_000_000,
    body_bytes: Annotated[int, typer.Option("--body-bytes", "-b", min=1, help="Size of a body.")] = 1024,
    queues: Annotated[int, typer.Option("--queues", "-q", min=1, max=64, help="Queues of the topic.")] = 4,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each; the median counts.")] = 3,
    compression: Annotated[str, typer.Option(help="Of the lake's files: zstd, lz4, snappy, none.")] = "zstd",
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[2]",
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Run jobs over a topic: messages/s, beside Spark copying Parquet; memory of the Python workers."""
    need_pyspark("spark-jobs")
    with filled_topic(folder, TOPIC, queues, messages, body_bytes) as plan:
        figures = measured(
            "bench.jobs", {**plan, "rounds": rounds, "compression": compression, "master": master}
        )
    table = Table("job", "messages/s", f"of {BASE}", "bar", "")
    good = True
    for name, value in figures.items():
        share = "" if name.endswith(("MB", "MB/s")) else f"{value / figures[BASE]:.0%}"
        bar = BARS.get(name)
        reached = bar is None or value >= bar
        good &= reached
        verdict = "" if bar is None else "[green]yes[/green]" if reached else "[red]no[/red]"
        table.add_row(name, f"{value:,}", share, "" if bar is None else f">= {bar:,}", verdict)
    console.print(table)
    leave(figures, json, good=good)
