"""A cluster of several brokers: both ends see all of them, also one that joins, dies and comes back meanwhile."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from rocketeer import Message, Producer
from rocketeer.bench.control import Control
from rocketeer.bench.servers import free_ports
from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache
from rocketeer.client.core.selectors import by_hash
from rocketeer.client.plans.brokers import ClusterRoutes
from rocketeer.client.plans.offsets import committed_offset
from rocketeer.client.plans.topics import put_topic
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.codes import RequestCode
from rocketeer.record.layout import StoredMessage
from support.cluster import TEST_CONF, ServerCluster, running_cluster
from support.spark_sink import noted_queues, stored, until

from .conftest import numbers, patiently

QUEUES = 2


class Brokers:
    """One name server and the brokers that registered there, by name."""

    def __init__(self, first: ServerCluster, folder: Path) -> None:
        self._folder = folder
        self._by_name = {"broker-a": first}
        self.nameserver = first.namesrv

    def join(self, name: str) -> None:
        """A further broker of the cluster, in a process of its own."""
        broker = ServerCluster("ours", self._folder / name, conf={**TEST_CONF, "brokerName": name})
        broker.namesrv_port = self["broker-a"].namesrv_port
        broker.broker_port = free_ports()[1]
        broker.folder.mkdir()
        self._by_name[name] = broker
        broker.start_broker()

    def __getitem__(self, name: str) -> ServerCluster:
        return self._by_name[name]

    def topic(self, name: str, *brokers: str) -> str:
        """A topic with two queues on each of these brokers; returns when its route has them all."""
        driver = BlockingDriver()
        for broker in brokers:
            driver.run(put_topic(self[broker].broker, TopicConfig(name, QUEUES, QUEUES), 20))
        driver.close()
        with Control(self.nameserver) as control:
            until(
                lambda: all(
                    f'"{broker}"'.encode()
                    in control.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": name}).body
                    for broker in brokers
                ),
                within_s=40,
                what=f"route of {name}",
            )
        return name

    def fill(self, topic: str, broker: str, count: int, start: int = 0) -> None:
        """Messages b"0", b"1", ... over the broker's queues in turn."""
        with Producer("SPARK_TESTS", nameserver=self.nameserver) as producer:
            for number in range(start, start + count):
                queue = MessageQueue(topic, broker, number % QUEUES)
                producer.send(Message(topic, str(number).encode()), queue=queue)

    def stored(self, topic: str, *brokers: str) -> list[tuple[MessageQueue, StoredMessage]]:
        return [
            (MessageQueue(topic, broker, message.queue_id), message)
            for broker in brokers
            for message in stored(self[broker].broker, topic, QUEUES)
        ]

    def committed(self, group: str, topic: str, broker: str) -> list[int | None]:
        """How far the group has come in each of the broker's queues."""
        routes = ClusterRoutes(RouteCache(), NameServers([self.nameserver]), 10)
        driver = BlockingDriver()
        queues = [MessageQueue(topic, broker, queue) for queue in range(QUEUES)]
        found = [driver.run(committed_offset(routes, group, queue)) for queue in queues]
        driver.close()
        return found

    def close(self) -> None:
        for name, broker in self._by_name.items():
            if name != "broker-a":
                broker.kill_broker()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    folder = tmp_path_factory.mktemp("brokers")
    with running_cluster(folder / "broker-a") as first:
        running = Brokers(first, folder)
        try:
            running.join("broker-b")
            yield running
        finally:
            running.close()


def test_a_read_takes_all_brokers_and_chooses_by_them(spark: SparkSession, brokers: Brokers) -> None:
    topic = brokers.topic("Chosen", "broker-a", "broker-b")
    brokers.fill(topic, "broker-a", 10)
    brokers.fill(topic, "broker-b", 6, start=100)

    def read(**options: Any) -> DataFrame:
        given = {"nameserver": brokers.nameserver, **({} if "assign" in options else {"subscribe": topic})}
        columns = "brokerName string, queueId int, queueOffset long, body binary"
        return spark.read.format("rocketmq").options(**given, **options).schema(columns).load()

    found = read().collect()
    assert {(row.brokerName, row.queueId, row.queueOffset): bytes(row.body) for row in found} == {
        (broker, number % 2, number // 2): str(first + number).encode()
        for broker, first, count in (("broker-a", 0, 10), ("broker-b", 100, 6))
        for number in range(count)
    }
    assert numbers(read(assign=json.dumps({topic: {"broker-b": [1]}}))) == [101, 103, 105]
    assert numbers(read(assign=json.dumps({topic: {"broker-a": [0], "broker-b": [0]}}))) == [
        0, 2, 4, 6, 8, 100, 102, 104,
    ]  # fmt: skip
    starting = {topic: {"broker-a": {"0": 4, "1": -2}, "broker-b": {"0": 3}}}
    ending = {topic: {"broker-a": {"1": 1}, "broker-b": {"1": 2}}}
    chosen = read(startingOffsets=json.dumps(starting), endingOffsets=json.dumps(ending))
    assert numbers(chosen) == [1, 8, 101, 103]
    now_ms = int(time.time() * 1000) + 1
    until(lambda: time.time() * 1000 > now_ms, within_s=5, what="the next millisecond")
    brokers.fill(topic, "broker-b", 2, start=106)
    times = json.dumps({topic: {"broker-b": {"0": now_ms, "1": now_ms}}})
    assert numbers(read(startingOffsetsByTimestamp=times)) == [*range(10), 106, 107]
    assert numbers(read(endingOffsetsByTimestamp=times)) == [*range(10), *range(100, 106)]
    with pytest.raises(Exception, match="names queue 0 of topic 'Chosen' on 'broker-x'"):
        read(startingOffsets=json.dumps({topic: {"broker-x": {"0": 1}}})).count()
    with pytest.raises(Exception, match="topic 'Chosen': broker-x is in no route"):
        read(assign=json.dumps({topic: {"broker-x": [0]}})).count()


def test_a_stream_takes_up_a_broker_that_joins_and_waits_for_one_that_was_killed(
    spark: SparkSession, brokers: Brokers, tmp_path: Path
) -> None:
    topic = brokers.topic("Joined", "broker-a")
    brokers.fill(topic, "broker-a", 4)
    seen: list[int] = []

    def start() -> StreamingQuery:
        frame = (
            spark.readStream.format("rocketmq")
            .options(nameserver=brokers.nameserver, subscribe=topic, startingOffsets="earliest")
            .options(
                discoveryInterval="100ms", pollInterval="10ms", requestTimeout="5s", group="SPARK_JOINED"
            )
            .schema("body binary")
            .load()
        )
        writer = frame.writeStream.foreachBatch(lambda batch, _: seen.extend(numbers(batch)))
        return patiently(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start)

    def arrives(wanted: list[int]) -> None:
        def is_there() -> bool:
            assert query.isActive, query.exception()
            return sorted(set(seen)) == wanted  # what was under way when the query stopped comes again

        until(is_there, within_s=90, what=f"{wanted} in {seen}")

    query = start()
    try:
        arrives([0, 1, 2, 3])
        brokers.join("broker-c")
        brokers.topic(topic, "broker-c")
        brokers.fill(topic, "broker-c", 4, start=100)
        arrives([0, 1, 2, 3, *range(100, 104)])
        brokers["broker-c"].kill_broker()
        brokers.fill(topic, "broker-a", 2, start=4)
        arrives([*range(6), *range(100, 104)])
        query.stop()
        query = start()  # from a checkpoint that speaks of a broker nobody can reach
        brokers.fill(topic, "broker-a", 2, start=6)
        arrives([*range(8), *range(100, 104)])
        until(
            lambda: brokers.committed("SPARK_JOINED", topic, "broker-a") == [4, 4],
            within_s=30,
            what="the group's progress at the broker that is there",
        )
        brokers["broker-c"].start_broker()
        brokers.fill(topic, "broker-c", 2, start=104)
        arrives([*range(8), *range(100, 106)])
        ends = {topic: {"broker-a": {"0": 4, "1": 4}, "broker-c": {"0": 3, "1": 3}}}
        until(
            lambda: query.lastProgress and json.loads(query.lastProgress.sources[0].endOffset) == ends,
            within_s=30,
            what="offsets of both brokers",
        )
    finally:
        query.stop()


@pytest.mark.parametrize("once", [False, True])
def test_rows_go_to_all_brokers_and_those_of_a_key_to_one_queue_in_order(
    spark: SparkSession, brokers: Brokers, once: bool
) -> None:
    topic = brokers.topic(f"Spread-{once}", "broker-a", "broker-b")
    options = {"nameserver": brokers.nameserver, "topic": topic, "batchRows": 10}
    if once:
        options |= {"delivery": "effectively-once", "idColumn": "id", "writeId": "spread"}
    columns = ["cast(id as string) body", "if(id % 4 = 0, null, concat('k', id % 7)) shardingKey"]
    df = spark.range(0, 2000, 1, 1).selectExpr(*columns, *(["id"] if once else []))
    for _ in range(2 if once else 1):  # the second time adds nothing
        df.write.format("rocketmq").options(**options).mode("append").save()
    found = brokers.stored(topic, "broker-a", "broker-b")
    assert Counter(message.body for _, message in found) == Counter(str(n).encode() for n in range(2000))
    queues = [MessageQueue(topic, broker, queue) for broker in ("broker-a", "broker-b") for queue in (0, 1)]
    last: dict[str, int] = {}
    free: Counter[MessageQueue] = Counter()
    for queue, message in found:
        key = message.properties_dict().get("__SHARDINGKEY")
        if key is None:
            free[queue] += 1
            continue
        assert queue == by_hash(queues, Message(topic, b"x", sharding_key=key))
        assert last.get(key, -1) < int(message.body)
        last[key] = int(message.body)
    assert set(free) == set(queues), "rows without a key go everywhere"
    assert max(free.values()) < 2 * min(free.values())


def _dying_in_the_middle(
    spark: SparkSession, brokers: Brokers, tmp_path: Path, topic: str, write: Callable[[DataFrame], None]
) -> None:
    """Writes 4000 rows; the broker is killed when it has some of them, and comes back a moment later."""
    killed = tmp_path / "killed"

    def slowly(batches: Any) -> Any:
        for batch in batches:
            if not killed.exists():
                time.sleep(0.1)
            yield batch

    def die() -> None:
        until(lambda: brokers.stored(topic, "broker-b"), within_s=100, what="the middle of the write")
        brokers["broker-b"].kill_broker()
        killed.touch()
        time.sleep(0.5)  # more rows come while it is away
        brokers["broker-b"].start_broker()

    rows = spark.range(0, 4000, 1, 1).selectExpr("id", "concat(id, ' ', repeat('x', 1000)) body")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    dying = threading.Thread(target=die)
    dying.start()
    try:
        write(rows.mapInArrow(slowly, rows.schema))
        assert killed.exists()
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
        dying.join()


def test_a_broker_killed_in_the_middle_costs_no_row(
    spark: SparkSession, brokers: Brokers, tmp_path: Path
) -> None:
    topic = brokers.topic("Dying", "broker-a", "broker-b")
    options = {"nameserver": brokers.nameserver, "topic": topic, "batchRows": 50, "sendTimeout": "5s"}

    def write(df: DataFrame) -> None:
        df.drop("id").write.format("rocketmq").options(**options).mode("append").save()

    _dying_in_the_middle(spark, brokers, tmp_path, topic, write)
    found = brokers.stored(topic, "broker-a", "broker-b")
    assert {int(message.body.split()[0]) for _, message in found} == set(range(4000)), "at least once"
    assert {queue.broker_name for queue, _ in found} == {"broker-a", "broker-b"}


def test_a_broker_killed_in_the_middle_has_each_row_once_and_a_new_one_moves_none(
    spark: SparkSession, brokers: Brokers, tmp_path: Path
) -> None:
    topic = brokers.topic("Once", "broker-a", "broker-b")
    options = {
        "nameserver": brokers.nameserver, "topic": topic, "batchRows": 50, "sendTimeout": "5s",
        "checkFirst": "false", "delivery": "effectively-once", "idColumn": "id", "writeId": "dying",
    }  # fmt: skip

    def write(df: DataFrame) -> None:
        keyed = df.selectExpr("id", "body", "if(id % 2 = 0, concat('k', id % 5), null) shardingKey")
        keyed.write.format("rocketmq").options(**options).mode("append").save()

    _dying_in_the_middle(spark, brokers, tmp_path, topic, write)

    def check() -> None:
        found = brokers.stored(topic, "broker-a", "broker-b")
        assert Counter(int(message.body.split()[0]) for _, message in found) == Counter(range(4000))
        last: dict[str, int] = {}
        for _, message in found:
            if key := message.properties_dict().get("__SHARDINGKEY"):
                assert last.get(key, -1) < int(message.body.split()[0])
                last[key] = int(message.body.split()[0])

    check()
    brokers.join("broker-d")
    brokers.topic(topic, "broker-d")
    write(spark.range(0, 4000, 1, 3).selectExpr("id", "concat(id, ' ', repeat('x', 1000)) body"))
    check()
    assert not brokers.stored(topic, "broker-d")
    noted = noted_queues(brokers.nameserver)[f"spark.dying/{topic}"]["queues"]
    assert noted == {"broker-a": 2, "broker-b": 2}
