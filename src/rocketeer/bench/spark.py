"""`rocketeer bench spark`: messages as rows, from a broker and from its files, beside the same rows in Parquet.

Starts a broker and fills it; the Spark part is `rocketeer.spark.bench`, in a process of its own, because only
`rocketeer.spark` may import PySpark.
"""

import importlib.util
import json as json_text
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from rocketeer.bench.compare import console
from rocketeer.bench.options import Folder, Json
from rocketeer.bench.servers import Cluster
from rocketeer.client.sync.producer import Producer
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue

TOPIC: Final = "BenchSpark"
_BATCH_BYTES: Final = 500_000


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
    if importlib.util.find_spec("pyspark") is None:
        console.print("[red]bench spark needs PySpark: pip install 'rocketeer[spark]'[/red]")
        raise typer.Exit(1)
    figures: dict[str, dict[str, Any]] = {}
    for label, count, body_bytes in (("1 KB", messages, 1024), ("100 B", small_messages, 100)):
        if count:
            figures[label] = measure(folder, count, body_bytes, queues, rounds, 0.0, master)
    if latency_s:
        figures["micro-batches"] = measure(folder, 0, 100, queues, rounds, latency_s, master)
    good = show(figures)
    if json is not None:
        json.write_text(json_text.dumps(figures, indent=2) + "\n")
    if not good:
        raise typer.Exit(1)


def measure(
    folder: Path | None, count: int, body_bytes: int, queues: int, rounds: int, latency_s: float, master: str
) -> dict[str, Any]:
    """One broker, filled, and one Spark process that reads it."""
    with (
        tempfile.TemporaryDirectory(prefix="rocketeer-bench-", dir=folder) as name,
        Cluster("ours", Path(name), conf={"defaultTopicQueueNums": queues}) as cluster,
    ):
        with Producer("BENCH_SPARK_FILL", nameserver=cluster.namesrv) as producer:
            producer.send(Message(TOPIC, b"first"))  # makes the topic
            fill(producer, count, body_bytes, queues)
        plan = {
            "nameserver": cluster.namesrv,
            "store": str(cluster.store),
            "topic": TOPIC,
            "count": count + 1 if count else 0,
            "rounds": rounds,
            "latency_s": latency_s,
            "master": master,
            "folder": name,
        }
        command = [sys.executable, "-m", "rocketeer.spark.bench", json_text.dumps(plan)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("FIGURES "):
            found: dict[str, Any] = json_text.loads(line.removeprefix("FIGURES "))
            return found
    console.print(f"[red]the Spark process ended with {done.returncode}[/red]\n{done.stderr[-4000:]}")
    raise typer.Exit(1)


def fill(producer: Producer, count: int, body_bytes: int, queues: int) -> None:
    """Bodies that do not compress, so that Parquet has to read as many bytes; ten tags."""
    noise = random.Random(7).randbytes(4 << 20)
    in_batch = max(_BATCH_BYTES // (body_bytes + 200), 1)
    waiting = []
    for number, begin in enumerate(range(0, count, in_batch)):
        batch = [
            Message(
                TOPIC,
                noise[(begins := at * 977 % (len(noise) - body_bytes)) : begins + body_bytes],
                tags=f"tag{at % 10}",
                keys=f"key{at}",
            )
            for at in range(begin, min(begin + in_batch, count))
        ]
        waiting.append(producer.send_async(batch, queue=MessageQueue(TOPIC, "broker-a", number % queues)))
        if len(waiting) >= 16:
            waiting.pop(0).result(60)
    for future in waiting:
        future.result(60)


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
