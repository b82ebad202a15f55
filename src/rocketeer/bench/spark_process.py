"""What the three Spark benches share: a filled broker of ours, and a process of its own that measures with PySpark.

Only `rocketeer.spark` may import PySpark, so the measuring is a module there, told its plan as JSON; it prints how
far it is, and its figures as one line.
"""

import importlib.util
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import typer

from rocketeer.bench.compare import console
from rocketeer.bench.kafka import KafkaServer
from rocketeer.bench.processes import ServerFailed
from rocketeer.bench.servers import ServerCluster
from rocketeer.bench.session import scratch
from rocketeer.client.sync.producer import Producer
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue

FIGURES: Final = "FIGURES "
_BATCH_BYTES: Final = 500_000
_UNDER_WAY: Final = 16


def need_pyspark(command: str) -> None:
    """Say what to install, before a broker is started for nothing."""
    if importlib.util.find_spec("pyspark") is None:
        console.print(f"[red]bench {command} needs PySpark: pip install 'rocketeer\\[spark]'[/red]")
        raise typer.Exit(1)


def leave(figures: dict[str, Any], file: Path | None, *, good: bool) -> None:
    """Write the figures, if a file was named, and fail if a bar was missed."""
    if file is not None:
        file.write_text(json.dumps(figures, indent=2) + "\n")
    if not good:
        raise typer.Exit(1)


@contextmanager
def filled_topic(
    folder: Path | None, topic: str, queues: int, count: int = 0, body_bytes: int = 0, *, kafka: bool = False
) -> Iterator[dict[str, Any]]:
    """A broker with `count` messages in the topic, and one more that made it; yields the common part of a plan.

    With `kafka` an empty Kafka runs beside it.
    """
    with (
        scratch(folder) as base,
        ServerCluster("ours", base, conf={"defaultTopicQueueNums": queues}) as cluster,
        _kafka(base / "kafka", queues) if kafka else nullcontext() as other,
    ):
        with Producer("BENCH_SPARK_FILL", nameserver=cluster.namesrv) as producer:
            producer.send(Message(topic, b"first"))
            if count:
                console.print(f"storing {count:,} messages of {body_bytes} bytes", style="dim")
                _fill(producer, topic, count, body_bytes, queues)
        plan = {
            "nameserver": cluster.namesrv,
            "store": str(cluster.store),
            "topic": topic,
            "count": count + 1,
            "folder": str(base),
            **({"kafka": other.address, "classes": other.spark_classes} if other is not None else {}),
        }
        try:
            yield plan
        except typer.Exit:
            if other is not None:
                console.print(other.last_lines(), markup=False)
            raise


def _kafka(folder: Path, partitions: int) -> KafkaServer:
    try:
        return KafkaServer(folder, partitions=partitions)
    except ServerFailed as error:
        console.print(f"[red]{error}[/red]")
        raise typer.Exit(1) from None


def measured(module: str, plan: dict[str, Any]) -> dict[str, Any]:
    """Run `rocketeer.spark.<module>` with the plan and return its figures; what it says meanwhile is shown."""
    command = [sys.executable, "-m", f"rocketeer.spark.{module}", json.dumps(plan)]
    figures: dict[str, Any] | None = None
    with tempfile.TemporaryFile("w+") as complaints:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(FIGURES):
                    figures = json.loads(line.removeprefix(FIGURES))
                else:
                    console.print(line.rstrip(), style="dim", highlight=False, markup=False)
        if figures is None:
            complaints.seek(0)
            console.print(f"[red]the Spark process ended with {process.returncode}[/red]")
            console.print(complaints.read()[-4000:], markup=False)
            raise typer.Exit(1)
    return figures


def _fill(producer: Producer, topic: str, count: int, body_bytes: int, queues: int) -> None:
    """Bodies that do not compress, so that Parquet has to read as many bytes; ten tags."""
    noise = random.Random(7).randbytes(4 << 20)
    in_batch = max(_BATCH_BYTES // (body_bytes + 200), 1)
    waiting = []
    for number, begin in enumerate(range(0, count, in_batch)):
        batch = [
            Message(
                topic,
                noise[(begins := at * 977 % (len(noise) - body_bytes)) : begins + body_bytes],
                tags=f"tag{at % 10}",
                keys=f"key{at}",
            )
            for at in range(begin, min(begin + in_batch, count))
        ]
        waiting.append(producer.send_async(batch, queue=MessageQueue(topic, "broker-a", number % queues)))
        if len(waiting) >= _UNDER_WAY:
            waiting.pop(0).result(60)
    for future in waiting:
        future.result(60)
