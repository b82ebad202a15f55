"""Brokers that die with kill -9 while a stream has a backlog: it waits, goes on, and has every message once."""

import json
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from rocketeer import Message, Producer
from rocketeer.bench.control import Control
from rocketeer.bench.servers import ServerCluster
from rocketeer.protocol.codes import RequestCode
from support.cluster import running_cluster
from support.replicas import Replicas, log_files
from support.spark_sink import stored, until

from .conftest import patiently

COUNT = 20_000
OUTAGE_S = 6.0
LONG_OUTAGE_S = 20.0


def _fill(nameserver: str, topic: str) -> int:
    """The checksum of what was sent."""
    total = 0
    with Producer("OUTAGE", nameserver=nameserver) as producer:
        for first in range(0, COUNT, 500):
            bodies = [b"%d %s" % (number, b"x" * 200) for number in range(first, first + 500)]
            producer.send([Message(topic, body) for body in bodies])
            total += sum(map(zlib.crc32, bodies))
    return total


class Seen:
    """What the batches brought."""

    def __init__(self) -> None:
        self.numbers: Counter[int] = Counter()
        self.checksum = 0

    def take(self, frame: DataFrame, batch: int) -> None:
        for row in frame.selectExpr(
            "cast(split(string(body), ' ')[0] as int) n", "crc32(body) crc"
        ).collect():
            self.numbers[row.n] += 1
            self.checksum += row.crc


def _runtime(broker: ServerCluster, name: str) -> int:
    with Control(broker.broker) as control:
        body = control.call(RequestCode.GET_BROKER_RUNTIME_INFO, {}).body
    return int(json.loads(body)["table"][name])


def _start(
    spark: SparkSession, nameserver: str, topic: str, checkpoint: Path, seen: Seen, **given: Any
) -> StreamingQuery:
    frame = (
        spark.readStream.format("rocketmq")
        .options(nameserver=nameserver, subscribe=topic, startingOffsets="earliest", **given)
        .schema("body binary")
        .load()
    )
    writer = frame.writeStream.foreachBatch(seen.take).option("checkpointLocation", str(checkpoint))
    return patiently(writer.start)


def _all_there(query: StreamingQuery, *seen: Seen) -> bool:
    assert query.isActive, query.exception()
    return len(set().union(*(dict(each.numbers) for each in seen))) == COUNT


def test_a_broker_killed_under_a_backlog_and_restarted_costs_time_and_no_message(
    spark: SparkSession, tmp_path: Path
) -> None:
    with running_cluster(tmp_path / "cluster") as cluster:
        checksum = _fill(cluster.namesrv, "Backlog")
        seen = Seen()
        query = _start(spark, cluster.namesrv, "Backlog", tmp_path / "cp", seen, maxOffsetsPerTrigger=1000)
        try:
            for _ in range(2):  # in the middle of two different moments of a batch
                some = len(seen.numbers)
                until(lambda some=some: len(seen.numbers) > some + 2000, within_s=90, what="the middle")
                cluster.kill_broker()
                time.sleep(
                    OUTAGE_S
                )  # tasks and planning ask in vain: longer than all retries there once were
                assert query.isActive, query.exception()
                assert len(seen.numbers) < COUNT
                cluster.start_broker()
            until(lambda: _all_there(query, seen), within_s=120, what="all messages")
        finally:
            query.stop()
        assert set(seen.numbers.values()) == {1}, "each once"
        assert seen.checksum == checksum


def test_a_stream_into_a_topic_rides_out_a_broker_killed_for_long(
    spark: SparkSession, tmp_path: Path
) -> None:
    with running_cluster(tmp_path / "cluster") as cluster:
        _fill(cluster.namesrv, "From")
        frame = (
            spark.readStream.format("rocketmq")
            .options(nameserver=cluster.namesrv, subscribe="From", startingOffsets="earliest")
            .option("maxOffsetsPerTrigger", 2000)
            .load()
        )
        writer = (
            frame.selectExpr("body", "concat(queueId, '-', queueOffset) id")
            .writeStream.format("rocketmq")
            .options(nameserver=cluster.namesrv, topic="To", createTopic=4, idColumn="id")
            .option("delivery", "effectively-once")
            .options(maxRowsPerSecond=500, batchRows=50)  # a batch is being sent most of the time
            .option("checkpointLocation", str(tmp_path / "cp"))
        )
        query = patiently(writer.start)
        try:
            until(
                lambda: _sent(cluster) in range(2200, 3600), within_s=90, what="the middle of a batch's sends"
            )
            cluster.kill_broker()
            time.sleep(LONG_OUTAGE_S)
            assert query.isActive, query.exception()
            assert _rows(query) < COUNT
            cluster.start_broker()
            until(lambda: _rows(query) == COUNT, within_s=120, what="all messages")
        finally:
            query.stop()
        written = Counter(int(m.body.split()[0]) for m in stored(cluster.broker, "To"))
        assert written == Counter(range(COUNT)), "each once"


def _sent(cluster: ServerCluster) -> int:
    return len(stored(cluster.broker, "To"))


def _rows(query: StreamingQuery) -> int:
    """What the batches that ended brought."""
    assert query.isActive, query.exception()
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def test_a_stream_restarted_while_its_broker_is_killed_waits_for_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    with running_cluster(tmp_path / "cluster") as cluster:
        checksum = _fill(cluster.namesrv, "Gone")
        seen = Seen()
        query = _start(spark, cluster.namesrv, "Gone", tmp_path / "cp", seen, maxOffsetsPerTrigger=5000)
        # One that never ended a batch has nothing to go on from: it would ask its brokers where to begin.
        until(lambda: (tmp_path / "cp" / "commits" / "0").exists(), within_s=90, what="the first batch")
        query.stop()
        cluster.kill_broker()
        read = Seen()
        query = _start(spark, cluster.namesrv, "Gone", tmp_path / "cp", read, maxOffsetsPerTrigger=5000)
        try:
            time.sleep(3)
            assert query.isActive, query.exception()
            cluster.start_broker()
            until(lambda: _all_there(query, seen, read), within_s=120, what="all messages")
        finally:
            query.stop()
        both = seen.numbers + read.numbers
        twice = sum(number for number, count in both.items() if count > 1)
        assert max(both.values()) <= 2, "a batch that was under way comes again"
        assert twice or seen.checksum + read.checksum == checksum


def test_reads_go_to_the_slave_also_while_the_master_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    pair = Replicas(tmp_path, "ours", "ours")
    pair.master.start()
    pair.slave.start()
    try:
        checksum = _fill(pair.master.namesrv, "Copied2")
        until(
            lambda: log_files(pair.slave.store) == log_files(pair.master.store),
            within_s=60,
            what="the slave's copy",
        )
        options = {"nameserver": pair.master.namesrv, "subscribe": "Copied2", "readFrom": "slave"}
        frame = spark.read.format("rocketmq").options(**options).schema("body binary").load()
        before = _runtime(pair.slave, "msgGetTotalTodayNow")
        assert frame.count() == COUNT
        assert _runtime(pair.slave, "msgGetTotalTodayNow") - before >= COUNT, "the slave served them"
        pair.master.kill_broker()
        again = spark.read.format("rocketmq").options(**options).schema("body binary").load()
        found = again.selectExpr("count(*) n", "sum(crc32(body)) crc").first()
        assert found is not None
        assert (found.n, found.crc) == (COUNT, checksum)
    finally:
        pair.kill()
