"""`storePath`: a store's files through a Spark session, of a broker that writes meanwhile, of copies, of Java's broker."""

import asyncio
import contextlib
import dataclasses
import json
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from rocketeer import Message, Producer
from rocketeer.broker.assemble import Broker
from rocketeer.client.plans.topics import put_topic
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.clock import SystemClock
from rocketeer.config import BrokerConfig, ServerConfig
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import TopicConfig
from rocketeer.store.store_files import QueueFilesView
from rocketeer.testing import Cluster, cluster
from rocketeer.testing.cluster import SMALL_STORE
from support.spark_sink import until

from .conftest import patiently

Read = Callable[..., DataFrame]
GOLDEN = Path(__file__).parents[1] / "golden" / "data"
COUNT = 600
TOPIC = "Files"
SETTINGS = {
    "segment_bytes": 1 << 16,
    "consume_queue_bytes": 20 * 100,
    # Nothing is flushed and no queue's file is written to while the tests run: what they find is the newest there is.
    "flush_interval_ms": 3_600_000,
    "flush_queue_interval_ms": 3_600_000,
    "flush_thorough_ms": 3_600_000,
    "flush_queue_thorough_ms": 3_600_000,
}
"""Files of 64 KB, so that messages lie in many, each ending with a blank record."""


def _send(running: Cluster, count: int, start: int = 0) -> None:
    with Producer("P", nameserver=running.nameserver) as producer:
        for at in range(start, start + count):
            tags = "even" if at % 4 < 2 else "odd"
            queue = MessageQueue(TOPIC, "broker-a", at % 2)
            producer.send(Message(TOPIC, b"%d " % at + b"x" * 300, tags=tags, keys=f"k{at}"), queue=queue)


def _numbers(rows: DataFrame) -> list[int]:
    """What `_send` numbered, sorted; each message must be where it belongs."""
    found = rows.select("queueId", "queueOffset", "body").collect()
    for row in found:
        assert int(bytes(row.body).split()[0]) == row.queueOffset * 2 + row.queueId
    return sorted(int(bytes(row.body).split()[0]) for row in found)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("live") / "store", store_settings=SETTINGS) as running:
        _send(running, COUNT)
        yield running


@pytest.fixture
def of(spark: SparkSession) -> Callable[..., DataFrame]:
    """`of(folder)`: the messages of a store."""

    def load(store: Path, **options: Any) -> DataFrame:
        given = {"storePath": str(store), "subscribe": TOPIC} | options
        given = {name: value for name, value in given.items() if value is not None}
        return spark.read.format("rocketmq").options(**given).load()

    return load


def test_a_living_brokers_files_have_what_it_has_acknowledged(of: Read, live: Cluster) -> None:
    assert len(os.listdir(live.store / "commitlog")) > 3, "over the ends of files"
    in_files = [QueueFilesView(live.store, TOPIC, queue).bounds()[1] for queue in (0, 1)]
    assert sum(in_files) < COUNT, "some entries are in the broker's memory only"
    assert _numbers(of(live.store)) == list(range(COUNT))

    stop, sent = threading.Event(), [COUNT]

    def go_on() -> None:
        while not stop.is_set():
            _send(live, 20, start=sent[0])
            sent[0] += 20

    writing = threading.Thread(target=go_on)
    writing.start()
    try:
        seen = []
        for _ in range(3):
            acknowledged = sent[0]
            found = _numbers(of(live.store))
            # Queues are looked at one after the other: each is whole up to where it was then.
            for queue in (0, 1):
                of_queue = [number for number in found if number % 2 == queue]
                assert of_queue == list(range(queue, of_queue[-1] + 1, 2))
            assert len(found) >= acknowledged
            seen.append(len(found))
        assert seen == sorted(seen)
        assert seen[-1] > COUNT, "it wrote meanwhile"
    finally:
        stop.set()
        writing.join()


def test_all_options_choose_as_with_a_broker(of: Read, live: Cluster) -> None:
    named = of(live.store, brokerName="other", assign=json.dumps({TOPIC: {"other": [1]}}), subscribe=None)
    rows = named.filter("queueOffset < 3").select("brokerName", "topic", "queueId", "keys", "storeHost")
    assert rows.collect() == [Row("other", TOPIC, 1, f"k{number}", live.broker) for number in (1, 3, 5)]
    assert _numbers(of(live.store, tags="odd").filter("queueOffset < 10")) == [
        number for number in range(20) if number % 4 > 1
    ]
    assert _numbers(of(live.store, subscribe=None, subscribePattern="Fil.*").filter("queueOffset < 2")) == [
        0, 1, 2, 3,
    ]  # fmt: skip
    starting, ending = ({TOPIC: {"broker-a": {"0": at, "1": at}}} for at in (COUNT // 2 - 4, COUNT // 2 - 2))
    part = of(live.store, startingOffsets=json.dumps(starting), endingOffsets=json.dumps(ending))
    assert _numbers(part) == list(range(COUNT - 8, COUNT - 4))
    tasks = of(live.store, endingOffsets=json.dumps(ending), minPartitions=6)
    assert tasks.rdd.getNumPartitions() == 6
    assert _numbers(tasks) == list(range(COUNT - 4))
    stored = of(live.store).filter(f"queueOffset = {COUNT // 4} and queueId = 0").collect()[0].storeTimestamp
    at_ms = round(stored.timestamp() * 1000)
    later = _numbers(of(live.store, startingTimestamp=at_ms, endingOffsets=json.dumps(ending)))
    earlier = _numbers(of(live.store, endingTimestamp=at_ms))
    assert sorted(earlier + later) == list(range(COUNT - 4))
    assert COUNT // 2 in later
    for wrong, said in (
        ({"sql": "a = 1"}, "'sql' is evaluated by the broker"),
        ({"storePath": "/nowhere"}, "storePath '/nowhere' is not a folder"),
        ({"subscribe": "Missing"}, "has no topic 'Missing'; it has"),
        ({"assign": json.dumps({TOPIC: {"x": [0]}}), "subscribe": None}, "names broker 'x', the option brokerName says"),
    ):  # fmt: skip
        with pytest.raises(Exception, match=said):
            of(live.store, **wrong).count()


def test_a_stream_follows_the_files_of_a_living_broker(
    spark: SparkSession, live: Cluster, tmp_path: Path
) -> None:
    first = sum(1 for _ in spark.read.format("rocketmq").options(
        storePath=str(live.store), subscribe=TOPIC
    ).schema("queueId int").load().collect())  # fmt: skip
    frame = (
        spark.readStream.format("rocketmq")
        .options(storePath=str(live.store), subscribe=TOPIC, startingOffsets="earliest", pollInterval="10ms")
        .options(maxOffsetsPerTrigger=first // 2, maxBytesPerTrigger="100m")
        .schema("queueId int, queueOffset long, body binary")
        .load()
    )
    writer = frame.writeStream.format("memory").queryName("followed")
    query = patiently(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start)
    try:
        until(lambda: spark.table("followed").count() == first, within_s=60, what="what was there")
        _send(live, 50, start=first)
        until(lambda: spark.table("followed").count() == first + 50, within_s=60, what="what came")
        assert _numbers(spark.table("followed")) == list(range(first + 50))
    finally:
        query.stop()


def test_copies_warm_cut_and_expired_are_read_as_far_as_they_go(of: Read, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with cluster(store, store_settings=SETTINGS) as running:
        _send(running, COUNT)
        # Of a running broker, whose queues' newest entries are in no file.
        shutil.copytree(store, tmp_path / "warm")
    assert _numbers(of(tmp_path / "warm")) == list(range(COUNT))
    shutil.copytree(store, tmp_path / "cold")
    assert _numbers(of(tmp_path / "cold")) == list(range(COUNT)), "after a clean stop"

    segments = sorted((tmp_path / "cold" / "commitlog").iterdir())
    cut = segments[2].read_bytes()[:30_000]
    for segment in segments[2:]:
        segment.unlink()
    segments[2].write_bytes(cut)
    found = _numbers(of(tmp_path / "cold"))
    assert found == list(range(len(found))), "a copy that was cut ends in the middle of a record"
    assert 0 < len(found) < COUNT

    old = sorted((store / "commitlog").iterdir())[:2]
    for segment in old:
        segment.unlink()  # as retention does; the consume queues still speak of them
    (store / "consumequeue" / TOPIC / "0" / "00000000000000000000").unlink()
    found = _numbers(of(store))
    assert found == list(range(found[0], COUNT))
    assert found[0] > 200
    first = json.dumps({TOPIC: {"broker-a": {"0": 5, "1": 5}}})
    gone = (found[0] + 1) // 2 - 5
    with cluster(store, store_settings=SETTINGS) as running:
        # From the files and from a broker that started on them.
        for given in ({}, {"nameserver": running.nameserver, "storePath": None}):
            assert _numbers(of(store, **given)) == found
            said = rf"{gone} messages \[5, {gone + 5}\) of queue 0 of topic 'Files'"
            with pytest.raises(Exception, match=said):
                of(store, startingOffsets=first, **given).count()
            assert _numbers(of(store, startingOffsets=first, failOnDataLoss="false", **given)) == found


@pytest.mark.parametrize("name", ["store_full", "store_crashed"])
def test_a_java_brokers_store_is_read_message_for_message(of: Read, name: str) -> None:
    manifest = json.loads((GOLDEN / name / "manifest.json").read_text())
    queued = manifest["consumequeue[topic][queue]=[index,phyOffset,size,tagsCode]"]
    by_place = {message["physicalOffset"]: message for message in manifest["messages"]}
    wanted = {
        (topic, int(queue), index): by_place[place]
        for topic, queues in queued.items()
        for queue, entries in queues.items()
        for index, place, _, _ in entries
    }
    topics = ",".join(sorted(queued))
    rows = of(GOLDEN / name, subscribe=topics, brokerName="java").collect()
    assert Counter((row.topic, row.queueId, row.queueOffset) for row in rows) == Counter(wanted.keys())
    for row in rows:
        told = wanted[row.topic, row.queueId, row.queueOffset]
        for column in (
            "msgId",
            "offsetMsgId",
            "tags",
            "keys",
            "flag",
            "sysFlag",
            "reconsumeTimes",
            "properties",
        ):
            assert row[column] == told.get(column), column
        assert bytes(row.body or b"").hex() == (told["body_hex"] or "")
        assert (row.bornHost, row.storeHost) == (told["bornHost"].lstrip("/"), told["storeHost"].lstrip("/"))
        assert round(row.storeTimestamp.timestamp() * 1000) == told["storeTimestamp"]
        assert round(row.bornTimestamp.timestamp() * 1000) == told["bornTimestamp"]


@contextlib.contextmanager
def _ipv6_broker(nameserver: str, store: Path, port: int) -> Iterator[str]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    broker = Broker(
        BrokerConfig(namesrv_addresses=(nameserver,), broker_name="broker-6", host="::1", ha_host="::1"),
        dataclasses.replace(SMALL_STORE, store_path=store, ha_port=port + 1),
        ServerConfig(bind_host="::1", listen_port=port),
        SystemClock(),
    )
    asyncio.run_coroutine_threadsafe(broker.start(), loop).result(60)
    try:
        yield f"[::1]:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(broker.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_hosts_with_ipv6_addresses_are_read_from_the_broker_and_its_files(
    spark: SparkSession, of: Read, live: Cluster, tmp_path: Path
) -> None:
    import socket

    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        port = probe.getsockname()[1]
    with _ipv6_broker(live.nameserver, tmp_path / "store", port) as address:
        driver = BlockingDriver()
        driver.run(put_topic(address, TopicConfig("Six", 1, 1), 20))
        driver.close()
        queue = MessageQueue("Six", "broker-6", 0)
        with Producer("P", nameserver=live.nameserver) as producer:

            def is_sent() -> bool:
                try:
                    return producer.send(Message("Six", b"0"), queue=queue).ok
                except Exception:
                    time.sleep(0.05)  # the route is on its way
                    return False

            until(is_sent, within_s=40, what="the broker's route")
            sent = [producer.send(Message("Six", b"%d" % number), queue=queue) for number in range(1, 5)]
        wire = spark.read.format("rocketmq").options(nameserver=live.nameserver, subscribe="Six").load()
        rows = sorted(wire.collect(), key=lambda row: row.queueOffset)
        files = of(tmp_path / "store", subscribe="Six", brokerName="broker-6").collect()
        assert sorted(files, key=lambda row: row.queueOffset) == rows
    assert [bytes(row.body) for row in rows] == [b"0", b"1", b"2", b"3", b"4"]
    assert {row.storeHost for row in rows} == {address}
    assert all(row.bornHost.startswith("[::1]:") for row in rows)
    assert [row.offsetMsgId for row in rows[1:]] == [each.offset_message_id for each in sent]
    assert rows[0].sysFlag & 0x30 == 0x30
