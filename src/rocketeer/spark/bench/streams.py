"""How long messages take through micro-batches with an empty sink, and what a stream costs that has nothing to do."""

import json
import statistics
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rocketeer.client.sync.producer import Producer
from rocketeer.model.message import Message
from rocketeer.spark.bench import kafka
from rocketeer.spark.bench.measuring import CpuMeter

CheckpointPosition: TypeAlias = tuple[tuple[str, ...], int]
"""The keys that lead to a queue's end in a checkpoint's offsets, and a message's offset in that queue."""
BODY: Final = b"x" * 100
SETTLE_S: Final = 10.0
"""The JVM compiles what it has just run, which is no cost of an idle stream."""


def figures(spark: SparkSession, plan: dict[str, Any]) -> dict[str, Any]:
    """Percentiles of the latency, and % of a core of an idle stream; Kafka's beside ours if there is one."""
    found: dict[str, Any] = {}
    if plan["latency_s"]:
        found |= latencies(spark, plan)
    if plan["idle_s"]:
        found["idle % of a core"] = idle_percent(_stream(spark, plan), plan, "idle")
        if "kafka" in plan:
            found["kafka idle % of a core"] = idle_percent(kafka.stream(spark, plan), plan, "kafka-idle")
    return found


def latencies(spark: SparkSession, plan: dict[str, Any]) -> dict[str, Any]:
    """Percentiles of each source, after a round of each that warms up the JVM for both."""
    ways = {"": latencies_ms}
    if "kafka" in plan:
        ways["kafka "] = kafka_latencies_ms
    for measure in ways.values():
        measure(spark, plan, "warming up")
    found: dict[str, Any] = {}
    for name, measure in ways.items():
        found |= _percentiles(name, measure(spark, plan, "latency"))
    return found


def _stream(spark: SparkSession, plan: dict[str, Any], **options: str) -> DataFrame:
    given = {"nameserver": plan["nameserver"], "subscribe": plan["topic"], **options}
    return spark.readStream.format("rocketmq").options(**given).load()


def latencies_ms(spark: SparkSession, plan: dict[str, Any], name: str) -> list[float]:
    """Latencies of messages through our source, in ms."""
    topic = plan["topic"]
    frame = _stream(spark, plan, pollInterval="10ms")
    with Producer("BENCH_SPARK", nameserver=plan["nameserver"]) as producer:

        def send() -> CheckpointPosition:
            result = producer.send(Message(topic, BODY))
            return (topic, result.queue.broker_name, str(result.queue.queue_id)), result.queue_offset

        return timed(frame, send, plan, name)


def kafka_latencies_ms(spark: SparkSession, plan: dict[str, Any], name: str) -> list[float]:
    """Latencies of messages through Spark's own source, sent one by one by Kafka's own producer, in ms."""
    sender = kafka.KafkaSender(spark, plan)

    def send() -> CheckpointPosition:
        partition, offset = sender.send(BODY)
        return (plan["topic"], str(partition)), offset

    try:
        return timed(kafka.stream(spark, plan), send, plan, f"kafka {name}")
    finally:
        sender.close()


def idle_percent(frame: DataFrame, plan: dict[str, Any], name: str) -> float:
    """CPU of the JVM and its Python processes while nothing comes, in % of one core."""
    query = _started(frame, plan, name)
    try:
        time.sleep(SETTLE_S)
        meter, began_s = CpuMeter(), time.monotonic()
        time.sleep(plan["idle_s"])
        percent = meter.seconds() / (time.monotonic() - began_s) * 100
        failure = query.exception()
        assert failure is None, failure
    finally:
        query.stop()
    print(f"{name}: {percent:.1f} % of a core", flush=True)
    return round(percent, 1)


def timed(
    frame: DataFrame, send: Callable[[], CheckpointPosition], plan: dict[str, Any], name: str
) -> list[float]:
    """From the call of `send` to the end of the micro-batch that has the message, one message every 20 ms."""
    query = _started(frame, plan, name)
    try:
        _send_slowly(send, plan["latency_s"] / 2)  # the JVM compiles meanwhile
        sent = _send_slowly(send, plan["latency_s"])
        time.sleep(3)
        progresses = [progress for progress in query.recentProgress if progress.numInputRows]
        batches = [(_ends_ms(each), json.loads(each.sources[0].endOffset)) for each in progresses]
    finally:
        query.stop()
    _tell_phases(name, [each.durationMs for each in progresses[len(progresses) // 2 :]])
    found = []
    for sent_ms, (keys, offset) in sent:
        ends = [ended_ms for ended_ms, end in batches if _end_at(end, keys) > offset]
        if ends:
            found.append(min(ends) - sent_ms)
    return sorted(found)


def _tell_phases(name: str, durations: list[dict[str, int]]) -> None:
    """Where the time of a batch goes, in the middle of all."""
    phases = sorted({phase for each in durations for phase in each})
    middles = {phase: statistics.median(each.get(phase, 0) for each in durations) for phase in phases}
    print(f"{name}: " + ", ".join(f"{phase} {ms:.0f} ms" for phase, ms in middles.items()), flush=True)


def _started(frame: DataFrame, plan: dict[str, Any], name: str) -> StreamingQuery:
    checkpoint = str(Path(plan["folder"], f"{name.replace(' ', '-')}-checkpoint"))
    return frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()


def _end_at(offsets: Any, keys: tuple[str, ...]) -> int:
    for key in keys:
        offsets = offsets[key]
    return int(offsets)


def _send_slowly(
    send: Callable[[], CheckpointPosition], seconds: float
) -> list[tuple[float, CheckpointPosition]]:
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


def _percentiles(name: str, found: list[float]) -> dict[str, Any]:
    return {
        f"{name}messages timed": len(found),
        f"{name}p50 ms": round(found[len(found) // 2]) if found else None,
        f"{name}p99 ms": round(found[len(found) * 99 // 100]) if found else None,
    }
