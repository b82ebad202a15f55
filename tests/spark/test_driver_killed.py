"""kill -9 of driver or executor in the middle of a batch, source to Parquet: in the end nothing is missing or double."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from .conftest import SETTINGS, Broker

COUNT = 4000
# Slow enough to be killed in the middle: each row takes a moment in Python.
JOB = """
import sys, time
from rocketeer.spark import session
nameserver, topic, folder, master = sys.argv[1:]
spark = session("killed", master=master, config={settings})
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


def _driver(broker: Broker, topic: str, folder: Path, master: str = "local[2]") -> "subprocess.Popen[bytes]":
    code = JOB.replace("{settings}", repr(SETTINGS))
    command = [sys.executable, "-c", code, broker.nameserver, topic, str(folder), master]
    # A group of its own: the JVM and its Python workers die with the driver.
    return subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _batches(folder: Path) -> tuple[int, int]:
    """How many were planned, and how many of them committed."""
    planned, committed = (
        len(list((folder / "checkpoint" / kind).glob("[0-9]*"))) for kind in ("offsets", "commits")
    )
    return planned, committed


def _is_in_the_middle(folder: Path) -> bool:
    """A batch is planned (its offsets are written) and not yet committed."""
    planned, committed = _batches(folder)
    return planned > committed > 0


def _check_all_are_there_once(spark: SparkSession, folder: Path) -> None:
    rows = spark.read.parquet(str(folder / "out")).select("body").collect()
    assert len(rows) == COUNT
    found = sorted(int(bytes(row.body)) for row in rows)
    wanted = hashlib.sha256(repr(list(range(COUNT))).encode()).hexdigest()
    assert hashlib.sha256(repr(found).encode()).hexdigest() == wanted


def _end(driver: "subprocess.Popen[bytes]") -> None:
    if driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def test_a_killed_driver_loses_and_doubles_nothing(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic()
    broker.fill(topic, COUNT)
    driver = _driver(broker, topic, tmp_path)
    try:
        broker.until(lambda: _is_in_the_middle(tmp_path), 300)
    finally:
        _end(driver)
    assert 0 < _batches(tmp_path)[1] < COUNT // 500, "killed on the way"
    end = time.monotonic() + 400
    # Spark gives its Python processes 10 s to come up, which a busy machine may miss: then once more.
    while _batches(tmp_path)[1] < COUNT // 500 and time.monotonic() < end:
        again = _driver(broker, topic, tmp_path)
        try:
            again.wait(300)
        finally:
            _end(again)
    _check_all_are_there_once(spark, tmp_path)


def _executors(driver: "subprocess.Popen[bytes]") -> list[int]:
    """The JVMs that run the tasks of a driver on a cluster in its own process group."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            group = int((folder / "stat").read_text().rpartition(")")[2].split()[2])
            if group == driver.pid and b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue  # it has ended meanwhile
    return found


def test_a_killed_executor_loses_and_doubles_nothing(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic()
    broker.fill(topic, COUNT)
    driver = _driver(broker, topic, tmp_path, master="local-cluster[2,1,1024]")
    try:
        broker.until(lambda: _is_in_the_middle(tmp_path), 300)
        killed = _executors(driver)[0]
        os.kill(killed, signal.SIGKILL)
        assert _batches(tmp_path)[1] < COUNT // 500, "killed on the way"
        assert driver.wait(400) == 0, "its tasks ran elsewhere"
    finally:
        _end(driver)
    _check_all_are_there_once(spark, tmp_path)
