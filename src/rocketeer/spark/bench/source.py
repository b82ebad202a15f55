"""What `rocketeer bench spark` measures, in a process of its own: `python -m rocketeer.spark.bench.source JSON`.

The same rows three ways, from a broker, from its store's files, from Parquet: an aggregation over two columns and a
scan of all; then how long a message takes through micro-batches with an empty sink. The same from Kafka, if there is
one. Prints figures as one JSON line.
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
    if "kafka" in plan:
        fill_kafka(spark.read.parquet(parquet), plan)
        work |= {
            "kafka aggregation": lambda: aggregate(
                kafka_rows(spark, plan).selectExpr("cast(key as string) tags", "value body"), count
            ),
            "kafka scan": lambda: scan(kafka_rows(spark, plan)),
        }
    return rates_in_turn(work, count, plan["rounds"])


def fill_kafka(rows: DataFrame, plan: dict[str, Any]) -> None:
    """The same messages; Kafka has no tags, so its key has them."""
    chosen = rows.selectExpr("tags as key", "body as value")
    chosen.write.format("kafka").option("kafka.bootstrap.servers", plan["kafka"]).option(
        "topic", plan["topic"]
    ).save()


def kafka_rows(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", plan["kafka"])
    return reader.option("subscribe", plan["topic"]).load()


def _source(spark: SparkSession, schema: str | None, **options: str) -> DataFrame:
    reader = spark.read.format("rocketmq").options(**options)
    return (reader if schema is None else reader.schema(schema)).load()


Place = tuple[tuple[str, ...], int]
"""The keys that lead to a queue's end in a checkpoint's offsets, and a message's offset in that queue."""


def latencies_ms(spark: SparkSession, plan: dict[str, Any]) -> list[float]:
    """Of messages through our source."""
    topic = plan["topic"]
    frame = (
        spark.readStream.format("rocketmq")
        .option("nameserver", plan["nameserver"])
        .option("subscribe", topic)
        .option("pollInterval", "10ms")
        .load()
    )
    with Producer("BENCH_SPARK", nameserver=plan["nameserver"]) as producer:

        def send() -> Place:
            result = producer.send(Message(topic, b"x" * 100))
            return (topic, result.queue.broker_name, str(result.queue.queue_id)), result.queue_offset

        return timed(frame, send, str(Path(plan["folder"], "checkpoint")), plan["latency_s"])


def kafka_latencies_ms(spark: SparkSession, plan: dict[str, Any]) -> list[float]:
    """Of messages through Spark's own source, sent one by one by Kafka's own producer."""
    jvm: Any = spark._jvm
    topic = plan["topic"]
    settings = jvm.java.util.HashMap()
    settings.put("bootstrap.servers", plan["kafka"])
    serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
    for part in ("key", "value"):
        settings.put(f"{part}.serializer", serializer)
    producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(settings)
    frame = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", plan["kafka"])
        .option("subscribe", topic)
        .load()
    )

    def send() -> Place:
        record = jvm.org.apache.kafka.clients.producer.ProducerRecord(topic, b"x" * 100)
        stored = producer.send(record).get()
        return (topic, str(stored.partition())), stored.offset()

    try:
        send()  # it makes the topic
        return timed(frame, send, str(Path(plan["folder"], "kafka-checkpoint")), plan["latency_s"])
    finally:
        producer.close()


def timed(frame: DataFrame, send: Callable[[], Place], checkpoint: str, seconds: float) -> list[float]:
    """From the call of `send` to the end of the micro-batch that has the message, one message every 20 ms."""
    query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    sent: list[tuple[float, Place]] = []
    try:
        _send_slowly(send, seconds / 2)  # the JVM compiles meanwhile
        sent = _send_slowly(send, seconds)
        time.sleep(3)
        batches = [
            (_ends_ms(progress), json.loads(progress.sources[0].endOffset))
            for progress in query.recentProgress
            if progress.numInputRows
        ]
    finally:
        query.stop()
    found = []
    for sent_ms, (keys, offset) in sent:
        ends = [ended_ms for ended_ms, end in batches if _end_at(end, keys) > offset]
        if ends:
            found.append(min(ends) - sent_ms)
    return sorted(found)


def _end_at(offsets: Any, keys: tuple[str, ...]) -> int:
    for key in keys:
        offsets = offsets[key]
    return int(offsets)


def _send_slowly(send: Callable[[], Place], seconds: float) -> list[tuple[float, Place]]:
    end_s = time.monotonic() + seconds
    sent = []
    while time.monotonic() < end_s:
        now_ms = time.time() * 1000
        sent.append((now_ms, send()))
        time.sleep(0.02)
    return sent


def _ends_ms(progress: Any) -> float:
    began = datetime.fromisoformat(str(progress.timestamp).replace("Z", "+00:00"))
    return began.timestamp() * 1000 + float(progress.durationMs["triggerExecution"])


def measure(spark: SparkSession, plan: dict[str, Any]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    if plan["rounds"]:
        figures |= throughput(spark, plan)
    if plan["latency_s"]:
        figures |= _percentiles("", latencies_ms(spark, plan))
        if "kafka" in plan:
            figures |= _percentiles("kafka ", kafka_latencies_ms(spark, plan))
    return figures


def _percentiles(name: str, found: list[float]) -> dict[str, Any]:
    return {
        f"{name}messages timed": len(found),
        f"{name}p50 ms": round(found[len(found) // 2]) if found else None,
        f"{name}p99 ms": round(found[len(found) * 99 // 100]) if found else None,
    }


if __name__ == "__main__":
    report(measure)
