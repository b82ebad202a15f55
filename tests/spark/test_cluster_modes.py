"""The same job on executors in processes of their own: local-cluster, a standalone master, Spark Connect."""

from collections import Counter
from pathlib import Path

import pytest

from support.spark_clusters import EXECUTOR, run_driver, standalone_cluster
from support.spark_sink import bodies

from .conftest import SETTINGS, Broker

JOB = """
import sys
from rocketeer.spark import session
master, nameserver, topic, copy, folder = sys.argv[1:]
spark = session("modes", master=master, config={settings})
spark.sparkContext.setLogLevel("ERROR")
options = {"nameserver": nameserver, "subscribe": topic}
rows = spark.read.format("rocketmq").options(**options, minPartitions=4).schema("body binary").load()
print("BATCH", sum(int(bytes(row.body)) for row in rows.collect()))
stream = spark.readStream.format("rocketmq").options(**options, startingOffsets="earliest").schema("body binary").load()
query = (
    stream.writeStream.format("parquet").option("path", folder + "/out").option("checkpointLocation", folder + "/checkpoint")
    .trigger(availableNow=True).start()
)
query.awaitTermination()
print("STREAM", spark.read.parquet(folder + "/out").count())
once = {"delivery": "effectively-once", "idColumn": "body", "writeId": folder.replace(" ", "-")[-90:]}
for _ in range(2):
    rows.write.format("rocketmq").options(nameserver=nameserver, topic=copy, **once).mode("append").save()
spark.stop()
"""
COUNT = 200


def _run(master: str, broker: Broker, topic: str, folder: Path) -> None:
    code = JOB.replace("{settings}", repr({**SETTINGS, **EXECUTOR}))
    copy = broker.topic()
    said = run_driver(code, master, broker.nameserver, topic, copy, str(folder))
    assert f"BATCH {sum(range(COUNT))}" in said
    assert f"STREAM {COUNT}" in said
    assert bodies(broker.cluster.broker, copy) == Counter(str(number).encode() for number in range(COUNT))


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    name = broker.topic()
    broker.fill(name, COUNT)
    return name


def test_executors_in_processes_of_their_own(broker: Broker, topic: str, tmp_path: Path) -> None:
    _run("local-cluster[2,1,1024]", broker, topic, tmp_path)


def test_a_standalone_master_with_a_worker_from_the_installed_package(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    with standalone_cluster(tmp_path, cores=2) as master:
        _run(master, broker, topic, tmp_path)


CONNECT = """
import sys
from pyspark.sql import SparkSession
from rocketeer.spark import register
nameserver, topic, copy, folder = sys.argv[1:]
spark = SparkSession.builder.remote("local[1]").getOrCreate()
register(spark)
options = {"nameserver": nameserver, "subscribe": topic}
rows = spark.read.format("rocketmq").options(**options).schema("queueId int, body binary").load()
print("CONNECT", sum(int(bytes(row.body)) for row in rows.collect()))
print("FILTERED", rows.filter("queueId = 1").count())
rows.select("body").write.format("rocketmq").options(nameserver=nameserver, topic=copy).mode("append").save()
stream = spark.readStream.format("rocketmq").options(**options, startingOffsets="earliest").schema("body binary").load()
query = (
    stream.writeStream.format("rocketmq").options(nameserver=nameserver, topic=copy)
    .option("checkpointLocation", folder).trigger(availableNow=True).start()
)
query.awaitTermination()
spark.stop()
"""


def test_a_spark_connect_session_reads_and_writes_too(broker: Broker, topic: str, tmp_path: Path) -> None:
    copy = broker.topic()
    said = run_driver(CONNECT, broker.nameserver, topic, copy, str(tmp_path / "checkpoint"))
    assert f"CONNECT {sum(range(COUNT))}" in said
    assert f"FILTERED {COUNT // 4}" in said
    twice = Counter({str(number).encode(): 2 for number in range(COUNT)})
    assert bodies(broker.cluster.broker, copy) == twice, "a batch and a stream"
