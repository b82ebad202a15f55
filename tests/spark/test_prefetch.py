"""Small batches of a stream come with the plan and need no Python task; what is in them is the same."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import randbytes
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
from pyspark.sql.streaming.datasource import ReadAllAvailable

from rocketeer import Message
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.source.columns import SCHEMA
from rocketeer.spark.source.options import parse_options
from rocketeer.spark.source.planning import QueueRange
from rocketeer.spark.source.prefetch import PrefetchingReader
from rocketeer.spark.source.reading import RangePartition

from .conftest import Broker, numbers, patiently

Stream = Callable[..., DataFrame]


@contextmanager
def reading(broker: Broker, topic: str, **given: str) -> Iterator[PrefetchingReader]:
    options = {"nameserver": broker.nameserver, "subscribe": topic, "startingOffsets": "earliest", **given}
    reader = PrefetchingReader(parse_options(options, streaming=True), SCHEMA)
    yield reader
    reader.stop()


def planned(reader: PrefetchingReader) -> tuple[list[RangePartition], pa.Table | None]:
    """The tasks of everything there is, and the rows that come with them, as PySpark's own process asks for them."""
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    tasks = [task for task in reader.partitions(start, end) if isinstance(task, RangePartition)]
    if not isinstance(reader, _SimpleStreamReaderWrapper):
        return tasks, None
    return tasks, pa.Table.from_batches(list(reader.getCache(start, end)))


def test_rows_that_come_with_the_plan_are_those_the_task_would_read(broker: Broker) -> None:
    topic = broker.topic()
    broker.fill(topic, 41)
    with reading(broker, topic) as reader:
        for _ in range(2):
            tasks, rows = planned(reader)
            assert rows is not None
            (task,) = tasks
            assert pa.Table.from_batches(list(reader.read(task))).equals(rows)
            assert sorted(int(body) for body in rows["body"].to_pylist()) == list(range(41))
            assert reader.reportLatestOffset() is not None, "still the reader that knows how far queues go"
            assert not isinstance(reader, _SimpleStreamReaderWrapper), "it has handed over its rows"


@pytest.mark.parametrize(
    ("given", "tasks"),
    [({"prefetchRecords": "7"}, 1), ({"prefetchRecords": "0"}, 1), ({"minPartitions": "2"}, 2)],
)
def test_larger_batches_and_those_to_be_split_are_left_to_tasks(
    broker: Broker, given: dict[str, str], tasks: int
) -> None:
    topic = broker.topic(1)
    broker.fill(topic, 8, queues=1)
    with reading(broker, topic, **given) as reader:
        found, rows = planned(reader)
        assert rows is None
        assert len(found) == tasks


def test_large_messages_are_left_to_tasks_and_small_ones_after_them_are_not(broker: Broker) -> None:
    topic = broker.topic(1)
    queue = MessageQueue(topic, "broker-a", 0)
    for _ in range(4):
        broker.producer.send(Message(topic, randbytes(400_000)), queue=queue)
    with reading(broker, topic) as reader:
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        for _ in range(2):
            (task,) = reader.partitions(start, end)
            assert not isinstance(reader, _SimpleStreamReaderWrapper)
            assert sum(batch.num_rows for batch in reader.read(task)) == 4
        broker.fill(topic, 1, queues=1)
        reader.partitions(end, {topic: {"broker-a": {"0": 5}}})
        assert isinstance(reader, _SimpleStreamReaderWrapper)


def test_a_broker_that_does_not_answer_is_left_to_a_task_at_once(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = broker.topic(1)
    with reading(broker, topic) as reader, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        away = QueueRange(MessageQueue(topic, "broker-a", 0), 0, 3)
        task = RangePartition(((away, f"127.0.0.1:{nobody.getsockname()[1]}"),))
        assert reader._read_here(task) is None
    assert "small batch left to a task" in caplog.text


def test_what_is_lost_is_left_to_a_task_to_say(broker: Broker) -> None:
    topic = broker.topic(1)
    broker.fill(topic, 2, queues=1)
    with reading(broker, topic, failOnDataLoss="false", fetchTimeout="0s") as reader:
        behind = QueueRange(MessageQueue(topic, "broker-a", 0), 0, 5)
        task = RangePartition(((behind, broker.cluster.broker),))
        assert reader._read_here(task) is None
        assert sum(batch.num_rows for batch in reader.read(task)) == 2, "the task goes on without them"


def test_a_small_batch_needs_no_task_that_asks_the_broker(
    stream: Stream, read: Stream, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic()
    broker.fill(topic, 20)
    wanted = {row.msgId: row for row in read(schema=None, subscribe=topic).collect()}
    seen: list[Any] = []

    def take(frame: DataFrame, batch: int) -> None:
        broker.delete(topic)  # a task would find nothing
        seen.extend(frame.collect())

    frame = stream(schema=None, subscribe=topic, startingOffsets="earliest", fetchTimeout="0s")
    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = patiently(writer.start)
    try:
        broker.until(lambda: len(seen) == 20 or not query.isActive)
    finally:
        query.stop()
    assert {row.msgId: row for row in seen} == wanted
    assert len(seen) == 20


def test_columns_that_may_not_be_null_come_too(stream: Stream, broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.fill(topic, 9)
    seen: list[int] = []
    frame = stream(
        schema="body binary NOT NULL, queueId int, properties map<string,string> NOT NULL",
        subscribe=topic,
        startingOffsets="earliest",
    )
    writer = frame.writeStream.foreachBatch(lambda frame, _: seen.extend(numbers(frame)))
    query = patiently(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start)
    try:
        broker.until(lambda: len(seen) == 9 or not query.isActive)
    finally:
        query.stop()
    assert seen == list(range(9))
