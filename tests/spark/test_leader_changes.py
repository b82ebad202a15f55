"""A stream out of a group of three and back into it, while the group's leader is killed with kill -9: each row once."""

import zlib
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from rocketeer import Message, Producer
from rocketeer.bench.groups import GroupCluster
from support.cluster import TEST_CONF
from support.needs_etcd import needs_etcd
from support.spark_sink import until

from .conftest import patiently

COUNT = 12_000
QUEUES = 4


@pytest.fixture(autouse=True)
def _needs_etcd() -> None:
    needs_etcd()


def _fill(nameserver: str, topic: str, first: int, count: int) -> None:
    with Producer("LEADERS", nameserver=nameserver, send_timeout_s=20, retries=10) as producer:
        for start in range(first, first + count, 500):
            producer.send([Message(topic, _body(number)) for number in range(start, start + 500)])


def _body(number: int) -> bytes:
    return b"%d %s" % (number, b"x" * 200)


def _copying(spark: SparkSession, nameserver: str, checkpoint: Path) -> StreamingQuery:
    """From one topic into another, each row once: its place in the first topic is its id."""
    frame = (
        spark.readStream.format("rocketmq")
        .options(
            nameserver=nameserver, subscribe="From", startingOffsets="earliest", maxOffsetsPerTrigger=600
        )
        .schema("queueId int, queueOffset long, body binary")
        .load()
    )
    writer = (
        frame.selectExpr("body", "concat(queueId, '-', queueOffset) id")
        .writeStream.format("rocketmq")
        .options(
            nameserver=nameserver, topic="To", createTopic=QUEUES, delivery="effectively-once", idColumn="id"
        )
        .option("checkpointLocation", str(checkpoint))
    )
    return patiently(writer.start)


def test_a_leader_killed_under_a_stream_costs_time_and_no_row(spark: SparkSession, tmp_path: Path) -> None:
    with GroupCluster(tmp_path / "group", conf=TEST_CONF) as group:
        leader = group.wait_for_leader()
        _fill(group.namesrv, "From", 0, COUNT - 2000)
        query = _copying(spark, group.namesrv, tmp_path / "cp")
        copied = 0

        def has_copied(rows: int) -> bool:
            nonlocal copied
            assert query.isActive, query.exception()
            copied = sum(progress.numInputRows for progress in query.recentProgress)
            return copied >= rows

        try:
            for step in range(2):
                until(lambda step=step: has_copied(2400 * (step + 1)), within_s=180, what="the middle")
                leader.kill()
                assert copied < COUNT - 2000, "in the middle"
                now = group.wait_for_leader(other_than=leader)
                leader.start()
                leader = now
            _fill(group.namesrv, "From", COUNT - 2000, 2000)
            until(lambda: has_copied(COUNT), within_s=240, what="all rows")
        finally:
            query.stop()
        found = (
            spark.read.format("rocketmq")
            .options(nameserver=group.namesrv, subscribe="To")
            .schema("body binary")
            .load()
            .selectExpr("cast(split(string(body), ' ')[0] as int) n", "crc32(body) crc")
            .collect()
        )
    assert Counter(row.n for row in found) == Counter(range(COUNT)), "each once"
    assert sum(row.crc for row in found) == sum(zlib.crc32(_body(number)) for number in range(COUNT))
