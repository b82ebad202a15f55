"""`rocketeer bench spark-jobs`: jobs over a topic's messages, beside Spark copying the same rows Parquet to Parquet.

Starts a broker and fills it; the Spark part is `rocketeer.spark.bench_jobs`, in a process of its own, because only
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
from rocketeer.bench.spark import TOPIC, fill
from rocketeer.client.sync.producer import Producer
from rocketeer.model.message import Message

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
    if importlib.util.find_spec("pyspark") is None:
        console.print("[red]bench spark-jobs needs PySpark: pip install 'rocketeer[spark]'[/red]")
        raise typer.Exit(1)
    figures = _measure(folder, messages, body_bytes, queues, rounds, compression, master)
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
    if json is not None:
        json.write_text(json_text.dumps(figures, indent=2) + "\n")
    if not good:
        raise typer.Exit(1)


def _measure(
    folder: Path | None,
    messages: int,
    body_bytes: int,
    queues: int,
    rounds: int,
    compression: str,
    master: str,
) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory(prefix="rocketeer-bench-", dir=folder) as name,
        Cluster("ours", Path(name), conf={"defaultTopicQueueNums": queues}) as cluster,
    ):
        with Producer("BENCH_SPARK_FILL", nameserver=cluster.namesrv) as producer:
            producer.send(Message(TOPIC, b"first"))  # makes the topic
            fill(producer, messages, body_bytes, queues)
        plan = {
            "nameserver": cluster.namesrv,
            "store": str(cluster.store),
            "topic": TOPIC,
            "count": messages + 1,
            "rounds": rounds,
            "compression": compression,
            "master": master,
            "folder": name,
        }
        command = [sys.executable, "-m", "rocketeer.spark.bench_jobs", json_text.dumps(plan)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("FIGURES "):
            found: dict[str, Any] = json_text.loads(line.removeprefix("FIGURES "))
            return found
    console.print(f"[red]the Spark process ended with {done.returncode}[/red]\n{done.stderr[-4000:]}")
    raise typer.Exit(1)
