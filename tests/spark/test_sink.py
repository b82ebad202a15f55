"""df.write to a real broker: each column and option, order, what is refused, and what effectively once means."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rocketeer.bench.control import Control
from rocketeer.client.core.selectors import by_hash
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.codes import RequestCode
from rocketeer.record.flags import Compression
from rocketeer.spark.sink.identity import identify_rows
from support.spark_sink import bodies, noted_queues, stored, until

from .conftest import Broker

Write = Callable[..., None]
ONCE = {"delivery": "effectively-once"}


@pytest.fixture
def write(broker: Broker) -> Write:
    """`write(df, topic="T")`."""

    def save(df: DataFrame, **options: Any) -> None:
        df.write.format("rocketmq").option("nameserver", broker.nameserver).options(**options).mode(
            "append"
        ).save()

    return save


def failure(write: Write, df: DataFrame, **options: Any) -> str:
    """What the user sees when the write fails."""
    with pytest.raises(Exception, match="rocketeer") as caught:
        write(df, **options)
    return str(caught.value)


def test_every_column_arrives(spark: SparkSession, broker: Broker, write: Write) -> None:
    topic = broker.topic()
    full = spark.createDataFrame(
        [
            ("b1", "t1", ["k1", "k2"], {"colour": "red", "none": None, "empty": ""}, "s1"),
            ("b2", None, None, None, None),
        ],
        "body string, tags string, keys array<string>, properties map<string,string>, shardingKey string",
    )
    write(full, topic=topic)
    found = {message.body: message.properties_dict() for message in stored(broker.cluster.broker, topic)}
    assert found.keys() == {b"b1", b"b2"}
    first = found[b"b1"]
    assert first["TAGS"] == "t1"
    assert first["KEYS"] == "k1 k2"
    assert first["colour"] == "red"
    assert first["__SHARDINGKEY"] == "s1"
    assert "none" not in first
    assert "empty" not in first
    assert len(first["UNIQ_KEY"]) == 32
    assert found[b"b2"].keys() == {"UNIQ_KEY", "WAIT", "CLUSTER"}


def test_bytes_and_texts_make_bodies_under_either_name(
    spark: SparkSession, broker: Broker, write: Write
) -> None:
    topic = broker.topic()
    write(spark.createDataFrame([("ä€",)], "value string"), topic=topic)
    write(spark.createDataFrame([(b"\x00\xff",)], "Body binary"), topic=topic)
    assert bodies(broker.cluster.broker, topic) == Counter({"ä€".encode(): 1, b"\x00\xff": 1})


def test_each_row_may_name_its_topic_and_the_option_overrules(
    spark: SparkSession, broker: Broker, write: Write
) -> None:
    one, two = broker.topic(), broker.topic()
    df = spark.createDataFrame(
        [(one, f"1-{n}") for n in range(50)] + [(two, f"2-{n}") for n in range(50)],
        "topic string, body string",
    )
    write(df)
    assert bodies(broker.cluster.broker, one) == Counter(f"1-{n}".encode() for n in range(50))
    assert bodies(broker.cluster.broker, two) == Counter(f"2-{n}".encode() for n in range(50))
    write(df, topic=one)
    assert bodies(broker.cluster.broker, one).total() == 150
    assert bodies(broker.cluster.broker, two).total() == 50


def test_rows_of_one_sharding_key_keep_their_order_in_the_queue_java_would_choose(
    spark: SparkSession, broker: Broker, write: Write
) -> None:
    topic = broker.topic()
    df = spark.range(0, 3000, 1, 1).selectExpr(
        "cast(id as string) body", "concat('k', id % 7) shardingKey", "if(id % 500 = 3, 1, null) delayLevel"
    )
    write(df, topic=topic, batchRows=10)
    until(lambda: bodies(broker.cluster.broker, topic).total() == 3000, within_s=60, what="the delayed ones")
    queues = [MessageQueue(topic, "broker-a", number) for number in range(4)]
    last: dict[str, int] = {}
    for message in stored(broker.cluster.broker, topic):
        key = message.properties_dict()["__SHARDINGKEY"]
        assert queues[message.queue_id] == by_hash(queues, Message(topic, b"x", sharding_key=key))
        if "REAL_TOPIC" not in message.properties_dict():
            number = int(message.body)
            assert last.get(key, -1) < number
            last[key] = number


def test_a_delay_level_and_a_time_hold_messages_back(
    spark: SparkSession, broker: Broker, write: Write
) -> None:
    topic = broker.topic()
    due_s = time.time() + 6
    df = spark.sql(
        f"""select 'level' body, 1 delayLevel, cast(null as timestamp) deliverAt
            union all select 'time', null, timestamp_millis({int(due_s * 1000)})
            union all select 'now', 0, null"""
    )
    write(df, topic=topic)
    if time.time() < due_s - 1:
        assert b"time" not in bodies(broker.cluster.broker, topic)
    until(lambda: bodies(broker.cluster.broker, topic).total() == 3, within_s=60, what="all three")
    arrived = {message.body: message for message in stored(broker.cluster.broker, topic)}
    assert arrived[b"level"].store_ms >= arrived[b"level"].born_ms + 990
    assert arrived[b"time"].store_ms >= due_s * 1000 - 1


def test_large_bodies_are_packed_when_asked_for(spark: SparkSession, broker: Broker, write: Write) -> None:
    topic = broker.topic()
    df = spark.sql("select repeat('a', 10000) body, 'k' shardingKey union all select 'small', 'k'")
    for kind in Compression:
        write(df, topic=topic, compression=kind.name.lower(), compressOver="1k")
    write(df, topic=topic)
    packed = Counter(message.sys_flag & 0x701 for message in stored(broker.cluster.broker, topic))
    assert packed == Counter({0: 5, **{kind.sys_flag: 1 for kind in Compression}})
    assert bodies(broker.cluster.broker, topic) == Counter({b"a" * 10_000: 4, b"small": 4})


def test_rows_larger_than_a_batch_go_alone_and_refused_batches_are_halved(
    spark: SparkSession, broker: Broker, write: Write
) -> None:
    topic = broker.topic()
    sizes = spark.range(0, 12, 1, 1).selectExpr(
        "rpad(cast(id as string), 600000 + 300000 * int(id), 'x') body"
    )
    # The broker takes batches up to 4 MB: these are larger, and it says so.
    write(sizes.where("length(body) < 1500000"), topic=topic, batchBytes="8m", maxMessageBytes="8m")
    write(sizes.where("length(body) >= 1500000"), topic=topic)
    assert bodies(broker.cluster.broker, topic).total() == 12
    text = failure(
        write, sizes.selectExpr("body", "concat('k-', left(body, 2)) keys").union(
            spark.sql("select repeat('y', 4300000), 'the-large-one'")
        ).coalesce(1), topic=topic, maxMessageBytes="8m",
    )  # fmt: skip
    assert "row 13 of partition 0 (keys 'the-large-one') was refused" in text
    assert "yyyy" not in text


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select cast(null as string) body, 'k7' keys", "row 1 of partition 0 (keys 'k7') has no body"),
        ("select '' body", "row 1 of partition 0 has an empty body"),
        ("select repeat('secret', 1000000) body, 'k7' keys", "(keys 'k7') has a body of 6000000 bytes, over the limit of 4194304"),
        ("select 'b' body, 'No Such' topic", "row 1 of partition 0 names a topic that cannot be"),
        ("select 'b' body, 'Missing' topic", "row 1 of partition 0 is for a topic that does not exist: no route to topic 'Missing'"),
        ("select 'b' body, cast(null as string) topic", "row 1 of partition 0 has no topic"),
        ("select 'b' body, map('TAGS', 'x') properties", "has the property 'TAGS', which has a meaning of its own"),
        ("select 'b' body, map('big', repeat('p', 40000)) properties", "has properties of 40046 bytes, over the limit of 32767"),
        ("select 'b' body, -1 delayLevel", "has the delayLevel -1"),
        ("select 'b' body, 1 delayLevel, timestamp'2030-01-01' deliverAt", "has both a delayLevel and a deliverAt"),
        ("select 'b' body, array('a b') keys", "has the key 'a b' in its list"),
        (r"select 'b' body, 'a\u0001b' tags", "which separate properties"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_a_message_is_named(
    spark: SparkSession, broker: Broker, write: Write, sql: str, expected: str
) -> None:
    df = spark.sql(sql)
    options = {} if "topic" in df.columns else {"topic": broker.topic()}
    text = failure(write, df, **options)
    assert expected in text
    assert "secret" not in text


def test_what_cannot_be_written_is_refused_before_any_task(
    spark: SparkSession, broker: Broker, write: Write
) -> None:
    topic = broker.topic()
    good = spark.sql("select 'b' body")
    assert "no route to topic 'Nowhere'" in failure(write, good, topic="Nowhere")
    assert "option 'tpic' is unknown to the sink" in failure(write, good, tpic=topic)
    assert "column 'body' is int, but must be binary or string" in failure(
        write, spark.sql("select 1 body"), topic=topic
    )
    assert "idColumn" in failure(write, good, topic=topic, **ONCE)
    with pytest.raises(Exception, match="cannot be overwritten"):
        good.write.format("rocketmq").options(nameserver=broker.nameserver, topic=topic).mode(
            "overwrite"
        ).save()
    assert not stored(broker.cluster.broker, topic)


def test_reserved_properties_can_be_dropped_so_that_what_was_read_can_be_written(
    spark: SparkSession, broker: Broker, write: Write
) -> None:
    source, target = broker.topic(), broker.topic()
    broker.fill(source, 20, keys="k")
    df = spark.read.format("rocketmq").options(nameserver=broker.nameserver, subscribe=source).load()
    write(df, topic=target, reservedProperties="drop")
    copied = stored(broker.cluster.broker, target)
    assert Counter(message.body for message in copied) == bodies(broker.cluster.broker, source)
    assert {message.properties_dict()["number"] for message in copied} == {
        str(number) for number in range(20)
    }
    assert {(message.keys, message.tags[0]) for message in copied} == {("k", "T")}


def test_one_write_id_is_one_write(spark: SparkSession, broker: Broker, write: Write) -> None:
    topic = broker.topic()
    df = spark.range(500).selectExpr("id", "concat('row-', id) body", "if(id % 50 = 1, 1, 0) delayLevel")
    expected = Counter(f"row-{number}".encode() for number in range(500))
    for parts in (1, 3):
        write(df.repartition(parts), topic=topic, idColumn="id", writeId="monday", **ONCE)
    until(lambda: bodies(broker.cluster.broker, topic).total() >= 500, within_s=60, what="the delayed ones")
    assert bodies(broker.cluster.broker, topic) == expected
    write(df, topic=topic, idColumn="id", writeId="tuesday", **ONCE)
    until(lambda: bodies(broker.cluster.broker, topic).total() >= 1000, within_s=60, what="the delayed ones")
    assert bodies(broker.cluster.broker, topic) == expected + expected


def test_new_queues_do_not_move_what_is_sent_again(spark: SparkSession, broker: Broker, write: Write) -> None:
    topic = broker.topic(3)
    df = spark.range(200).selectExpr("id", "concat('row-', id) body")
    options = {"topic": topic, "idColumn": "id", "writeId": "growing", **ONCE}
    write(df, **options)
    before = {message.body: message.queue_id for message in stored(broker.cluster.broker, topic, 8)}
    broker.change(topic, 8)
    write(spark.range(300).selectExpr("id", "concat('row-', id) body"), **options)
    after = stored(broker.cluster.broker, topic, 8)
    assert len(after) == 300
    assert {message.body: message.queue_id for message in after}.items() >= before.items()
    assert {message.queue_id for message in after} == {0, 1, 2}, "this write goes on where it began"
    assert noted_queues(broker.nameserver)[f"spark.growing/{topic}"]["queues"] == {"broker-a": 3}


def test_a_write_without_an_id_of_its_own_leaves_no_note(
    spark: SparkSession, broker: Broker, write: Write
) -> None:
    topic = broker.topic()
    write(spark.range(10).selectExpr("id", "'b' body"), topic=topic, idColumn="id", **ONCE)
    assert len(stored(broker.cluster.broker, topic)) == 10
    assert not [key for key in noted_queues(broker.nameserver) if key.endswith(f"/{topic}")]


def test_equal_rows_are_all_written_once(spark: SparkSession, broker: Broker, write: Write) -> None:
    topic = broker.topic()
    df = spark.sql("select 'same' body, '' tags, map('b', '1', 'a', '2') properties from range(7)").union(
        spark.sql("select 'same', cast(null as string), map('a', '2', 'b', '1') from range(5)")
    )
    for parts in (2, 5):
        write(identify_rows(df.repartition(parts)), topic=topic, writeId="equal", **ONCE)
    assert bodies(broker.cluster.broker, topic) == Counter({b"same": 12})


def test_a_task_that_checks_first_stores_nothing_when_its_last_row_is_bad(
    spark: SparkSession, broker: Broker, write: Write
) -> None:
    topic = broker.topic()
    df = spark.range(0, 2000, 1, 1).selectExpr("id", "if(id = 1999, '', repeat('x', 1000)) body")
    text = failure(write, df, topic=topic, idColumn="id", spoolBytes="100k", batchRows=20, **ONCE)
    assert "row 2000 of partition 0 (id 1999) has an empty body" in text
    assert not stored(broker.cluster.broker, topic)
    good = df.where("id < 1999")
    write(good, topic=topic, idColumn="id", spoolBytes="100k", batchRows=20, inFlightBytes="50k", **ONCE)
    assert bodies(broker.cluster.broker, topic) == Counter({b"x" * 1000: 1999})


def test_a_broker_that_restarts_is_waited_for(
    spark: SparkSession, broker: Broker, write: Write, tmp_path: Path
) -> None:
    topic = broker.topic()
    gone = tmp_path / "gone"

    def stop_once(batches: Any) -> Any:
        for number, batch in enumerate(batches):
            if number == 3:
                gone.touch()
                time.sleep(1)  # the test stops the broker now; more rows come while it is away
            yield batch

    df = spark.range(0, 5000, 1, 1).selectExpr("id", "concat('row-', id, repeat('x', 1000)) body")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "300")
    try:
        import threading

        def restart() -> None:
            until(gone.exists, within_s=100, what="the middle of the write")
            broker.cluster.stop()
            time.sleep(1.5)
            broker.cluster.start()

        restarting = threading.Thread(target=restart)
        restarting.start()
        write(
            df.mapInArrow(stop_once, df.schema), topic=topic, idColumn="id", checkFirst="false", batchRows=50,
            sendTimeout="5s", **ONCE,
        )  # fmt: skip
        restarting.join()
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
    assert set(bodies(broker.cluster.broker, topic).values()) == {1}
    assert bodies(broker.cluster.broker, topic).total() == 5000


def test_a_stream_writes_each_row_once_and_takes_up_new_queues(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic(2)
    source = tmp_path / "source"

    def run(first: int) -> None:
        spark.range(first, first + 300, 1, 1).write.mode("append").json(str(source))
        files = spark.readStream.schema("id long").json(str(source))
        query = (
            files.selectExpr("id", "concat('row-', id) body", f"'{topic}' topic")
            .writeStream.format("rocketmq")
            .options(
                nameserver=broker.nameserver, idColumn="id", checkpointLocation=str(tmp_path / "c"), **ONCE
            )
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(100)

    run(0)
    broker.change(topic, 6)
    run(300)
    ((key, noted),) = [
        item for item in noted_queues(broker.nameserver).items() if item[0].endswith(f"/{topic}")
    ]
    assert key.startswith("spark.")
    assert noted["queues"] == {"broker-a": 6}
    assert noted["before"] == {"broker-a": 2}, "the batch that has just ended could be sent again"
    run(600)
    messages = stored(broker.cluster.broker, topic, 6)
    assert Counter(message.body for message in messages) == Counter(f"row-{n}".encode() for n in range(900))
    assert {message.queue_id for message in messages} == set(range(6))
    with Control(broker.nameserver) as control:
        control.call(RequestCode.DELETE_KV_CONFIG, {"namespace": "ROCKETEER_SPARK_QUEUES", "key": key})


def test_a_stream_at_least_once_needs_no_id(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    spark.range(0, 300, 1, 2).write.json(str(tmp_path / "source"))
    query = (
        spark.readStream.schema("id long").json(str(tmp_path / "source")).selectExpr("cast(id as string) value")
        .writeStream.format("rocketmq")
        .options(nameserver=broker.nameserver, topic=topic, checkpointLocation=str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )  # fmt: skip
    assert query.awaitTermination(100)
    assert bodies(broker.cluster.broker, topic) == Counter(str(number).encode() for number in range(300))
    with pytest.raises(Exception, match="Nowhere"):
        (
            spark.readStream.schema("id long").json(str(tmp_path / "source")).selectExpr("cast(id as string) value")
            .writeStream.format("rocketmq")
            .options(nameserver=broker.nameserver, topic="Nowhere", checkpointLocation=str(tmp_path / "c2"))
            .trigger(availableNow=True)
            .start()
            .awaitTermination(100)
        )  # fmt: skip


def test_a_missing_topic_is_made_with_as_many_queues_as_asked_for_and_one_that_is_there_stays(
    spark: SparkSession, broker: Broker, write: Write
) -> None:
    df = spark.range(0, 60, 1, 2).selectExpr("cast(id as string) body")
    assert "no route to topic 'MadeByWrite'" in failure(write, df, topic="MadeByWrite")
    for queues in (3, 7):  # the second time it is there
        write(df, topic="MadeByWrite", createTopic=queues, batchRows=5)
    assert {message.queue_id for message in stored(broker.cluster.broker, "MadeByWrite", 8)} == {0, 1, 2}
    assert bodies(broker.cluster.broker, "MadeByWrite", 3).total() == 120
    columns = df.selectExpr("body", "concat('MadeByRow', body % 2) topic", "body id")
    write(columns, createTopic=2, idColumn="id", **ONCE)
    for number in range(2):
        found = bodies(broker.cluster.broker, f"MadeByRow{number}", 2)
        assert found == Counter(str(n).encode() for n in range(number, 60, 2))
