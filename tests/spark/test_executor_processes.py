"""Executors in processes of their own, in a small form: a few messages through the source and the sink.

`test_cluster_modes.py` has the same in full: streams, several executors, effectively once, Spark Connect.
"""

from collections import Counter
from pathlib import Path

import pytest

from support.spark_clusters import EXECUTOR, run_driver, standalone_cluster
from support.spark_sink import bodies

from .conftest import SETTINGS, Broker

COUNT = 40
JOB = """
import sys
from rocketeer.spark import session
master, nameserver, topic, copy = sys.argv[1:]
spark = session("executors", master=master, config={settings})
spark.sparkContext.setLogLevel("ERROR")
rows = spark.read.format("rocketmq").options(nameserver=nameserver, subscribe=topic).schema("body binary").load()
rows.write.format("rocketmq").options(nameserver=nameserver, topic=copy).mode("append").save()
spark.stop()
"""


def _copies_all(broker: Broker, master: str) -> None:
    topic, copy = broker.topic(), broker.topic()
    broker.fill(topic, COUNT)
    code = JOB.replace("{settings}", repr({**SETTINGS, **EXECUTOR}))
    run_driver(code, master, broker.nameserver, topic, copy)
    wanted = Counter(str(number).encode() for number in range(COUNT))
    assert bodies(broker.cluster.broker, copy) == wanted


def test_an_executor_of_a_local_cluster_reads_and_writes(broker: Broker) -> None:
    _copies_all(broker, "local-cluster[1,1,512]")


@pytest.mark.jvms  # four JVMs; the short form of it is the one above
def test_an_executor_of_a_standalone_worker_reads_and_writes(broker: Broker, tmp_path: Path) -> None:
    with standalone_cluster(tmp_path) as master:
        _copies_all(broker, master)
