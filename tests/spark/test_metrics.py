"""Numbers of running streams: lag, retries and brokers that are away, through Spark's listener and for Prometheus."""

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import DataFrame, SparkSession

from rocketeer.bench.servers import free_ports
from rocketeer.spark import watch_streams
from rocketeer.spark.metrics import NoSuchQuery, StreamMetrics
from rocketeer.spark.source.offsets import METRICS

from .conftest import Broker, patiently


def test_a_stream_tells_its_lag_and_its_rows(
    spark: SparkSession, broker: Broker, stream: Callable[..., DataFrame], tmp_path: Path
) -> None:
    topic = broker.topic(2)
    broker.fill(topic, 60, queues=2)
    port, _ = free_ports()
    metrics = watch_streams(spark, port=port)
    frame = stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    writer = frame.writeStream.format("noop").queryName("told").option("checkpointLocation", str(tmp_path))
    query = patiently(writer.trigger(processingTime="1 second").start)
    lags: set[int] = set()
    try:

        def is_done() -> bool:
            assert query.isActive, query.exception()
            lags.update(found.lag_messages for found in metrics.queries())
            return bool(metrics.queries()) and metrics.of("told").rows == 60

        broker.until(is_done)
        told = metrics.of("told")
        assert (told.lag_messages, told.lag_seconds, told.retries, told.brokers_away) == (0, 0.0, 0, {})
        assert lags & {40, 20}, "on the way"
        assert told.processed_rows_per_s > 0
        first = json.loads(query.recentProgress[0].sources[0].latestOffset)
        assert first[METRICS]["lagSeconds"] > 0, "messages lay there before the stream began"
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
        assert 'rocketeer_spark_lag_messages{query="told"} 0.0' in page
        assert 'rocketeer_spark_rows_total{query="told"} 60.0' in page
        query.stop()
        broker.until(lambda: not metrics.queries())
    finally:
        query.stop()
        spark.streams.removeListener(metrics)
    with pytest.raises(NoSuchQuery, match="no query 'told'"):
        metrics.of("told")


def test_brokers_that_are_away_and_retries_are_told_by_name() -> None:
    latest = {
        "T": {"broker-a": {"0": 9}},
        METRICS: {"lagSeconds": 7.5, "retries": 3, "brokersAway": {"broker-a": 12.0}},
    }
    end = {"T": {"broker-a": {"0": 4}}}
    progress = {
        "id": "1", "name": None, "batchId": 4, "numInputRows": 2,
        "sources": [{"latestOffset": json.dumps(latest), "endOffset": end}, {"latestOffset": "12"}],
    }  # fmt: skip
    metrics = StreamMetrics()
    metrics.take({**progress, "id": "2", "sources": [{"latestOffset": None}]})
    assert metrics.queries() == [], "none of ours"
    metrics.take(progress)
    metrics.take(progress)
    told = metrics.of("1")
    assert (told.lag_messages, told.lag_seconds, told.retries, told.rows) == (5, 7.5, 3, 4)
    registry = CollectorRegistry()
    registry.register(metrics)  # type: ignore[arg-type]
    labels = {"query": "1", "broker": "broker-a"}
    assert registry.get_sample_value("rocketeer_spark_broker_away_seconds", labels) == 12.0
    assert registry.get_sample_value("rocketeer_spark_retries_total", {"query": "1"}) == 3
