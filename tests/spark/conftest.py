"""One Spark session and one broker for all tests of a process; each test has topics of its own."""

import itertools
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming import DataStreamReader, StreamingQuery

from rocketeer import Message, Producer
from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.plans.routes import fetch_route
from rocketeer.client.plans.topics import delete_topic, put_topic
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import TopicConfig
from rocketeer.spark import session
from rocketeer.testing import Cluster, cluster

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    # Short runs on few cores: a compiler and a collector that want none of their own.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.streaming.noDataProgressEventInterval": "200",
}

_numbers = itertools.count()


STARTS_JVMS = re.compile("kill|prompt|pipe|command|cluster_modes|demo|restart")
"""In the names of tests that start further JVMs, and so take a minute each where there are two cores."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "jvms: starts JVMs of its own (`make test-spark` runs these too)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The first test of a process also starts a JVM, which takes its time on a busy machine."""
    here = Path(__file__).parent
    later = []
    for item in items:
        if here not in item.path.parents:
            continue
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))
        if STARTS_JVMS.search(item.nodeid.rsplit("/", 1)[-1]):
            item.add_marker(pytest.mark.jvms)
        if item.get_closest_marker("jvms") is not None:
            later.append(item)
    if "jvms" not in config.option.markexpr:
        config.hook.pytest_deselected(items=later)
        items[:] = [item for item in items if item not in set(later)]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    jars = os.environ.get("ROCKETEER_S3_JARS")
    path = {} if jars is None else {"spark.driver.extraClassPath": f"{jars}/*"}
    running = session("rocketeer-tests", master="local[2]", config={**SETTINGS, **path})
    running.sparkContext.setLogLevel("OFF")
    yield running
    running.stop()


class Broker:
    """A running cluster and short ways to fill it."""

    def __init__(self, running: Cluster) -> None:
        self.cluster = running
        self.nameserver = running.nameserver
        self.producer = Producer("SPARK_TESTS", nameserver=running.nameserver)
        self.producer.start()

    def topic(self, queues: int = 4, name: str | None = None) -> str:
        """A new topic, known to the name server."""
        name = name or f"Spark{next(_numbers)}"
        self.change(name, queues)
        return name

    def change(self, name: str, queues: int) -> None:
        """Make the topic, or give it more queues; returns when the name server knows."""
        driver = BlockingDriver()
        driver.run(put_topic(self.cluster.broker, TopicConfig(name, queues, queues), 10))
        driver.close()
        self.until_known(name, queues)

    def until_known(self, name: str, queues: int | None = None) -> None:
        """Wait until the name server knows the topic (with so many queues): the broker tells it a moment later."""
        driver = BlockingDriver()

        def is_known() -> bool:
            route = driver.run(fetch_route(name, NameServers([self.nameserver]), 10))
            return route is not None and queues in (None, route.queues[0].read_queues)

        self.until(is_known)
        driver.close()

    def delete(self, name: str) -> None:
        driver = BlockingDriver()
        driver.run(delete_topic(self.cluster.broker, name, 10))
        driver.close()

    def fill(self, topic: str, count: int, start: int = 0, queues: int = 4, **given: Any) -> None:
        """Messages b"0", b"1", ... over the queues in turn, so that offsets are known: n // queues."""
        for number in range(start, start + count):
            queue = MessageQueue(topic, "broker-a", number % queues)
            properties = {"number": str(number)}
            message = Message(
                topic, str(number).encode(), tags=f"T{number % 3}", properties=properties, **given
            )
            self.producer.send(message, queue=queue)

    @staticmethod
    def until(true: Callable[[], bool], limit_s: float = 60) -> None:
        end = time.monotonic() + limit_s
        while not true():
            assert time.monotonic() < end, "waited too long"
            time.sleep(0.02)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with cluster() as running:
        filled = Broker(running)
        yield filled
        filled.producer.close()


@pytest.fixture
def read(spark: SparkSession, broker: Broker) -> Callable[..., DataFrame]:
    """`read(subscribe="A")`: a DataFrame; `schema=` names the columns."""

    def load(schema: str | None = "queueId int, queueOffset long, body binary", **options: Any) -> DataFrame:
        reader: DataFrameReader = spark.read.format("rocketmq")
        if "storePath" not in options:
            reader = reader.option("nameserver", broker.nameserver)
        reader = reader.options(**options)
        return (reader if schema is None else reader.schema(schema)).load()

    return load


@pytest.fixture
def stream(spark: SparkSession, broker: Broker) -> Callable[..., DataFrame]:
    """The same for streams; they look for news often."""

    def load(schema: str | None = "queueId int, queueOffset long, body binary", **options: Any) -> DataFrame:
        reader: DataStreamReader = spark.readStream.format("rocketmq").option("pollInterval", "10ms")
        if "storePath" not in options:
            reader = reader.option("nameserver", broker.nameserver)
        reader = reader.options(**options)
        return (reader if schema is None else reader.schema(schema)).load()

    return load


def numbers(frame: DataFrame) -> list[int]:
    """What `Broker.fill` numbered, sorted."""
    return sorted(int(bytes(row.body)) for row in frame.select("body").collect())


def patiently(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that got over its start. Spark gives a new Python process 10 s to connect, which no setting changes: on a
    machine with too much to do that fails before anything was read, so it is tried again."""
    for _ in range(4):
        query = start()
        while query.isActive and "nitializing" in query.status["message"]:
            time.sleep(0.05)
        failure = None if query.isActive else query.exception()
        if failure is None or "failed to connect back" not in str(failure):
            return query
    return query
