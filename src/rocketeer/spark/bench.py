"""What `rocketeer bench spark` measures, in a process of its own: `python -m rocketeer.spark.bench JSON`.

The same rows three ways, from a broker, from its store's files, from Parquet: an aggregation over two columns and a
scan of all; then how long a message takes through micro-batches with an empty sink. Prints figures as one JSON line.
"""

import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rocketeer.client.sync.producer import Producer
from rocketeer.model.message import Message
from rocketeer.spark.sessions import session

AGGREGATED: Final = "tags string, body binary"
_KB: Final = 1024


class Peaks:
    """The largest anonymous memory of any Python worker below this process, looked at all the time."""

    def __init__(self) -> None:
        self.worker_kb = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Peaks":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    command = (folder / "cmdline").read_bytes()
                    if b"pyspark.daemon" in command or b"pyspark.worker" in command:
                        status = (folder / "status").read_text()
                        kb = int(status.split("RssAnon:")[1].split()[0])
                        self.worker_kb = max(self.worker_kb, kb)
                except (OSError, IndexError, ValueError):
                    continue  # it has ended meanwhile


def aggregate(frame: DataFrame) -> int:
    """Count and sum by tag; how many rows it saw."""
    rows = (
        frame.groupBy("tags").agg(f.count("*").alias("n"), f.sum(f.length("body")).alias("bytes")).collect()
    )
    return sum(int(row.n) for row in rows)


def scan(frame: DataFrame) -> int:
    """Every column of every row into nothing."""
    frame.write.format("noop").mode("overwrite").save()
    return -1


def rate(work: Callable[[], int], count: int, rounds: int) -> list[float]:
    """Records/s of each round, after one to warm up."""
    rates = []
    for number in range(rounds + 1):
        began_s = time.monotonic()
        seen = work()
        took_s = time.monotonic() - began_s
        if seen not in (-1, count):
            raise AssertionError(f"{seen} rows were read, {count} are there")
        if number:
            rates.append(count / took_s)
    return rates


def throughput(spark: SparkSession, plan: dict[str, Any], folder: Path) -> dict[str, list[float]]:
    """Rounds of all ways take turns, so that a noisy moment hits them alike."""

    def broker(schema: str | None) -> DataFrame:
        return _source(spark, schema, nameserver=plan["nameserver"], subscribe=plan["topic"])

    def files(schema: str | None) -> DataFrame:
        return _source(spark, schema, storePath=plan["store"], subscribe=plan["topic"])

    parquet = str(folder / "parquet")
    broker(None).write.parquet(parquet)
    count, rounds = plan["count"], plan["rounds"]
    work: dict[str, Callable[[], int]] = {
        "parquet aggregation": lambda: aggregate(spark.read.parquet(parquet).select("tags", "body")),
        "broker aggregation": lambda: aggregate(broker(AGGREGATED)),
        "files aggregation": lambda: aggregate(files(AGGREGATED)),
        "parquet scan": lambda: scan(spark.read.parquet(parquet)),
        "broker scan": lambda: scan(broker(None)),
        "files scan": lambda: scan(files(None)),
    }
    return {name: rate(task, count, rounds) for name, task in work.items()}


def _source(spark: SparkSession, schema: str | None, **options: str) -> DataFrame:
    reader = spark.read.format("rocketmq").options(**options)
    return (reader if schema is None else reader.schema(schema)).load()


def latencies_ms(spark: SparkSession, plan: dict[str, Any], folder: Path) -> list[float]:
    """From the call of `send` to the end of the micro-batch that has the message, one message every 20 ms."""
    topic = plan["topic"]
    frame = (
        spark.readStream.format("rocketmq")
        .option("nameserver", plan["nameserver"])
        .option("subscribe", topic)
        .option("pollInterval", "10ms")
        .load()
    )
    query = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint")).start()
    sent: list[tuple[float, str, int]] = []
    try:
        with Producer("BENCH_SPARK", nameserver=plan["nameserver"]) as producer:
            _send_slowly(producer, topic, plan["latency_s"] / 2, [])  # the JVM compiles meanwhile
            _send_slowly(producer, topic, plan["latency_s"], sent)
            time.sleep(3)
        batches = [
            (_ends_ms(progress), json.loads(progress.sources[0].endOffset)[topic])
            for progress in query.recentProgress
            if progress.numInputRows
        ]
    finally:
        query.stop()
    found = []
    for sent_ms, place, offset in sent:
        broker, queue = place.split("/")
        ends = [ended_ms for ended_ms, end in batches if int(end[broker][queue]) > offset]
        if ends:
            found.append(min(ends) - sent_ms)
    return sorted(found)


def _send_slowly(producer: Producer, topic: str, seconds: float, sent: list[tuple[float, str, int]]) -> None:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        now_ms = time.time() * 1000
        result = producer.send(Message(topic, b"x" * 100))
        sent.append((now_ms, f"{result.queue.broker_name}/{result.queue.queue_id}", result.queue_offset))
        time.sleep(0.02)


def _ends_ms(progress: Any) -> float:
    began = datetime.fromisoformat(str(progress.timestamp).replace("Z", "+00:00"))
    return began.timestamp() * 1000 + float(progress.durationMs["triggerExecution"])


def main(plan: dict[str, Any]) -> dict[str, Any]:
    spark = session(
        "rocketeer-bench",
        master=plan["master"],
        config={
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "2g",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.streaming.numRecentProgressUpdates": "2000",
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    figures: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(prefix="rocketeer-bench-spark-", dir=plan["folder"]) as name,
        Peaks() as peaks,
    ):
        folder = Path(name)
        if plan["count"]:
            rates = throughput(spark, plan, folder)
            figures |= {name: round(statistics.median(found)) for name, found in rates.items()}
        if plan["latency_s"]:
            found = latencies_ms(spark, plan, folder)
            figures["messages timed"] = len(found)
            figures["p50 ms"] = round(found[len(found) // 2]) if found else None
            figures["p99 ms"] = round(found[len(found) * 99 // 100]) if found else None
    figures["python worker peak MB"] = peaks.worker_kb // _KB
    spark.stop()
    return figures


if __name__ == "__main__":
    print("FIGURES " + json.dumps(main(json.loads(sys.argv[1]))), flush=True)
