"""`rocketeer bench spark`: messages as rows, from a broker and from its files, beside the same rows in Parquet."""

import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from rocketeer.bench.compare import console
from rocketeer.bench.options import Folder, Json, KafkaOption
from rocketeer.bench.spark_process import filled_topic, leave, measured, need_pyspark
from rocketeer.bench.spark_sink import BARS as SINK_BARS

TOPIC: Final = "BenchSpark"
SMALL: Final = 1_000
COUNT: Final = f"SELECT count(*) AS n FROM {TOPIC}"  # noqa: S608


@dataclass(frozen=True)
class SparkBar:
    """A figure and what it must reach; `of` names the figure it is a share of."""

    figure: str
    least: float
    of: str


BARS: Final = (
    SparkBar("broker aggregation", 0.60, "parquet aggregation"),
    SparkBar("files aggregation", 0.85, "parquet aggregation"),
    SparkBar("broker scan", 0.50, "parquet scan"),
)
KAFKA_BARS: Final = (
    SparkBar("broker aggregation", 1.0, "kafka aggregation"),
    SparkBar("broker scan", 1.0, "kafka scan"),
    *(SparkBar(figure, least, "kafka") for figure, least in SINK_BARS.items()),
)
"""Beside Spark's own source and sink for Kafka in the same run."""
P50_MS_MAX: Final = 150
QUERY: Final = "query s"
LIMITS: Final = {"python worker peak MB": 500, "idle % of a core": 5, QUERY: 15}
"""Figure -> what it must stay under."""


def spark(
    messages: Annotated[int, typer.Option(min=0, help="Messages of 1 KB.")] = 1_000_000,
    small_messages: Annotated[int, typer.Option(min=0, help="Messages of 100 bytes.")] = 5_000_000,
    queues: Annotated[int, typer.Option("--queues", "-q", min=1, max=64, help="Queues of the topic.")] = 4,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each read; the median counts.")] = 3,
    latency_s: Annotated[float, typer.Option(min=0, help="Seconds of timed messages; 0: none.")] = 15,
    idle_s: Annotated[
        float, typer.Option(min=0, help="Seconds of a stream that has nothing to do; 0: none.")
    ] = 20,
    queries: Annotated[int, typer.Option(min=0, help="Times to run `rocketeer spark query`; 0: none.")] = 3,
    sink_rows: Annotated[
        int, typer.Option(min=0, help="Rows to write beside Kafka's sink; 0: none.")
    ] = 500_000,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[2]",
    kafka: KafkaOption = False,
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Read a topic with Spark: records/s beside Parquet, latency and cost of streams, the time of a command."""
    need_pyspark("spark")
    figures: dict[str, dict[str, Any]] = {}
    for label, count, body_bytes in (("1 KB", messages, 1024), ("100 B", small_messages, 100)):
        if count:
            with filled_topic(folder, TOPIC, queues, count, body_bytes, kafka=kafka) as plan:
                plan |= {"rounds": rounds, "latency_s": 0, "idle_s": 0, "master": master}
                figures[label] = measured("bench.source", plan)
    if latency_s or idle_s:
        with filled_topic(folder, TOPIC, queues, kafka=kafka) as plan:
            plan |= {"rounds": 0, "latency_s": latency_s, "idle_s": idle_s, "master": master}
            figures["micro-batches"] = measured("bench.source", plan)
    if queries:
        with filled_topic(folder, TOPIC, queues, SMALL, 1024) as plan:
            figures["a small topic"] = query_s(plan, master, queries)
    if kafka and sink_rows:
        with filled_topic(folder, TOPIC, queues, kafka=True) as plan:
            plan |= {"count": sink_rows, "body_bytes": 1024, "rounds": rounds, "master": master}
            figures["sink"] = measured("bench.sink", plan)
    good = show(figures)
    leave(figures, json, good=good)


def query_s(plan: dict[str, Any], master: str, rounds: int) -> dict[str, float]:
    """The whole of a command that counts the topic, from the shell's point of view; the median of all rounds.

    Rounds with class data and without it take turns. The archive is made here if this user has none yet.
    """
    began_s = time.monotonic()
    command = [sys.executable, "-m", "rocketeer.spark.class_data"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    state = "is there" if made.returncode == 0 else f"could not be made: {made.stderr.strip()[-200:]}"
    console.print(
        f"class data {state}, after {time.monotonic() - began_s:.1f} s", style="dim", highlight=False
    )
    kinds: dict[str, dict[str, str]] = {QUERY: {}, f"{QUERY}, first time": {"ROCKETEER_CLASS_DATA": "0"}}
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for number in range(1, rounds + 1):
        for kind, environment in kinds.items():
            found[kind].append(_one_query_s(plan, master, environment))
            line = f"{kind}, {number} of {rounds}: {found[kind][-1]:.1f}"
            console.print(line, style="dim", highlight=False)
    return {kind: round(statistics.median(times), 1) for kind, times in found.items()}


def _one_query_s(plan: dict[str, Any], master: str, environment: dict[str, str]) -> float:
    where = ["--nameserver", plan["nameserver"], "--master", master, "--quiet", "--format", "csv"]
    command = [sys.executable, "-m", "rocketeer", "spark", "query", *where, "-e", COUNT]
    began_s = time.monotonic()
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    took_s = time.monotonic() - began_s
    if ended.returncode or ended.stdout.split() != ["n", str(plan["count"])]:
        console.print(f"[red]the query ended with {ended.returncode}[/red]")
        console.print(f"{ended.stdout}{ended.stderr}"[-4000:], markup=False)
        raise typer.Exit(1)
    return took_s


def show(figures: dict[str, dict[str, Any]]) -> bool:
    """A table, and whether all bars were reached."""
    good = True
    table = Table("what", "figure", "value", "bar", "")
    for label, found in figures.items():
        bars = [bar for bar in (*BARS, *KAFKA_BARS) if label in ("1 KB", "sink") and bar.of in found]
        for name, value in found.items():
            wanted, share, reached = "", None, True
            for bar in bars:
                if bar.figure == name:
                    share = value / found[bar.of]
                    wanted += f"{', ' if wanted else ''}>= {bar.least:.0%} of {bar.of} ({share:.0%})"
                    reached &= share >= bar.least
            if name == "p50 ms":
                others = found.get("kafka p50 ms")
                limit = P50_MS_MAX if others is None else min(P50_MS_MAX, others)
                wanted, reached = f"< {limit}", value is not None and value < limit
            elif name in LIMITS:
                wanted, reached = f"< {LIMITS[name]}", value < LIMITS[name]
            good &= reached
            verdict = "" if not wanted else "[green]yes[/green]" if reached else "[red]no[/red]"
            figure = f"{value:,}" if value is not None else "-"
            table.add_row(label, name, figure, wanted, verdict)
    console.print(table)
    return good
