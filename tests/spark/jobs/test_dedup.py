"""Streams without duplicates: each key once within the time, messages without a key all, over restarts and crashes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from rocketeer import Message
from rocketeer.errors import ConfigError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.checkpoints import OtherCheckpoint
from rocketeer.spark.jobs.dedup import DedupTerms, dedup, dedup_to_lake, dedup_to_topic
from rocketeer.spark.jobs.lake.folder import Lake, read_lake
from rocketeer.spark.jobs.lake.session import open_session
from rocketeer.spark.jobs.state_counts import counting
from rocketeer.spark.jobs.topic_sink import TopicSink
from rocketeer.spark.source.columns import COLUMNS

from ..conftest import Broker, patiently

pytestmark = pytest.mark.timeout(600)

Read = Callable[..., DataFrame]


def send(broker: Broker, topic: str, keys: list[str | None]) -> None:
    for number, key in enumerate(keys):
        message = Message(
            topic, f"body of {key}".encode(), keys=key, tags="T", properties={"order": key or "none"}
        )
        broker.producer.send(message, queue=MessageQueue(topic, "broker-a", number % 2))


def test_each_key_comes_once_also_after_a_restart(
    spark: SparkSession, broker: Broker, read: Read, tmp_path: Path
) -> None:
    source, target = broker.topic(2), broker.topic(2)
    sink = TopicSink(broker.nameserver, target)
    terms = DedupTerms([source], broker.nameserver, by="key")

    def run() -> tuple[int, int]:
        with counting(spark) as counts:
            query = patiently(lambda: dedup_to_topic(spark, terms, sink, tmp_path / "checkpoint"))
            query.awaitTermination(400)
            assert query.exception() is None
            counts.settle()
            return counts.duplicates, counts.late

    send(broker, source, ["a", "b", "a", None, "c", None, "a"])
    assert run() == (2, 0)
    send(broker, source, ["c", "d", None, "a"])
    assert run() == (2, 0)
    found = read("keys string, body binary, properties map<string,string>", subscribe=target).collect()
    assert sorted(row.keys or "" for row in found) == ["", "", "", "a", "b", "c", "d"], (
        "without a key: like no other"
    )
    assert {(row.properties["order"], bytes(row.body)) for row in found if row.keys == "a"} == {
        ("a", b"body of a")
    }
    changed = DedupTerms([source], broker.nameserver, by="key", within="2h")
    with pytest.raises(OtherCheckpoint, match="its 'within' is '1h', not '2h'"):
        dedup_to_topic(spark, changed, sink, tmp_path / "checkpoint")


def test_a_batch_that_reached_the_lake_before_a_crash_is_not_stored_twice_and_not_forgotten(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    source = broker.topic(2)
    lake = tmp_path / "lake"
    terms = DedupTerms([source], broker.nameserver, by="properties['order']")

    def run() -> list[str]:
        with open_session(lake) as session:
            query = patiently(lambda: dedup_to_lake(spark, terms, session))
            query.awaitTermination(400)
            assert query.exception() is None
        return sorted(row.properties["order"] for row in read_lake(spark, lake).collect())

    send(broker, source, ["a", "b", "a"])
    assert run() == ["a", "b"]
    # As if the driver had died after the lake's commit and before Spark's: the batch is tried again.
    checkpoint = lake / "_rocketeer" / "dedup-checkpoint"
    for path in list(checkpoint.glob("commits/*")):
        path.unlink()
    for path in list(checkpoint.glob("offsets/*")):
        if path.name not in ("0", ".0.crc"):  # behind the first batch there was one without data
            path.unlink()
    before = Lake.open(lake).state().version
    assert run() == ["a", "b"]
    assert Lake.open(lake).state().version == before, "it was there already"
    send(broker, source, ["b", "c", "a"])
    assert run() == ["a", "b", "c"], "what the repeated batch saw is remembered"


def test_what_cannot_work_is_refused(spark: SparkSession, broker: Broker, read: Read, tmp_path: Path) -> None:
    topic = broker.topic(1)
    with pytest.raises(ConfigError, match="works on a stream"):
        dedup(read(None, subscribe=topic))

    def stream(
        schema: str = ", ".join(f"{name} {kind.simpleString()}" for name, kind in COLUMNS.items()),
    ) -> DataFrame:
        options = {"nameserver": broker.nameserver, "subscribe": topic}
        return spark.readStream.format("rocketmq").options(**options).schema(schema).load()

    with pytest.raises(ConfigError, match="needs the columns topic, brokerName, storeTimestamp"):
        dedup(stream("queueId int, queueOffset long, body binary"))
    with pytest.raises(ConfigError, match="is no time: write"):
        dedup(stream(), within="an hour")
    sink = TopicSink(broker.nameserver, topic)
    with pytest.raises(ConfigError, match="would feed itself"):
        dedup_to_topic(spark, DedupTerms([topic], broker.nameserver), sink, tmp_path / "checkpoint")
    assert dedup(stream(), by="key", within="30m").columns == stream().columns
