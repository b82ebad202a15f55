"""A broker whose disk is full while rows are written: the write waits for room, or says in one sentence why it ended."""

from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rocketeer.bench.servers import ServerCluster
from rocketeer.spark import SparkFailed, clear_errors, register
from support.cluster import running_cluster
from support.spark_sink import make_topic, stored, until
from support.volumes import fill, small_volume

ROWS = 4_000
CONF = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 500 * 20,
    "diskSpaceWarningLevelRatio": 100,
    "diskSpaceCleanForciblyRatio": 100,
    "diskMaxUsedSpaceRatio": 100,
}


def test_a_disk_that_is_full_for_a_while_costs_time_and_has_each_row_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    with (
        small_volume(tmp_path / "c" / "store", megabytes=96) as volume,
        running_cluster(tmp_path / "c", conf=CONF) as cluster,
    ):
        make_topic(cluster, "Filling")
        one_task = spark.range(0, ROWS, 1, 1)  # two writes run at a time
        rows = one_task.selectExpr("concat(id, ' ', repeat('x', 1000)) body", "string(id) id")

        def write(name: str, **given: object) -> None:
            register(spark)  # a thread of its own
            (
                rows.write.format("rocketmq")
                .options(nameserver=cluster.namesrv, topic="Filling", delivery="effectively-once")
                .options(idColumn="id", writeId=name, batchRows=20, **given)
                .mode("append")
                .save()
            )

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write, "whole", maxRowsPerSecond=400)
            until(lambda: _sent(cluster, writing), within_s=120, what="the first rows")
            ballast = fill(volume)
            with (
                pytest.raises(SparkFailed, match=r"not stored in topic 'Filling': .*disk is full"),
                clear_errors(),
            ):
                write("end", deliveryTimeout="1s")
            assert not writing.done()
            ballast.unlink()
            writing.result(120)
        found = Counter(
            int(message.body.split()[0])
            for message in stored(cluster.broker, "Filling")
            if b"spark.whole" in message.properties
        )
        assert found == Counter(range(ROWS)), "each once"


def _sent(cluster: ServerCluster, writing: Future[None]) -> bool:
    if writing.done():
        writing.result()
    return bool(stored(cluster.broker, "Filling"))
