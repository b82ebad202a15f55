"""kill -9 of the driver in the middle of a batch, source to Parquet: after a restart nothing is missing or double."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from .conftest import Broker

COUNT = 4000
# Slow enough to be killed in the middle: each row takes a moment in Python.
JOB = """
import sys, time
from rocketeer.spark import session
nameserver, topic, folder = sys.argv[1:]
spark = session("killed", master="local[2]", config={settings})
spark.sparkContext.setLogLevel("OFF")

def slowly(batches):
    for batch in batches:
        time.sleep(0.05)
        yield batch

frame = (
    spark.readStream.format("rocketmq").option("nameserver", nameserver).option("subscribe", topic)
    .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 500).option("fetchBytes", "8k")
    .schema("queueId int, queueOffset long, body binary").load().mapInArrow(slowly, "queueId int, queueOffset long, body binary")
)
query = (
    frame.writeStream.format("parquet").option("path", folder + "/out").option("checkpointLocation", folder + "/checkpoint")
    .trigger(availableNow=True).start()
)
query.awaitTermination()
"""


def _driver(broker: Broker, topic: str, folder: Path) -> "subprocess.Popen[bytes]":
    from .conftest import SETTINGS

    code = JOB.replace("{settings}", repr(SETTINGS))
    command = [sys.executable, "-c", code, broker.nameserver, topic, str(folder)]
    # A group of its own: the JVM and its Python workers die with the driver.
    return subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def test_a_killed_driver_loses_and_doubles_nothing(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic()
    broker.fill(topic, COUNT)
    commits = tmp_path / "checkpoint" / "commits"
    offsets = tmp_path / "checkpoint" / "offsets"
    driver = _driver(broker, topic, tmp_path)
    try:
        # In the middle: a batch is planned (its offsets are written) and not yet committed.
        broker.until(
            lambda: (
                commits.exists() and len(list(offsets.glob("[0-9]*"))) > len(list(commits.glob("[0-9]*"))) > 0
            ),
            300,
        )
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    done = len(list(commits.glob("[0-9]*")))
    assert 0 < done < COUNT // 500, "killed on the way"
    end = time.monotonic() + 400
    # Spark gives its Python processes 10 s to come up, which a busy machine may miss: then once more.
    while len(list(commits.glob("[0-9]*"))) < COUNT // 500 and time.monotonic() < end:
        again = _driver(broker, topic, tmp_path)
        try:
            again.wait(300)
        finally:
            if again.poll() is None:
                os.killpg(again.pid, signal.SIGKILL)
                again.wait()
    rows = spark.read.parquet(str(tmp_path / "out")).select("body").collect()
    assert len(rows) == COUNT
    found = sorted(int(bytes(row.body)) for row in rows)
    wanted = hashlib.sha256(repr(list(range(COUNT))).encode()).hexdigest()
    assert hashlib.sha256(repr(found).encode()).hexdigest() == wanted
