"""Dead letters of real consumers that gave up: told by origin, reason and age, exported, and sent again once."""

import base64
import csv
import json
import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from rocketeer import Message, PushConsumer
from rocketeer.bench.control import Control
from rocketeer.client.core.outcome import Retry
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.errors import ConfigError
from rocketeer.model.subscription import ConsumeFromWhere
from rocketeer.model.topic import dlq_topic
from rocketeer.record.layout import StoredMessage
from rocketeer.spark.jobs import dead_letters
from rocketeer.spark.jobs.dead_letters.resend import resend
from rocketeer.spark.jobs.dead_letters.rows import (
    DeadLetterFilter,
    NoDeadLetters,
    chosen,
    for_export,
    summary,
)
from rocketeer.spark.jobs.results import OutputFormat, write_result
from support.spark_sink import stored

from ..conftest import Broker

pytestmark = pytest.mark.timeout(600)


def give_up(broker: Broker, topic: str, group: str, count: int, retries: int = 0) -> None:
    """A consumer that fails until `count` messages are dead; their topic is known to the name server then."""
    consumer = PushConsumer(
        group,
        nameserver=broker.nameserver,
        consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        retries=retries,
    )

    def fail(message: ReceivedMessage) -> Retry:
        return Retry(delay_level=1)

    consumer.subscribe(topic, fail)
    with consumer, Control(broker.cluster.broker) as control:
        broker.until(lambda: control.max_offset(dlq_topic(group), 0) == count)
    broker.until_known(dlq_topic(group))


def send(broker: Broker, topic: str, *bodies: bytes, **given: object) -> None:
    for body in bodies:
        broker.producer.send(Message(topic, body, **given))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def dead(broker: Broker) -> str:
    """A topic two groups failed at: G1 at once, G2 after a retry."""
    topic = broker.topic(queues=2, name="DeadOrders")
    send(broker, topic, b"one", tags="paid", keys=["k1", "k2"], properties={"colour": "red"})
    send(broker, topic, b"\xff\x00", tags="sent", keys="k3")
    give_up(broker, topic, "DeadG1", 2)
    give_up(broker, topic, "DeadG2", 2, retries=1)
    return topic


@pytest.fixture(scope="module")
def letters(spark: SparkSession, broker: Broker, dead: str) -> DataFrame:
    """Of both groups, read once for all tests."""
    return dead_letters(spark, broker.nameserver, groups=["DeadG1", "DeadG2"]).persist()


def bodies(broker: Broker, topic: str) -> Counter[bytes]:
    return Counter(message.body for message in messages(broker, topic))


def messages(broker: Broker, topic: str) -> list[StoredMessage]:
    return list(stored(broker.cluster.broker, topic))


def test_they_are_told_by_origin_reason_and_age(broker: Broker, dead: str, letters: DataFrame) -> None:
    now = datetime.now(UTC)
    rows = {row["consumerGroup"]: row for row in summary(letters, now).collect()}
    assert {group: (row["originTopic"], row["reason"], row["messages"]) for group, row in rows.items()} == {
        "DeadG1": (dead, "failed once", 2),
        "DeadG2": (dead, "failed 2 times", 2),
    }
    assert (rows["DeadG1"]["bytes"], rows["DeadG1"]["< 1 h"], rows["DeadG1"][">= 7 d"]) == (5, 2, 0)
    (later, *_) = summary(letters, now + timedelta(days=2)).collect()
    assert [later[age] for age in ("< 1 h", "< 1 d", "< 7 d", ">= 7 d")] == [0, 0, 2, 0]
    first = {bytes(row["body"]): row for row in letters.where("consumerGroup = 'DeadG1'").collect()}[b"one"]
    (origin,) = [message for message in messages(broker, dead) if message.body == b"one"]
    assert first["originMsgId"] == origin.offset_msg_id
    assert first["msgId"] == origin.properties_dict()["UNIQ_KEY"]


def test_any_of_their_marks_chooses_them(spark: SparkSession, broker: Broker, letters: DataFrame) -> None:
    letters = letters.where("consumerGroup = 'DeadG1'")
    (one,) = letters.where("tags = 'paid'").collect()

    def found(**given: object) -> set[bytes]:
        return {bytes(row["body"]) for row in chosen(letters, DeadLetterFilter(**given)).collect()}  # type: ignore[arg-type]

    assert found() == {b"one", b"\xff\x00"}
    for name in ("msgId", "offsetMsgId", "originMsgId"):
        assert found(ids=[one[name]]) == {b"one"}
    assert found(keys=["k2"]) == {b"one"}
    assert found(keys=["k2", "k3"], tags=["sent"]) == {b"\xff\x00"}
    assert found(origins=["Other"]) == set()
    assert found(where="properties['colour'] = 'red' AND reconsumeTimes = 1") == {b"one"}
    for where in ("no_such_column > 1", "colour = = 2"):
        with pytest.raises(ConfigError, match="not understood"):
            found(where=where)
    with pytest.raises(NoDeadLetters, match="Nobody"):
        dead_letters(spark, broker.nameserver, groups=["Nobody"])


def test_an_export_loses_no_byte(spark: SparkSession, letters: DataFrame, tmp_path: Path) -> None:
    letters = letters.where("consumerGroup = 'DeadG1'")
    expected = {b"one", b"\xff\x00"}

    def write(form: OutputFormat, name: str, *, text: bool) -> Path:
        write_result(for_export(letters, text=text), form, tmp_path / name, rows_max=0, overwrite=False)
        return tmp_path / name

    lines = [json.loads(line) for line in write(OutputFormat.JSON, "a.jsonl", text=False).open()]
    assert {base64.b64decode(line["body"]) for line in lines} == expected
    assert {line["properties"].get("colour") for line in lines} == {"red", None}
    texts = [json.loads(line) for line in write(OutputFormat.JSON, "b.jsonl", text=True).open()]
    assert {(line["body"], line["bodyBase64"]) for line in texts} == {("one", None), (None, "/wA=")}
    with write(OutputFormat.CSV, "c.csv", text=False).open(newline="") as file:
        assert {base64.b64decode(row["body"]) for row in csv.DictReader(file)} == expected
    rows = spark.read.parquet(str(write(OutputFormat.PARQUET, "d", text=False))).collect()
    assert {bytes(row["body"]) for row in rows} == expected


def test_what_is_sent_again_is_stored_once(spark: SparkSession, broker: Broker) -> None:
    topic = broker.topic(queues=1)
    group = f"G-{topic}"
    delayed = Message(topic, b"again", tags="t", keys="k", properties={"colour": "blue"}, delay_level=1)
    broker.producer.send(delayed)
    give_up(broker, topic, group, 1)
    letters = dead_letters(spark, broker.nameserver, groups=[group])
    for _ in range(2):
        assert resend(letters, broker.nameserver) == 1
        assert bodies(broker, topic) == {b"again": 2}, "the first one, and one again"
    *_, new = messages(broker, topic)
    properties = new.properties_dict()
    assert {name: properties[name] for name in ("TAGS", "KEYS", "colour")} == {
        "TAGS": "t", "KEYS": "k", "colour": "blue",
    }  # fmt: skip
    for name in ("DELAY", "RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "REAL_TOPIC", "REAL_QID"):
        assert name not in properties
    assert new.reconsume_times == 0
    other = broker.topic(queues=1)
    assert resend(letters, broker.nameserver, to=other) == 1
    assert bodies(broker, other) == {b"again": 1}
    assert resend(letters, broker.nameserver, run="2") == 1
    assert bodies(broker, topic) == {b"again": 3}, "another run is meant"
    give_up(broker, topic, group, 3)
    assert resend(dead_letters(spark, broker.nameserver, groups=[group]), broker.nameserver) == 3
    assert bodies(broker, topic) == {b"again": 5}, "those that died again are other letters"


def test_letters_without_an_origin_need_a_topic(spark: SparkSession, broker: Broker) -> None:
    broker.topic(queues=1, name="%DLQ%Strange")
    send(broker, "%DLQ%Strange", b"nobody knows")
    letters = dead_letters(spark, broker.nameserver, groups=["Strange"])
    (row,) = letters.collect()
    assert (row["originTopic"], row["reason"]) == (None, "sent there directly")
    with pytest.raises(ConfigError, match="no origin"):
        resend(letters, broker.nameserver)
    other = broker.topic(queues=1)
    assert resend(letters, broker.nameserver, to=other) == 1
    assert bodies(broker, other) == {b"nobody knows": 1}


def test_the_command_sends_only_when_told_to(broker: Broker, dead: str, tmp_path: Path) -> None:
    before = bodies(broker, dead)
    given = ["-g", "DeadG1", "--resend", "-k", "k1", "-q", "--master", "local[2]"]
    shown = run(broker, *given, "--json")
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)
    assert [(row["consumerGroup"], row["messages"]) for row in found["groups"]] == [("DeadG1", 1)]
    assert [letter["to"] for letter in found["letters"]] == [dead]
    assert "would send 1 message to" in shown.stderr
    assert bodies(broker, dead) == before
    sent = run(broker, *given, "--yes", "--export", tmp_path / "x.csv")
    assert sent.returncode == 0, sent.stderr
    assert "DeadG1" in sent.stdout
    assert bodies(broker, dead) == before + Counter({b"one": 1})
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 2
    for wrong in (["--resend"], ["--yes"], ["--format", "csv"], ["--export", tmp_path / "x.csv"]):
        refused = run(broker, *wrong)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (1, 1), refused.stderr


def run(broker: Broker, *arguments: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "rocketeer", "spark", "dead-letters", "-n", broker.nameserver]
    # pytest-xdist hands its own terminal's width down.
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return subprocess.run(
        [*words, *map(str, arguments)], env=env, capture_output=True, text=True, timeout=400
    )
