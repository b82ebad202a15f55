"""Options that show on the wire: how much is asked for and sent at a time, how long is waited, how often tried."""

import http.server
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rocketeer import Message, Producer
from rocketeer.client.plans.topics import put_topic
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.codes import RequestCode
from rocketeer.record.batch import iter_batch
from rocketeer.testing import Cluster, cluster
from support.proxy import HOST, SENDS, Proxy, proxy
from support.spark_sink import bodies, stored, until

from .conftest import numbers, patiently

COUNT = 400
PULL = int(RequestCode.PULL_MESSAGE)


@pytest.fixture(scope="module")
def watched() -> Iterator[tuple[Cluster, Proxy]]:
    """A broker whose address is the proxy's; the topic Watched has 400 KB in one queue."""
    with (
        cluster(broker={"host": HOST}) as running,
        proxy(int(running.broker.rpartition(":")[2])) as between,
    ):
        driver = BlockingDriver()
        for topic in ("Watched", "Written", "Paced", "Checked", "Patient"):
            driver.run(put_topic(running.broker, TopicConfig(topic, 1, 1), 20))
        driver.close()
        with Producer("P", nameserver=running.nameserver) as producer:
            queue = MessageQueue("Watched", "broker-a", 0)
            for number in range(COUNT):
                body = b"%d " % number + b"%032d" % hash(number) * 30
                producer.send(Message("Watched", body), queue=queue)
        yield running, between


def _read(spark: SparkSession, running: Cluster, **options: Any) -> DataFrame:
    given = {"nameserver": running.nameserver, "subscribe": "Watched", **options}
    return spark.read.format("rocketmq").options(**given).schema("queueOffset long").load()


def test_pulls_are_as_large_as_asked_for_and_tried_again_while_there_is_time(
    spark: SparkSession, watched: tuple[Cluster, Proxy]
) -> None:
    running, between = watched
    asked = []
    for size in ("4m", "20k"):
        between.seen.clear()
        assert _read(spark, running, fetchBytes=size).count() == COUNT
        asked.append(len(between.requests(PULL)))
    assert asked[0] < 4, "all in one or two pulls"
    assert asked[1] >= COUNT // 20, "20 KB are 20 messages"

    between.cuts = 2
    found = _read(spark, running, fetchBytes="100k", fetchRetryInterval="300ms")
    began_s = time.monotonic()
    assert sorted(row.queueOffset for row in found.collect()) == list(range(COUNT)), "none lost, none twice"
    assert time.monotonic() - began_s > 0.6, "a pause for each time without an answer"
    assert not between.cuts
    between.cuts = 1
    with pytest.raises(Exception, match="ConnectionLost"):
        _read(spark, running, fetchTimeout=0).collect()
    between.silent = True
    try:
        with pytest.raises(Exception, match=r"did not answer .* within 0\.4 s"):
            _read(spark, running, requestTimeout="400ms", fetchTimeout="0").collect()
    finally:
        between.silent = False


def test_connections_are_kept_from_batch_to_batch(
    spark: SparkSession, watched: tuple[Cluster, Proxy], tmp_path: Path
) -> None:
    running, between = watched
    between.seen.clear()
    between.pulling = 0
    frame = (
        spark.readStream.format("rocketmq")
        .options(nameserver=running.nameserver, subscribe="Watched", startingOffsets="earliest")
        .options(maxOffsetsPerTrigger=COUNT // 10)
        .schema("queueOffset long")
        .load()
    )
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = patiently(writer.trigger(availableNow=True).start)
    query.awaitTermination(100)
    assert sum(progress.numInputRows > 0 for progress in query.recentProgress) >= 10
    assert len(between.requests(PULL)) >= 10
    assert between.pulling <= 2, "one for each Python worker"


def test_planning_waits_as_long_as_fetching(spark: SparkSession, watched: tuple[Cluster, Proxy]) -> None:
    running, between = watched
    lossy, between.lossy = between.lossy, (RequestCode.GET_MIN_OFFSET,)
    try:
        for limit in ("0", "30s"):
            between.cuts = 1
            found = _read(spark, running, fetchTimeout=limit, fetchRetryInterval="10ms")
            if limit != "0":
                assert found.count() == COUNT
            else:
                with pytest.raises(Exception, match="ConnectionLost"):
                    found.count()
            assert not between.cuts
    finally:
        between.lossy = lossy


def test_a_filter_that_brokers_refuse_fails_the_planning(spark: SparkSession) -> None:
    """Whether a broker filters by properties only it knows; an expression that is none is refused before (options)."""
    with (
        cluster(broker={"property_filter_enable": False}) as running,
        Producer("P", nameserver=running.nameserver) as producer,
    ):
        producer.send(Message("Refused", b"x"))
        found = _read(spark, running, subscribe="Refused", sql="number > 3", fetchTimeout="0")
        with pytest.raises(Exception, match=r"(?i)refused") as failure:
            found.collect()
        assert "partitions" in str(failure.value), "not in a task"


class _Addresses(http.server.BaseHTTPRequestHandler):
    """An address server: its answer is the name servers' addresses as text."""

    text = ""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_name_servers_are_a_list_or_an_address_servers_answer_at_both_ends(
    spark: SparkSession, watched: tuple[Cluster, Proxy]
) -> None:
    running, _ = watched
    _Addresses.text = f"127.0.0.1:1;{running.nameserver}\n"
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Addresses)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/rocketmq/nsaddr"
        for number, given in enumerate((f"127.0.0.1:1; {running.nameserver}", url), 1):
            assert _read(spark, running, nameserver=given).count() == COUNT
            df = spark.range(3).selectExpr("cast(id as string) body")
            df.write.format("rocketmq").options(nameserver=given, topic="Written").mode("append").save()
            assert bodies(running.broker, "Written", 1).total() == 3 * number
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _write(df: DataFrame, running: Cluster, topic: str, **options: Any) -> None:
    given = {"nameserver": running.nameserver, "topic": topic, **options}
    df.write.format("rocketmq").options(**given).mode("append").save()


def test_requests_are_as_large_as_allowed_and_so_is_what_waits_for_replies(
    spark: SparkSession, watched: tuple[Cluster, Proxy]
) -> None:
    running, between = watched
    df = spark.range(0, 100, 1, 1).selectExpr("concat(id, repeat('x', 1000)) body")

    def sent(**options: Any) -> list[int]:
        """Rows of each request."""
        between.seen.clear()
        between.in_flight_bytes_max = 0
        _write(df, running, "Watched", **options)
        requests = between.requests(*SENDS)
        assert {request.ext["a"] for request in requests} == {options.get("producerGroup", "SPARK_SINK")}
        return [len(list(iter_batch(request.body))) for request in requests]

    assert sent(producerGroup="MY_JOB") == [100]
    assert sent(batchRows=30) == [30, 30, 30, 10]
    assert max(sent(batchBytes="5k")) == 4
    assert sent(batchRows=10, inFlightBytes="15k") == [10] * 10
    assert between.in_flight_bytes_max < 15 << 10, "one request of 10 KB at a time"


def test_sends_are_tried_again_as_long_as_allowed(
    spark: SparkSession, watched: tuple[Cluster, Proxy]
) -> None:
    running, between = watched
    df = spark.range(0, 50, 1, 1).selectExpr("cast(id as string) body")
    once = {"delivery": "effectively-once", "idColumn": "body"}
    between.cuts = 2
    _write(df, running, "Patient", **once)
    assert not between.cuts, "two replies were lost, and so it was sent three times"
    assert bodies(running.broker, "Patient", 1) == Counter(str(number).encode() for number in range(50))
    between.cuts = 1
    with pytest.raises(
        Exception, match="row 1 of partition 0 and 49 more rows not stored in topic 'Patient'"
    ):
        _write(df, running, "Patient", deliveryTimeout="0")
    between.silent = True
    try:
        with pytest.raises(Exception, match=r"not stored in topic 'Patient': .* within 0\.3 s"):
            _write(df, running, "Patient", sendTimeout="300ms", deliveryTimeout="500ms")
    finally:
        between.silent = False


def test_a_task_sends_no_faster_than_it_may(spark: SparkSession, watched: tuple[Cluster, Proxy]) -> None:
    running, _ = watched
    df = spark.range(0, 100, 1, 1).selectExpr("cast(id as string) body")
    _write(df, running, "Paced", maxRowsPerSecond=50, batchRows=10)
    times_ms = [message.store_ms for message in stored(running.broker, "Paced", 1)]
    assert len(times_ms) == 100
    assert times_ms[-1] - times_ms[0] >= 1700, "90 rows at 50 a second"


def test_a_task_that_checks_first_sends_all_or_nothing_also_at_least_once(
    spark: SparkSession, watched: tuple[Cluster, Proxy]
) -> None:
    running, _ = watched
    df = spark.range(0, 500, 1, 1).selectExpr("if(id = 499, '', cast(id as string)) body")
    # One request of ten rows at a time is on its way: all but the last one or two are stored when the bad row comes.
    options = {"batchRows": 10, "inFlightBytes": "10", "spoolBytes": "1k"}
    for first, there in (("true", {0}), ("false", {480, 490})):
        with pytest.raises(Exception, match="row 500 of partition 0 has an empty body"):
            _write(df, running, "Checked", checkFirst=first, **options)
        assert len(stored(running.broker, "Checked", 1)) in there


def test_a_stream_looks_for_news_as_often_as_it_is_told(
    spark: SparkSession, watched: tuple[Cluster, Proxy]
) -> None:
    running, _ = watched
    driver = BlockingDriver()
    topic = "News"
    driver.run(put_topic(running.broker, TopicConfig(topic, 1, 1), 20))
    from_ms = int(time.time() * 1000)

    def query(name: str, **intervals: str) -> Any:
        frame = (
            spark.readStream.format("rocketmq")
            .options(nameserver=running.nameserver, subscribe=topic, minPartitions=2, **intervals)
            .options(startingTimestamp=from_ms, startingOffsetsByTimestampStrategy="latest")
            .schema("body binary")
            .load()
        )
        return patiently(frame.writeStream.format("memory").queryName(name).start)

    names = ("often", "hardly_polls", "hardly_discovers")
    queries = [
        query("often", pollInterval="10ms", discoveryInterval="100ms"),
        query("hardly_polls", pollInterval="1h"),
        query("hardly_discovers", pollInterval="10ms", discoveryInterval="1h"),
    ]
    try:
        until(lambda: all(each.recentProgress for each in queries), within_s=60, what="the first batches")
        with Producer("P", nameserver=running.nameserver) as producer:
            for number in range(4):
                producer.send(Message(topic, b"%d" % number), queue=MessageQueue(topic, "broker-a", 0))
            for name in ("often", "hardly_discovers"):
                until(lambda name=name: spark.table(name).count() == 4, within_s=60, what=name)
            driver.run(put_topic(running.broker, TopicConfig(topic, 2, 2), 20))

            def is_there() -> bool:
                try:
                    return producer.send(Message(topic, b"4"), queue=MessageQueue(topic, "broker-a", 1)).ok
                except Exception:
                    return False

            until(is_there, within_s=40, what="the second queue")
        until(lambda: spark.table("often").count() == 5, within_s=60, what="the new queue")
        assert {name: numbers(spark.table(name)) for name in names} == {
            "often": [0, 1, 2, 3, 4], "hardly_polls": [], "hardly_discovers": [0, 1, 2, 3],
        }  # fmt: skip
        assert json.loads(queries[1].lastProgress.sources[0].endOffset)[topic] == {"broker-a": {"0": 0}}
    finally:
        for each in queries:
            each.stop()
        driver.close()
