"""`rocketeer bench spark`: messages as rows, from a broker and from its files, beside the same rows in Parquet."""

import json as json_text
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from rocketeer.bench.compare import console
from rocketeer.bench.options import Folder, Json
from rocketeer.bench.spark_process import filled_topic, measured, need_pyspark

TOPIC: Final = "BenchSpark"


@dataclass(frozen=True)
class Bar:
    """A figure and what it must reach; `of` names the figure it is a share of."""

    figure: str
    least: float
    of: str


BARS: Final = (
    Bar("broker aggregation", 0.60, "parquet aggregation"),
    Bar("files aggregation", 0.85, "parquet aggregation"),
    Bar("broker scan", 0.50, "parquet scan"),
)
P50_MS_MAX: Final = 300
WORKER_MB_MAX: Final = 500


def spark(
    messages: Annotated[int, typer.Option(min=0, help="Messages of 1 KB.")] = 1_000_000,
    small_messages: Annotated[int, typer.Option(min=0, help="Messages of 100 bytes.")] = 5_000_000,
    queues: Annotated[int, typer.Option("--queues", "-q", min=1, max=64, help="Queues of the topic.")] = 4,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each read; the median counts.")] = 3,
    latency_s: Annotated[float, typer.Option(min=0, help="Seconds of timed messages; 0: none.")] = 15,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[2]",
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Read a topic with Spark: records/s beside Parquet, micro-batch latency, memory of the Python workers."""
    need_pyspark("spark")
    figures: dict[str, dict[str, Any]] = {}
    for label, count, body_bytes in (("1 KB", messages, 1024), ("100 B", small_messages, 100)):
        if count:
            with filled_topic(folder, TOPIC, queues, count, body_bytes) as plan:
                figures[label] = measured(
                    "bench.source", {**plan, "rounds": rounds, "latency_s": 0, "master": master}
                )
    if latency_s:
        with filled_topic(folder, TOPIC, queues) as plan:
            figures["micro-batches"] = measured(
                "bench.source", {**plan, "rounds": 0, "latency_s": latency_s, "master": master}
            )
    good = show(figures)
    if json is not None:
        json.write_text(json_text.dumps(figures, indent=2) + "\n")
    if not good:
        raise typer.Exit(1)


def show(figures: dict[str, dict[str, Any]]) -> bool:
    """A table, and whether all bars were reached."""
    good = True
    table = Table("what", "figure", "value", "bar", "")
    for label, found in figures.items():
        bars = {bar.figure: bar for bar in BARS} if label == "1 KB" else {}
        for name, value in found.items():
            wanted, share = "", None
            if name in bars:
                bar = bars[name]
                share = value / found[bar.of]
                wanted = f">= {bar.least:.0%} of {bar.of}"
                reached = share >= bar.least
            elif name == "p50 ms":
                wanted, reached = f"< {P50_MS_MAX}", value is not None and value < P50_MS_MAX
            elif name == "python worker peak MB":
                wanted, reached = f"< {WORKER_MB_MAX}", value < WORKER_MB_MAX
            else:
                reached = True
            good &= reached
            verdict = "" if not wanted else "[green]yes[/green]" if reached else "[red]no[/red]"
            figure = f"{value:,}" if value is not None else "-"
            table.add_row(label, name, figure + (f" ({share:.0%})" if share else ""), wanted, verdict)
    console.print(table)
    return good
