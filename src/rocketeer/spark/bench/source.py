"""What `rocketeer bench spark` measures, in a process of its own: `python -m rocketeer.spark.bench.source JSON`.

The same rows three ways, from a broker, from its store's files, from Parquet: an aggregation over two columns and a
scan of all; then how long a message takes through micro-batches with an empty sink. Prints figures as one JSON line.
"""

import json
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rocketeer.client.sync.producer import Producer
from rocketeer.model.message import Message
from rocketeer.spark.bench.measuring import rates_in_turn, report

AGGREGATED: Final = "tags string, body binary"


def aggregate(frame: DataFrame, count: int) -> None:
    """Count and sum by tag; every row must be there."""
    rows = (
        frame.groupBy("tags").agg(f.count("*").alias("n"), f.sum(f.length("body")).alias("bytes")).collect()
    )
    seen = sum(int(row.n) for row in rows)
    assert seen == count, f"{seen} rows were read, {count} are there"


def scan(frame: DataFrame) -> None:
    """Every column of every row into nothing."""
    frame.write.format("noop").mode("overwrite").save()


def throughput(spark: SparkSession, plan: dict[str, Any]) -> dict[str, int]:
    """Records/s of every way to read the topic."""

    def broker(schema: str | None) -> DataFrame:
        return _source(spark, schema, nameserver=plan["nameserver"], subscribe=plan["topic"])

    def files(schema: str | None) -> DataFrame:
        return _source(spark, schema, storePath=plan["store"], subscribe=plan["topic"])

    parquet = str(Path(plan["folder"], "parquet"))
    broker(None).write.parquet(parquet)
    count = plan["count"]
    work: dict[str, Callable[[], None]] = {
        "parquet aggregation": lambda: aggregate(spark.read.parquet(parquet).select("tags", "body"), count),
        "broker aggregation": lambda: aggregate(broker(AGGREGATED), count),
        "files aggregation": lambda: aggregate(files(AGGREGATED), count),
        "parquet scan": lambda: scan(spark.read.parquet(parquet)),
        "broker scan": lambda: scan(broker(None)),
        "files scan": lambda: scan(files(None)),
    }
    return rates_in_turn(work, count, plan["rounds"])


def _source(spark: SparkSession, schema: str | None, **options: str) -> DataFrame:
    reader = spark.read.format("rocketmq").options(**options)
    return (reader if schema is None else reader.schema(schema)).load()


def latencies_ms(spark: SparkSession, plan: dict[str, Any]) -> list[float]:
    """From the call of `send` to the end of the micro-batch that has the message, one message every 20 ms."""
    topic = plan["topic"]
    frame = (
        spark.readStream.format("rocketmq")
        .option("nameserver", plan["nameserver"])
        .option("subscribe", topic)
        .option("pollInterval", "10ms")
        .load()
    )
    checkpoint = str(Path(plan["folder"], "checkpoint"))
    query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
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


def measure(spark: SparkSession, plan: dict[str, Any]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    if plan["rounds"]:
        figures |= throughput(spark, plan)
    if plan["latency_s"]:
        found = latencies_ms(spark, plan)
        figures["messages timed"] = len(found)
        figures["p50 ms"] = round(found[len(found) // 2]) if found else None
        figures["p99 ms"] = round(found[len(found) * 99 // 100]) if found else None
    return figures


if __name__ == "__main__":
    report(measure)
