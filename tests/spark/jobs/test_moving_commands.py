"""Every option of the jobs that move messages does what docs/jobs.md says: as a person types them, with a session that
is lent."""

import json
import re
import textwrap
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from rocketeer import Message, Producer
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs import read_lake
from rocketeer.spark.jobs.lake.folder import Lake, lake_offsets
from rocketeer.spark.jobs.lake.state import Range
from rocketeer.testing import cluster
from support.spark_commands import Commands
from support.spark_sink import stored

from ..conftest import Broker, numbers

pytestmark = pytest.mark.timeout(600)
Read = Callable[..., DataFrame]


# --- archive --------------------------------------------------------------------------------------


def test_archive_by_pattern_from_offsets_in_small_commits(
    job: Commands, spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    name = broker.topic(1, name="Patterned-1")
    broker.topic(1, name="Patterned-2-not")
    broker.topic(1, name="%RETRY%Patterned-3")
    for topic in (name, "Patterned-2-not", "%RETRY%Patterned-3"):
        broker.fill(topic, 40, queues=1)
    start = json.dumps({topic: {"broker-a": {"0": 10}} for topic in (name, "Patterned-2-not")})
    said = job(
        "archive", tmp_path / "lake", "--pattern", "(?:.*Patterned-.)(-not)?", "--start", start,
        "--batch-bytes", "2k", "--compression", "snappy", "--no-compact", "--option", "minPartitions=1",
    ).fine()  # fmt: skip
    assert "archived 60 messages into" in said.err
    state = Lake.open(tmp_path / "lake").state()
    assert state.version > 3, "many small commits"
    assert {queue.topic for queue in state.ranges} == {name, "Patterned-2-not"}
    assert numbers(read_lake(spark, tmp_path / "lake", topics=[name])) == list(range(10, 40))
    kinds = {
        pq.ParquetFile(p).metadata.row_group(0).column(0).compression
        for p in (tmp_path / "lake").rglob("topic=*/date=*/*.parquet")
    }
    assert kinds == {"SNAPPY"}
    before = len(state.files)
    assert "small files were replaced" in job("archive", tmp_path / "lake", "-t", name, "-q").fine().err
    assert len(Lake.open(tmp_path / "lake").state().files) < before


def test_archive_of_a_store_goes_on_where_the_brokers_was(
    job: Commands, spark: SparkSession, broker: Broker, tmp_path: Path, read: Read
) -> None:
    topic = broker.topic(2)
    broker.fill(topic, 10, queues=2)
    lake = tmp_path / "lake"
    job("archive", lake, "-t", topic).fine()
    broker.fill(topic, 6, start=10, queues=2)
    said = job("archive", lake, "-t", topic, "--store", broker.cluster.store).fine()
    assert "archived 6 messages" in said.err
    assert numbers(read_lake(spark, lake)) == list(range(16))
    assert lake_offsets(lake)[MessageQueue(topic, "broker-a", 1)] == (Range(0, 8),)
    other = ["archive", lake, "-t", topic, "--store", broker.cluster.store, "--broker-name", "broker-b"]
    assert "archived 16 messages" in job(*other).fine().err, "another broker's queues are others"
    line = job("archive", lake, "-t", topic, "--store", broker.cluster.store).line()
    assert line == "the lake has messages of broker-a, broker-b: say whose store this is with --broker-name"


def test_archive_from_the_latest_and_over_what_was_lost(
    job: Commands, spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic(1)
    broker.fill(topic, 10, queues=1)
    lake = tmp_path / "lake"
    assert "archived 0 messages" in job("archive", lake, "-t", topic, "--start", "latest").fine().err
    broker.fill(topic, 5, start=10, queues=1)
    assert "archived 5 messages" in job("archive", lake, "-t", topic).fine().err
    broker.delete(topic)
    broker.topic(1, name=topic)
    broker.fill(topic, 3, queues=1)
    line = job("archive", lake, "-t", topic, "-q").line()
    assert line.endswith(
        "offsets went back from 15 to 3 (was the topic deleted and made again?). "
        "Say --skip-lost to go on with what exists"
    )
    assert "archived 3 messages" in job("archive", lake, "-t", topic, "--skip-lost").fine().err
    broker.fill(topic, 2, start=3, queues=1)
    assert "archived 2 messages" in job("archive", lake, "-t", topic, "--fail-on-data-loss").fine().err


# --- replay ---------------------------------------------------------------------------------------


def test_replay_takes_times_in_every_form(job: Commands, broker: Broker, tmp_path: Path, read: Read) -> None:
    source = broker.topic(1)
    broker.fill(source, 6, queues=1)
    time.sleep(0.01)
    middle = datetime.now(UTC)
    time.sleep(0.01)  # messages know their time to the millisecond only
    broker.fill(source, 4, start=6, queues=1)
    ms = int(middle.timestamp() * 1000)
    forms = [middle.isoformat(), middle.isoformat().replace("+00:00", "Z"), str(ms),
             middle.replace(tzinfo=None).isoformat(" ")]  # fmt: skip
    for form in forms:
        late, early = broker.topic(1), broker.topic(1)
        shared = ["replay", "-t", source, "--state", tmp_path]
        assert "4 messages sent" in job(*shared, "--to", late, "--since", form).fine().err
        assert "6 messages sent" in job(*shared, "--to", early, "--until", form).fine().err
        assert (numbers(read(subscribe=late)), numbers(read(subscribe=early))) == (
            [6, 7, 8, 9],
            [0, 1, 2, 3, 4, 5],
        )
    assert "10 messages sent" in job(*shared, "--to", late, "--since", "2d", "--until", "0s").fine().err
    said = job("query", "-e", f"SELECT count(*) FROM {source}", "--since", forms[0], "--format", "csv").fine()
    assert said.out == "count(1)\n4\n"


def test_replay_that_goes_on_keeps_the_moment_it_began_with(
    job: Commands, broker: Broker, tmp_path: Path, read: Read
) -> None:
    source, target = broker.topic(1), broker.topic(1)
    broker.fill(source, 5, queues=1)
    words = ["replay", "-t", source, "--to", target, "--since", "1h", "--id", "mine", "--state", tmp_path]
    assert "5 messages sent" in job(*words).fine().err
    broker.fill(source, 5, start=5, queues=1)
    assert "5 messages sent (5 of them before)" in job(*words).fine().err
    words[words.index("1h")] = "2h"
    assert "since was '1h ago'" in job(*words).line()
    assert numbers(read(subscribe=target)) == [0, 1, 2, 3, 4]


def test_replay_of_chosen_messages_at_a_rate_from_another_cluster(
    job: Commands, broker: Broker, tmp_path: Path, read: Read
) -> None:
    target = broker.topic(2)
    with cluster() as other, Producer("OTHER", nameserver=other.nameserver) as producer:
        for number in range(30):
            given: dict[str, Any] = {"tags": f"T{number % 3}", "keys": f"k{number}"}
            producer.send(Message("Elsewhere", str(number).encode(), **given))
        shared = [
            "replay",
            "-t",
            "Elsewhere",
            "--source",
            other.nameserver,
            "--to",
            target,
            "--state",
            tmp_path,
        ]
        words = ["-k", "k1", "--key", "k2", "--key", "k4", "--tag", "T1 || T0", "--where", "queueId >= 0"]
        said = job(*shared, *words, "--at-least-once").fine()
        assert re.search(r"go on with --id \w{12}\n", said.err)
        assert "2 messages sent" in said.err
        began_s = time.monotonic()
        assert "30 messages sent" in job(*shared, "--rate", "20", "--ordered").fine().err
        assert time.monotonic() - began_s > 0.9
    assert numbers(read(subscribe=target)) == sorted([1, 4, *range(30)])
    by_shard: dict[str, list[int]] = {}
    for message in stored(broker.cluster.broker, target, 2):
        shard = message.properties_dict().get("__SHARDINGKEY")
        if shard is not None:
            by_shard.setdefault(shard, []).append(int(message.body))
    assert sorted(n for found in by_shard.values() for n in found) == list(range(30))
    assert all(found == sorted(found) for found in by_shard.values())


# --- transform and dedup --------------------------------------------------------------------------


def test_transform_by_file_and_function_with_all_its_options(
    job: Commands, broker: Broker, tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = broker.topic(1), broker.topic(1)
    for number in range(6):
        broker.producer.send(Message(source, json.dumps({"id": number}).encode()))
    sql = tmp_path / "made.sql"
    sql.write_text(f"SELECT CAST(id * 2 AS STRING) AS body, string(queueOffset) AS name FROM {source}")
    common = ["transform", "--to", target, "--option", "maxOffsetsPerTrigger=4"]
    said = job(
        *common, "-f", sql, "--checkpoint", tmp_path / "a", "--json-schema", f"{source}=id long",
        "--id-column", "name", "--sink-option", "batchRows=2",
    ).fine()  # fmt: skip
    assert "transformed 6 messages into" in said.err
    assert numbers(read(subscribe=target)) == [0, 2, 4, 6, 8, 10]
    (tmp_path / "doubling.py").write_text(
        textwrap.dedent("""
            from pyspark.sql import functions as f

            def doubled(df):
                return df.select((f.col("body").cast("string").cast("long") * 2).cast("string").alias("body"))
        """)
    )
    monkeypatch.chdir(tmp_path)
    third = broker.topic(1)
    common[2] = third
    at_least = ["--function", "doubling:doubled", "-t", target, "--delivery", "at-least-once"]
    job(*common, *at_least, "--checkpoint", tmp_path / "b").fine()
    assert numbers(read(subscribe=third)) == [0, 4, 8, 12, 16, 20]
    fourth = broker.topic(1)
    common[2] = fourth
    latest = ["-e", f"SELECT body FROM {source}", "--start", "latest", "--checkpoint", tmp_path / "c"]
    assert "transformed 0 messages" in job(*common, *latest).fine().err
    broker.producer.send(Message(source, b"99"))
    assert "transformed 1 message into" in job(*common, *latest).fine().err
    fifth = broker.topic(1)
    sums = (
        "SELECT string(count(*)) AS body FROM "
        f"(SELECT storeTimestamp, id FROM {source} WHERE id IS NOT NULL) GROUP BY window(storeTimestamp, '1 second')"
    )
    words = ["transform", "--to", fifth, "-e", sums, "--json", source, "--watermark", "0s"]
    job(*words, "--checkpoint", tmp_path / "d").fine()
    time.sleep(1.1)  # the window ends, and a later message says so
    broker.producer.send(Message(source, b'{"id": 1}'))
    job(*words, "--checkpoint", tmp_path / "d").fine()
    assert sum(numbers(read(subscribe=fifth))) == 6


def test_dedup_with_all_its_options(job: Commands, broker: Broker, tmp_path: Path, read: Read) -> None:
    source, target = broker.topic(1), broker.topic(1)
    for number in range(6):
        broker.producer.send(Message(source, str(number % 3).encode(), keys=f"k{number % 3}", tags="t"))
    said = job(
        "dedup", "-t", source, "--to", target, "--checkpoint", tmp_path / "a", "--by", "key", "--within", "30 minutes",
        "--time", "bornTimestamp", "--start", "earliest", "--delivery", "at-least-once",
        "--option", "minPartitions=1", "--sink-option", "batchRows=1",
    ).fine()  # fmt: skip
    assert said.err.splitlines()[-1] == "rocketeer: read 6 messages, removed 3 duplicates"
    assert numbers(read(subscribe=target)) == [0, 1, 2]
    said = job("dedup", "-t", source, "--lake", tmp_path / "lake", "--by", "tags", "-q").fine()
    assert said.err == "rocketeer: read 6 messages, removed 5 duplicates\n"
    assert "is filled by dedup" in job("archive", tmp_path / "lake", "-t", source).line()
