"""spark.readStream: limits, restarts, progress, and what changes while a query runs."""

import json
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.datasource import ReadAllAvailable

from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.plans.brokers import ClusterRoutes
from rocketeer.client.plans.offsets import committed_offset
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.source.columns import SCHEMA
from rocketeer.spark.source.options import parse_options
from rocketeer.spark.source.reading import RangePartition
from rocketeer.spark.source.stream import StreamReader

from .conftest import Broker, numbers, patiently

Stream = Callable[..., DataFrame]


class Sink:
    """Runs a stream into Parquet with a checkpoint; each `run` is a restart."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def start(self, frame: DataFrame, **trigger: Any) -> StreamingQuery:
        writer = frame.writeStream.format("parquet").option("path", str(self.folder / "out"))
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        return patiently((writer.trigger(**trigger) if trigger else writer).start)

    def run(self, frame: DataFrame) -> list[Any]:
        """To the end of what is there now; the sizes of the batches."""
        query = self.start(frame, availableNow=True)
        query.awaitTermination(100)
        assert query.exception() is None
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    def numbers(self) -> list[int]:
        try:
            return numbers(self.spark.read.parquet(str(self.folder / "out")))
        except Exception:
            return []


@pytest.fixture
def sink(spark: SparkSession, tmp_path: Path) -> Sink:
    return Sink(spark, tmp_path)


def test_a_restart_goes_on_at_the_checkpoint_in_limited_batches(
    stream: Stream, broker: Broker, sink: Sink
) -> None:
    topic = broker.topic()
    broker.fill(topic, 50)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 20}
    assert sink.run(stream(**options)) == [20, 20, 10]
    broker.fill(topic, 30, start=50)
    assert sink.run(stream(**options)) == [20, 10]
    assert sink.numbers() == list(range(80)), "each once"


def test_a_first_batch_without_messages_is_one_after_which_the_least_is_waited_for(broker: Broker) -> None:
    topic = broker.topic(1)
    given = {
        "nameserver": broker.nameserver,
        "subscribe": topic,
        "minOffsetsPerTrigger": "4",
        "pollInterval": "0ms",
    }
    reader = StreamReader(parse_options({**given, "maxTriggerDelay": "1h"}, streaming=True), SCHEMA)
    try:
        limit = reader.getDefaultReadLimit()
        first = reader.latestOffset(reader.initialOffset(), limit)
        assert reader.latestOffset(first, limit) == first
        broker.fill(topic, 2, queues=1)
        assert reader.latestOffset(first, limit) == first, "two are too few"
        broker.fill(topic, 2, start=2, queues=1)
        assert reader.latestOffset(first, limit) == {topic: {"broker-a": {"0": 4}}}
    finally:
        reader.stop()


def test_latest_is_the_end_of_when_the_query_began_however_often_spark_asks(broker: Broker) -> None:
    topic = broker.topic(1)
    broker.fill(topic, 5, queues=1)
    options = parse_options({"nameserver": broker.nameserver, "subscribe": topic}, streaming=True)
    reader = StreamReader(options, SCHEMA)
    began = reader.initialOffset()
    broker.fill(topic, 3, start=5, queues=1)
    assert reader.initialOffset() == began
    end = reader.latestOffset(began, ReadAllAvailable())
    broker.fill(topic, 2, start=8, queues=1)

    restarted = StreamReader(options, SCHEMA)
    for one in (reader, restarted):
        (task,) = one.partitions(one.initialOffset(), end)
        assert isinstance(task, RangePartition)
        ((piece, _),) = task.pieces
        assert (piece.begin, piece.end) == (5, 8)
        one.stop()


def test_a_first_batch_that_failed_is_read_whole_after_the_restart(
    stream: Stream, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic()
    seen: list[int] = []
    fails = True

    def take(frame: DataFrame, batch: int) -> None:
        if fails:
            raise RuntimeError("not this time")
        seen.extend(numbers(frame))

    def start() -> StreamingQuery:
        writer = stream(subscribe=topic, pollInterval="10ms").writeStream.foreachBatch(take)
        return patiently(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start)

    query = start()
    deadline_s = time.monotonic() + 100
    number = 0
    while query.isActive and time.monotonic() < deadline_s:
        broker.fill(
            topic, 1, start=number
        )  # the query may or may not have begun: nobody can tell from outside
        number += 1
    assert not query.isActive
    first = json.loads((tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1])
    began = sum(first["@began"][topic]["broker-a"].values())
    fails = False
    query = start()
    try:
        while number - 1 not in seen and time.monotonic() < deadline_s:
            query.processAllAvailable()
    finally:
        query.stop()
    assert len(seen) == number - began, "from where the first attempt began"
    assert seen == sorted(set(seen))
    assert seen[-1] == number - 1


def test_bytes_limit_a_batch(stream: Stream, broker: Broker, sink: Sink) -> None:
    topic = broker.topic()
    broker.fill(topic, 200)
    sizes = sink.run(stream(subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger="20k"))
    assert sum(sizes) == 200
    assert max(sizes) < 150, "about 20 KB are some 100 messages"
    assert sink.numbers() == list(range(200))


def test_a_filtered_stream_of_chosen_queues_moves_on_over_what_does_not_match(
    stream: Stream, broker: Broker, sink: Sink
) -> None:
    topic = broker.topic()
    broker.fill(topic, 60)
    chosen = {
        "assign": json.dumps({topic: {"broker-a": [1, 2]}}), "maxOffsetsPerTrigger": 20, "maxRecordsPerPartition": 4,
        "startingOffsets": json.dumps({topic: {"broker-a": {"1": 5, "2": -2}}}),
    }  # fmt: skip
    wanted = [n for n in range(60) if n % 4 == 2 or (n % 4 == 1 and n // 4 >= 5)]
    sizes = sink.run(stream(**chosen, tags="T1"))
    assert sink.numbers() == [n for n in wanted if n % 3 == 1]
    assert len(sizes) == 2, "25 offsets, 20 at a time"
    ends = json.loads(
        sorted((sink.folder / "checkpoint" / "offsets").glob("[0-9]*"))[-1].read_text().splitlines()[-1]
    )
    assert ends == {topic: {"broker-a": {"1": 15, "2": 15}}}
    other = Sink(sink.spark, sink.folder / "sql")
    other.run(stream(**chosen, sql="number > 40"))
    assert other.numbers() == [n for n in wanted if n > 40]


def test_a_stream_begins_at_the_end_and_shows_lag_and_group(
    spark: SparkSession, stream: Stream, broker: Broker
) -> None:
    topic = broker.topic(2)
    broker.fill(topic, 10, queues=2)
    frame = stream(subscribe=topic, group="SPARK_GROUP", minOffsetsPerTrigger=4, maxTriggerDelay="1h")
    query = patiently(frame.writeStream.format("memory").queryName("shown").start)
    try:
        # The first batch begins at once, whatever its size; it is empty here.
        broker.until(lambda: bool(query.recentProgress))
        broker.fill(topic, 4, start=10, queues=2)
        broker.until(lambda: spark.table("shown").count() == 4)
        broker.fill(topic, 3, start=14, queues=2)
        assert numbers(spark.table("shown")) == [10, 11, 12, 13]
        routes = ClusterRoutes(RouteCache(), NameServers([broker.nameserver]), 10)
        driver = BlockingDriver()

        def committed() -> list[int | None]:
            queues = [MessageQueue(topic, "broker-a", number) for number in (0, 1)]
            return [driver.run(committed_offset(routes, "SPARK_GROUP", queue)) for queue in queues]

        broker.until(lambda: committed() == [7, 7])
        driver.close()
        broker.until(lambda: '"0": 9' in str(query.lastProgress.sources[0].latestOffset))
        assert spark.table("shown").count() == 4, "three wait for a fourth"
        broker.fill(topic, 1, start=17, queues=2)
        broker.until(lambda: numbers(spark.table("shown")) == list(range(10, 18)))
    finally:
        query.stop()


def test_a_small_batch_waits_no_longer_than_its_delay(
    spark: SparkSession, stream: Stream, broker: Broker
) -> None:
    topic = broker.topic(1)
    frame = stream(
        subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=1000, maxTriggerDelay="2s"
    )
    query = patiently(frame.writeStream.format("memory").queryName("delayed").start)
    try:
        broker.fill(topic, 1, queues=1)
        broker.until(lambda: spark.table("delayed").count() == 1)
        broker.fill(topic, 1, start=1, queues=1)
        broker.until(lambda: spark.table("delayed").count() == 2)

        def batches() -> list[datetime]:
            """When those began that had a row."""
            return [
                datetime.fromisoformat(each.timestamp) for each in query.recentProgress if each.numInputRows
            ]

        broker.until(lambda: len(batches()) == 2)
        first, second = batches()
        assert (second - first).total_seconds() > 1
    finally:
        query.stop()


def test_new_queues_and_topics_are_picked_up(spark: SparkSession, stream: Stream, broker: Broker) -> None:
    topic = broker.topic(1)
    broker.fill(topic, 3, queues=1)
    frame = stream(subscribePattern=f"{topic}.*", startingOffsets="earliest", discoveryInterval="200ms")
    query = patiently(frame.writeStream.format("memory").queryName("growing").start)
    try:
        broker.until(lambda: spark.table("growing").count() == 3)
        broker.change(topic, 2)
        broker.fill(topic, 4, start=4, queues=2)
        broker.until(lambda: spark.table("growing").count() == 7)
        other = broker.topic(1, name=f"{topic}-b")
        broker.fill(other, 2, start=100, queues=1)
        broker.until(lambda: spark.table("growing").count() == 9)
    finally:
        query.stop()


def test_offsets_that_went_back_fail_or_start_anew(stream: Stream, broker: Broker, sink: Sink) -> None:
    topic = broker.topic(1)
    broker.fill(topic, 20, queues=1)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    sink.run(stream(**options))
    # The checkpoint says 20; as if the topic had been made anew, say it were 50.
    last = sorted((sink.folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))[
        -1
    ]
    last.write_text(last.read_text().replace(": 20", ": 50"))
    for crc in (sink.folder / "checkpoint" / "offsets").glob(".*.crc"):
        crc.unlink()
    query = sink.start(stream(**options), availableNow=True)
    with pytest.raises(Exception, match="went back from 50 to 20"):
        query.awaitTermination(100)
    assert sink.run(stream(**options, failOnDataLoss="false")) == [20]
    assert sink.numbers() == sorted([*range(20), *range(20)])


def test_a_checkpoint_of_other_topics_is_refused_and_topics_may_be_added(
    stream: Stream, broker: Broker, sink: Sink
) -> None:
    topic, other = broker.topic(1), broker.topic(1)
    broker.fill(topic, 5, queues=1)
    broker.fill(other, 5, start=5, queues=1)
    sink.run(stream(subscribe=topic, startingOffsets="earliest"))
    query = sink.start(stream(subscribe=other, startingOffsets="earliest"), availableNow=True)
    with pytest.raises(
        Exception, match=f"the checkpoint is of a stream of '{topic}', which this one does not read"
    ):
        query.awaitTermination(100)
    assert sink.numbers() == list(range(5)), "nothing was read for it"
    assert sink.run(stream(subscribe=f"{topic},{other}")) == [5]
    assert sink.run(stream(subscribe=other)) == []
    assert sink.numbers() == list(range(10))


def test_available_now_ends_at_what_was_there(stream: Stream, broker: Broker, sink: Sink) -> None:
    topic = broker.topic(1)
    broker.fill(topic, 40, queues=1)
    query = sink.start(
        stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=10), availableNow=True
    )
    broker.until(lambda: bool(query.recentProgress))
    broker.fill(topic, 20, start=40, queues=1)
    query.awaitTermination(100)
    assert sink.numbers() == list(range(40))
    assert json.loads(query.lastProgress.sources[0].endOffset) == {topic: {"broker-a": {"0": 40}}}


def test_a_broker_that_is_away_for_a_moment_stops_nothing(
    spark: SparkSession, stream: Stream, broker: Broker
) -> None:
    topic = broker.topic(1)
    broker.fill(topic, 5, queues=1)
    frame = stream(
        subscribe=topic, startingOffsets="earliest", fetchRetryInterval="100ms", requestTimeout="2s"
    )
    query = patiently(frame.writeStream.format("memory").queryName("patient").start)
    try:
        broker.until(lambda: spark.table("patient").count() == 5)
        broker.cluster.stop()
        time.sleep(0.5)  # it asks in vain meanwhile
        broker.cluster.start()
        broker.fill(topic, 5, start=5, queues=1)
        broker.until(lambda: spark.table("patient").count() == 10)
        assert query.isActive
    finally:
        query.stop()
