"""spark.read: each option against a real broker."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from rocketeer import Message
from rocketeer.model.queue import MessageQueue

from .conftest import Broker, numbers

Read = Callable[..., DataFrame]
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def filled(broker: Broker) -> str:
    """100 messages in 4 queues, 25 each: message n is at offset n // 4 of queue n % 4."""
    topic = broker.topic()
    broker.fill(topic, 100, keys="k")
    return topic


def test_all_columns_are_what_was_sent(read: Read, broker: Broker) -> None:
    topic = broker.topic(1)
    queue = MessageQueue(topic, "broker-a", 0)
    before = datetime.now(UTC)
    sent = broker.producer.send(
        Message(topic, b"\x00\xff", tags="paid", keys=["k1", "k2"], properties={"region": "eu"}), queue=queue
    )
    big = b"z" * 100_000
    broker.producer.send(Message(topic, big), queue=queue)  # compressed by the client, being over 4 KB
    row, packed = sorted(read(None, subscribe=topic).collect(), key=lambda row: row.queueOffset)
    assert (row.topic, row.brokerName, row.queueId, row.queueOffset) == (topic, "broker-a", 0, 0)
    assert bytes(row.body) == b"\x00\xff"
    assert (row.tags, row.keys) == ("paid", "k1 k2")
    assert row.properties["region"] == "eu"
    assert row.properties["TAGS"] == "paid"
    assert (row.msgId, row.offsetMsgId) == (sent.message_id, sent.offset_message_id)
    assert (row.flag, row.sysFlag, row.reconsumeTimes) == (0, 0, 0)
    assert row.storeHost == broker.cluster.broker
    assert row.bornHost.startswith("127.0.0.1:")
    for column in (row.bornTimestamp, row.storeTimestamp):
        assert abs((column.astimezone(UTC) - before).total_seconds()) < 60
    assert bytes(packed.body) == big, "decompressed"
    assert packed.tags is None
    assert packed.sysFlag & 1, "it was compressed"


def test_the_format_is_found_without_registering(spark: SparkSession, broker: Broker, filled: str) -> None:
    fresh = spark.newSession()
    fresh.conf.set(PUSHDOWN, "false")
    frame = fresh.read.format("rocketmq").option("nameserver", broker.nameserver).option("subscribe", filled)
    assert frame.schema("queueId int").load().filter("queueId = 1").count() == 25


def test_several_topics_patterns_and_queues(read: Read, broker: Broker, filled: str) -> None:
    other = broker.topic(2, name=f"{filled}-more")
    broker.fill(other, 10, queues=2)
    both = read("topic string, body binary", subscribe=f"{filled}, {other}")
    assert {row.topic: row["count"] for row in both.groupBy("topic").count().collect()} == {
        filled: 100,
        other: 10,
    }
    assert read(subscribePattern=f"{filled}.*").count() == 110
    assert read(subscribePattern=f"{filled}-.*").count() == 10
    some = read(assign=json.dumps({filled: {"broker-a": [1, 3]}}))
    assert numbers(some) == [number for number in range(100) if number % 2]


def test_filtering_by_tag_and_by_property_at_the_broker(read: Read, filled: str) -> None:
    assert numbers(read(subscribe=filled, tags="T0 || T2")) == [n for n in range(100) if n % 3 != 1]
    assert numbers(read(subscribe=filled, sql="number > 89 AND TAGS = 'T0'")) == [90, 93, 96, 99]


def test_offsets_choose_a_part(read: Read, filled: str) -> None:
    starting = json.dumps({filled: {"broker-a": {"0": 20, "1": -2, "2": 24, "3": 25}}})
    ending = json.dumps({filled: {"broker-a": {"0": 22, "1": 1, "2": -1}}})
    found = read(subscribe=filled, startingOffsets=starting, endingOffsets=ending)
    assert numbers(found) == [1, 80, 84, 98]


def test_timestamps_choose_a_part_and_come_first(read: Read, broker: Broker) -> None:
    topic = broker.topic(2)
    broker.fill(topic, 10, queues=2)
    time.sleep(0.01)
    middle = int(time.time() * 1000)
    broker.fill(topic, 6, start=10, queues=2)
    later = {"startingTimestamp": middle, "startingOffsets": "earliest"}
    assert numbers(read(subscribe=topic, **later)) == list(range(10, 16))
    assert numbers(read(subscribe=topic, endingTimestamp=middle)) == list(range(10))
    one = json.dumps({topic: {"broker-a": {"0": middle}}})
    assert numbers(read(subscribe=topic, startingOffsetsByTimestamp=one)) == [1, 3, 5, 7, 9, *range(10, 16)]
    assert numbers(read(subscribe=topic, endingOffsetsByTimestamp=one)) == [
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        11,
        13,
        15,
    ]
    # A time for all comes before times per queue, these before offsets.
    zero = json.dumps({topic: {"broker-a": {"0": 0, "1": 0}}})
    first = {"startingTimestamp": middle, "startingOffsetsByTimestamp": zero, "startingOffsets": zero}
    assert numbers(read(subscribe=topic, **first)) == list(range(10, 16))
    second = {
        "startingOffsetsByTimestamp": one,
        "startingOffsets": zero,
        "endingOffsets": zero,
        "endingTimestamp": middle,
    }
    assert numbers(read(subscribe=topic, **second)) == [1, 3, 5, 7, 9]
    future = middle + 10**9
    with pytest.raises(Exception, match=r"no message stored at \d+ ms or later"):
        read(subscribe=topic, startingTimestamp=future).count()
    assert (
        read(subscribe=topic, startingTimestamp=future, startingOffsetsByTimestampStrategy="latest").count()
        == 0
    )


def test_tasks_are_as_many_as_asked_for(read: Read, filled: str) -> None:
    assert read(subscribe=filled).rdd.getNumPartitions() == 1, "small ranges share a task"
    many = read(subscribe=filled, minPartitions=10)
    assert many.rdd.getNumPartitions() == 10
    assert numbers(many) == list(range(100))
    assert read(subscribe=filled, maxRecordsPerPartition=10).rdd.getNumPartitions() == 12


def test_one_dataframe_serves_many_queries_and_sees_one_state_of_the_topic(
    read: Read, broker: Broker
) -> None:
    topic = broker.topic()
    broker.fill(topic, 40)
    frame = read(subscribe=topic)
    one, two = frame.filter("queueId = 1"), frame.filter("queueId = 2")
    assert [frame.count(), one.count(), frame.count(), two.count()] == [40, 10, 40, 10]
    assert numbers(one.union(two)) == [number for number in range(40) if number % 4 in (1, 2)]
    broker.fill(topic, 4, start=40)
    assert one.union(frame).count() == 50, "as of its first use"
    assert read(subscribe=topic).count() == 44


def test_a_dataframe_that_was_filtered_still_has_all_its_rows(
    spark: SparkSession, read: Read, filled: str
) -> None:
    """Also where the session pushes filters down: what one query pushed must not stay for the next."""
    spark.conf.set(PUSHDOWN, "true")
    try:
        frame = read("queueId int, queueOffset long", subscribe=filled)
        assert frame.filter("queueId = 1 and queueOffset < 5").count() == 5
        assert frame.count() == 100
        both = frame.filter("queueId = 1").union(frame.filter("queueId = 2"))
        assert both.count() == 50
    finally:
        spark.conf.unset(PUSHDOWN)


def test_a_schema_reads_only_its_columns_in_its_order(read: Read, filled: str) -> None:
    frame = read("tags string, queueOffset long", subscribe=filled)
    assert frame.columns == ["tags", "queueOffset"]
    assert frame.groupBy("tags").count().count() == 3
    with pytest.raises(Exception, match="column 'colour' does not exist"):
        read("colour string", subscribe=filled).count()


def test_wrong_options_are_named(read: Read, filled: str) -> None:
    with pytest.raises(Exception, match="option 'subscrib' is unknown"):
        read(subscrib=filled).count()
    with pytest.raises(Exception, match="no route to topic 'NoSuchTopic'"):
        read(subscribe="NoSuchTopic").count()
    with pytest.raises(Exception, match="names queue 9"):
        read(subscribe=filled, startingOffsets=json.dumps({filled: {"broker-a": {"9": 0}}})).count()


def test_lost_messages_fail_or_are_passed_over(read: Read, filled: str) -> None:
    beyond = json.dumps({filled: {"broker-a": {"0": 30}}})
    with pytest.raises(Exception, match=r"5 messages \[25, 30\) of queue 0"):
        read(subscribe=filled, endingOffsets=beyond).count()
    assert read(subscribe=filled, endingOffsets=beyond, failOnDataLoss="false").count() == 100


def test_what_would_silently_be_empty_is_refused_by_name_before_a_task_runs(
    read: Read, filled: str, broker: Broker
) -> None:
    def places(offsets: dict[str, int]) -> str:
        return json.dumps({filled: {"broker-a": offsets}})

    assigned = json.dumps({filled: {"broker-a": [0, 7]}})
    with pytest.raises(
        Exception, match=f"names queue 7 of topic '{filled}' on 'broker-a', which has queues 0 to 3"
    ):
        read(assign=assigned).count()
    with pytest.raises(Exception, match=r"'startingOffsets' begins queue 1 .* at 26, and it ends at 25"):
        read(subscribe=filled, startingOffsets=places({"1": 26})).count()
    assert read(subscribe=filled, startingOffsets=places({"1": 25})).count() == 75, "its end is no mistake"
    loose = read(subscribe=filled, startingOffsets=places({"1": 26}), failOnDataLoss="false")
    assert loose.count() == 75
    with pytest.raises(Exception, match="would be read from 9 to 5: the end asked for lies before the start"):
        read(subscribe=filled, startingOffsets=places({"0": 9}), endingOffsets=places({"0": 5})).count()
    with pytest.raises(Exception, match="option 'sql' is 'number >'"):
        read(subscribe=filled, sql="number >").count()
    with pytest.raises(Exception, match=r"'subscribePattern' is 'Nowhere\.\*', which no topic fits"):
        read(subscribePattern="Nowhere.*").count()


def test_a_fetch_has_time_limits(read: Read, filled: str) -> None:
    limits = {"requestTimeout": "5s", "fetchTimeout": "1m", "fetchRetryInterval": "10ms", "fetchBytes": "1k"}
    assert numbers(read(subscribe=filled, **limits)) == list(range(100))
    with pytest.raises(Exception, match="no name server answered"):
        read(nameserver="127.0.0.1:1", subscribe=filled, fetchTimeout="200ms").count()
