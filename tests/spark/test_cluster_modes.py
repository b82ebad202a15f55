"""The same job on executors in processes of their own: local-cluster, a standalone master, Spark Connect."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rocketeer.bench.servers import free_ports
from rocketeer.spark.java import use_java
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
    settings = {**SETTINGS, "spark.executor.memory": "512m", "spark.cores.max": "2"}
    code = JOB.replace("{settings}", repr(settings))
    copy = broker.topic()
    command = [sys.executable, "-c", code, master, broker.nameserver, topic, copy, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert f"BATCH {sum(range(COUNT))}" in done.stdout, done.stderr[-3000:]
    assert f"STREAM {COUNT}" in done.stdout, done.stderr[-3000:]
    assert done.returncode == 0, done.stderr[-3000:]
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
    import pyspark

    home = Path(pyspark.__file__).parent
    port, worker_port = free_ports()
    use_java()
    env = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    master = f"spark://127.0.0.1:{port}"
    spark_class = str(home / "bin" / "spark-class")
    log = open(tmp_path / "servers.log", "w")  # noqa: SIM115 - closed below, with the servers
    servers = []
    try:
        for arguments in (
            ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
            ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--port", str(worker_port), "--webui-port", "0",
             "--cores", "2", "--memory", "1g", "--work-dir", str(tmp_path / "work"), master],
        ):  # fmt: skip
            servers.append(
                subprocess.Popen(
                    [spark_class, *arguments], env=env, stdout=log, stderr=log, start_new_session=True
                )
            )
        _run(master, broker, topic, tmp_path)
    finally:
        for server in servers:
            os.killpg(server.pid, 9)
            server.wait()
        log.close()


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
    use_java()
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    copy = broker.topic()
    arguments = [broker.nameserver, topic, copy, str(tmp_path / "checkpoint")]
    command = [sys.executable, "-W", "ignore", "-c", CONNECT, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=env)
    assert f"CONNECT {sum(range(COUNT))}" in done.stdout, done.stderr[-3000:]
    assert f"FILTERED {COUNT // 4}" in done.stdout, done.stderr[-3000:]
    assert done.returncode == 0, done.stderr[-3000:]
    twice = Counter({str(number).encode(): 2 for number in range(COUNT)})
    assert bodies(broker.cluster.broker, copy) == twice, "a batch and a stream"
