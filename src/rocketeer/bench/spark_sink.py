"""`rocketeer bench spark-sink`: rows into a topic with Spark, beside the same rows into Parquet."""

from typing import Annotated, Final

import typer
from rich.table import Table

from rocketeer.bench.compare import console
from rocketeer.bench.options import Folder, Json, KafkaOption
from rocketeer.bench.spark_process import filled_topic, leave, measured, need_pyspark

TOPIC: Final = "BenchSparkSink"
BARS: Final = {"topic, at least once": 1.5, "topic, effectively once": 1.0}
"""Smallest share of the rate of Spark's own Kafka sink."""


def spark_sink(
    rows: Annotated[int, typer.Option(min=1, help="Rows to write.")] = 500_000,
    body_bytes: Annotated[int, typer.Option("--body-bytes", "-b", min=1, help="Size of a body.")] = 1024,
    queues: Annotated[int, typer.Option("--queues", "-q", min=1, max=64, help="Queues of the topic.")] = 4,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each; the median counts.")] = 3,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[2]",
    kafka: KafkaOption = False,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Write rows with Spark: rows/s into a topic, beside Parquet; memory of the Python workers."""
    need_pyspark("spark-sink")
    with filled_topic(folder, TOPIC, queues, kafka=kafka) as plan:
        plan |= {"count": rows, "body_bytes": body_bytes, "rounds": rounds, "master": master}
        figures = measured("bench.sink", plan)
    table = Table("rows into", "rows/s", "of Parquet", "of Kafka", "bar", "")
    good = True
    for name, value in figures.items():
        if name.endswith(("MB", "us/row")):
            table.add_row(name, f"{value:,}")
            continue
        least = BARS.get(name) if kafka else None
        reached = least is None or value >= least * figures["kafka"]
        good &= reached
        table.add_row(
            name,
            f"{value:,}",
            f"{value / figures['parquet']:.0%}",
            f"{value / figures['kafka']:.2f} x" if kafka else "",
            "" if least is None else f">= {least:g} x",
            "" if least is None else "[green]yes[/green]" if reached else "[red]no[/red]",
        )
    console.print(table)
    leave(figures, json, good=good)
