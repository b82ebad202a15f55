"""Slaves that do not have what their master has: nothing is lost, skipped or read twice because of them."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from rocketeer import Message, Producer
from rocketeer.bench.servers import ServerCluster, Slave
from rocketeer.errors import RemotingError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.source.fetch import fetch_range
from rocketeer.spark.source.options import parse_options
from rocketeer.spark.source.planning import QueueRange
from rocketeer.spark.source.pulls import PullTerms
from support.records import split_records
from support.replicas import CONF, log_files
from support.spark_sink import until

from .conftest import patiently

QUEUE = MessageQueue("Lagged", "broker-a", 0)
HALF = 300
NOBODY = "127.0.0.1:1"


def _send(master: ServerCluster, first: int) -> None:
    with Producer("LAG", nameserver=master.namesrv) as producer:
        for number in range(first, first + HALF):
            producer.send(Message("Lagged", b"%d" % number), queue=QUEUE)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[ServerCluster, Slave]]:
    """A master with all messages, and a slave that has the first half and gets no more."""
    master = ServerCluster("ours", tmp_path / "m", conf={**CONF, "brokerRole": "ASYNC_MASTER"})
    slave = Slave("ours", tmp_path / "s", master, conf=CONF)
    try:
        master.start()
        slave.start()
        _send(master, 0)
        until(lambda: log_files(slave.store) == log_files(master.store), within_s=60, what="the copy")
        until(lambda: _knows_topic(slave), within_s=60, what="the topic on the slave")
        slave.stop_broker()
        slave.stop()
        _send(master, HALF)
        lagging = Slave("ours", tmp_path / "s", master, conf={**CONF, "haMasterAddress": NOBODY})
        lagging.broker_port = slave.broker_port
        slave = lagging
        slave.start()
        yield master, slave
    finally:
        slave.kill()
        master.kill()


def _knows_topic(slave: Slave) -> bool:
    return '"Lagged"' in (slave.store / "config" / "topics.json").read_text()


def _terms(master: ServerCluster, **given: str) -> PullTerms:
    options = {"nameserver": master.namesrv, "subscribe": "Lagged", "readFrom": "slave"}
    return PullTerms.of(parse_options({**options, **given}, streaming=False))


def _numbers(terms: PullTerms, address: str) -> list[int]:
    bodies = fetch_range(terms, QueueRange(QUEUE, 0, 2 * HALF), address)
    return [int(record.body) for body in bodies for record in split_records(bytes(body))]


@pytest.mark.parametrize("lenient", ["true", "false"])
def test_what_a_slave_does_not_have_yet_is_read_from_the_master_without_a_pause(
    pair: tuple[ServerCluster, Slave], lenient: str
) -> None:
    master, slave = pair
    terms = _terms(master, fetchTimeout="0", failOnDataLoss="false" if lenient == "true" else "true")
    assert _numbers(terms, slave.broker) == list(range(2 * HALF))


def test_a_slave_alone_loses_nothing_its_master_may_bring_back(pair: tuple[ServerCluster, Slave]) -> None:
    master, slave = pair
    master.broker_process.kill()
    terms = _terms(master, fetchTimeout="1s", failOnDataLoss="false")
    with pytest.raises(RemotingError):
        _numbers(terms, slave.broker)
    found: list[int] = []
    bodies = fetch_range(_terms(master, failOnDataLoss="false"), QueueRange(QUEUE, 0, 2 * HALF), slave.broker)
    found += [int(record.body) for record in split_records(bytes(next(bodies)))]
    assert found == list(range(HALF)), "what the slave has"
    master.start_broker()
    found += [int(record.body) for body in bodies for record in split_records(bytes(body))]
    assert found == list(range(2 * HALF))


@pytest.mark.parametrize("fail_on_loss", ["true", "false"])
def test_a_stream_ahead_of_the_slave_waits_when_the_master_dies(
    spark: SparkSession, pair: tuple[ServerCluster, Slave], tmp_path: Path, fail_on_loss: str
) -> None:
    """Queues that seem to end earlier did not go back."""
    master, _ = pair
    seen: Counter[int] = Counter()

    def take(frame: DataFrame, batch: int) -> None:
        seen.update(int(row.body) for row in frame.collect())

    frame = (
        spark.readStream.format("rocketmq")
        .options(nameserver=master.namesrv, subscribe="Lagged", startingOffsets="earliest")
        .options(discoveryInterval="200ms", failOnDataLoss=fail_on_loss)
        .schema("body binary")
        .load()
    )
    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "cp"))
    query = patiently(writer.start)
    try:
        until(lambda: len(seen) == 2 * HALF, within_s=90, what="all messages")
        master.broker_process.kill()
        time.sleep(4)  # the slave alone is in the route, and says where its queues end
        assert query.isActive, query.exception()
        assert set(seen.values()) == {1}
        master.start_broker()
        _send(master, 2 * HALF)
        until(lambda: len(seen) == 3 * HALF or not query.isActive, within_s=90, what="what came later")
        assert query.isActive, query.exception()
    finally:
        query.stop()
    assert seen == Counter(range(3 * HALF)), "each once"
