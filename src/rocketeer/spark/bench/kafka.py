"""Spark's own source and sink for Kafka, and Kafka's clients in Spark's JVM: what the benches compare ours with."""

import time
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

_LEADERS_S: Final = 120.0


def make_topic(spark: SparkSession, plan: dict[str, Any]) -> None:
    """The topic with the broker's default of partitions; returns when each has a leader, so that sends can begin.

    A topic that is made by the first send to it may have none for a while, and records that wait for one expire.
    """
    jvm: Any = spark._jvm
    settings = jvm.java.util.HashMap()
    settings.put("bootstrap.servers", plan["kafka"])
    admin = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
    try:
        default = jvm.java.util.Optional.empty()
        topic = jvm.org.apache.kafka.clients.admin.NewTopic(plan["topic"], default, default)
        admin.createTopics([topic]).all().get()
        give_up_s = time.monotonic() + _LEADERS_S
        while not _has_leaders(admin, plan["topic"]):
            assert time.monotonic() < give_up_s, f"Kafka's topic has no leaders after {_LEADERS_S:g} s"
            time.sleep(0.1)
    finally:
        admin.close()


def _has_leaders(admin: Any, topic: str) -> bool:
    found = admin.describeTopics([topic]).allTopicNames().get()[topic]
    leaders = [partition.leader() for partition in found.partitions()]
    return bool(leaders) and all(leader is not None and not leader.isEmpty() for leader in leaders)


def write(rows: DataFrame, plan: dict[str, Any]) -> None:
    """With Spark's own sink. It waits for all replicas, of which there is one. Kafka's key has the tags."""
    chosen = rows.selectExpr("tags as key", "body as value")
    sink = chosen.write.format("kafka").option("kafka.bootstrap.servers", plan["kafka"])
    sink.option("topic", plan["topic"]).save()


def rows(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", plan["kafka"])
    return reader.option("subscribe", plan["topic"]).load()


def stream(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", plan["kafka"])
    return reader.option("subscribe", plan["topic"]).load()


class KafkaSender:
    """Kafka's own producer, record by record."""

    def __init__(self, spark: SparkSession, plan: dict[str, Any]) -> None:
        jvm: Any = spark._jvm
        self._record: Any = jvm.org.apache.kafka.clients.producer.ProducerRecord
        self._topic: str = plan["topic"]
        settings = jvm.java.util.HashMap()
        settings.put("bootstrap.servers", plan["kafka"])
        for part in ("key", "value"):
            settings.put(f"{part}.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer")
        self._producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(settings)

    def send(self, body: bytes) -> tuple[int, int]:
        """Partition and offset of the stored record."""
        stored = self._producer.send(self._record(self._topic, body)).get()
        return stored.partition(), stored.offset()

    def close(self) -> None:
        self._producer.close()
