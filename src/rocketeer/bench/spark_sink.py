"""`rocketeer bench spark-sink`: rows into a topic with Spark, beside the same rows into Parquet.

Starts a broker; the Spark part is `rocketeer.spark.bench_sink`, in a process of its own, because only
`rocketeer.spark` may import PySpark.
"""

import importlib.util
import json as json_text
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from rocketeer.bench.compare import console
from rocketeer.bench.options import Folder, Json
from rocketeer.bench.servers import Cluster
from rocketeer.client.sync.producer import Producer
from rocketeer.model.message import Message

TOPIC: Final = "BenchSparkSink"


def spark_sink(
    rows: Annotated[int, typer.Option(min=1, help="Rows to write.")] = 500_000,
    body_bytes: Annotated[int, typer.Option("--body-bytes", "-b", min=1, help="Size of a body.")] = 1024,
    queues: Annotated[int, typer.Option("--queues", "-q", min=1, max=64, help="Queues of the topic.")] = 4,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each; the median counts.")] = 3,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[2]",
    folder: Folder = None,
    json: Json = None,
) -> None:
    """Write rows with Spark: rows/s into a topic, beside Parquet; memory of the Python workers."""
    if importlib.util.find_spec("pyspark") is None:
        console.print("[red]bench spark-sink needs PySpark: pip install 'rocketeer[spark]'[/red]")
        raise typer.Exit(1)
    figures = _measure(folder, rows, body_bytes, queues, rounds, master)
    table = Table("rows into", "rows/s", "of Parquet")
    for name, value in figures.items():
        share = "" if name.endswith("MB") else f"{value / figures['parquet']:.0%}"
        table.add_row(name, f"{value:,}", share)
    console.print(table)
    if json is not None:
        json.write_text(json_text.dumps(figures, indent=2) + "\n")


def _measure(
    folder: Path | None, rows: int, body_bytes: int, queues: int, rounds: int, master: str
) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory(prefix="rocketeer-bench-", dir=folder) as name,
        Cluster("ours", Path(name), conf={"defaultTopicQueueNums": queues}) as cluster,
    ):
        with Producer("BENCH_SPARK_SINK", nameserver=cluster.namesrv) as producer:
            producer.send(Message(TOPIC, b"first"))  # makes the topic
        plan = {
            "nameserver": cluster.namesrv,
            "topic": TOPIC,
            "count": rows,
            "body_bytes": body_bytes,
            "rounds": rounds,
            "master": master,
            "folder": name,
        }
        command = [sys.executable, "-m", "rocketeer.spark.bench_sink", json_text.dumps(plan)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("FIGURES "):
            found: dict[str, Any] = json_text.loads(line.removeprefix("FIGURES "))
            return found
    console.print(f"[red]the Spark process ended with {done.returncode}[/red]\n{done.stderr[-4000:]}")
    raise typer.Exit(1)
