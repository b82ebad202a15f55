"""Lives of messages, told by what our traced clients wrote: each step, how long it took, and what never happened."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rocketeer import Message, Producer, PushConsumer, TransactionProducer
from rocketeer.client.core.outcome import COMMIT, ROLLBACK, Retry
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.model.subscription import ConsumeFromWhere
from rocketeer.record.trace import TraceEvent, TraceKind, encode_event
from rocketeer.spark.jobs import trace, trace_events
from rocketeer.spark.jobs.query.terms import TableTerms
from rocketeer.spark.jobs.trace.command import NoTraces, by_group, by_topic, chosen_histories, read_traces
from rocketeer.spark.jobs.trace.summary import life_lines

from ..conftest import Broker

pytestmark = pytest.mark.timeout(600)
TRACES = "LifeTraces"
TOPIC = "LifeOrders"


@pytest.fixture(scope="module")
def ids(broker: Broker) -> dict[str, str]:
    """Messages whose lives ended in different ways, by what happened to them."""
    broker.topic(queues=1, name=TRACES)
    broker.topic(queues=1, name=TOPIC)
    broker.topic(queues=1, name=f"{TOPIC}-unread")
    traced: dict[str, Any] = {"nameserver": broker.nameserver, "trace": True, "trace_topic": TRACES}
    found: dict[str, str] = {}
    done: list[str] = []
    consumer = PushConsumer(
        "LifeGroup", consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, retries=1, **traced
    )

    def take(message: ReceivedMessage) -> Retry | None:
        if message.text == "dies" or (message.text == "retried" and not message.reconsume_times):
            done.append(f"failed {message.text}")
            return Retry(delay_level=1)
        done.append(message.text)
        return None

    consumer.subscribe(TOPIC, take)
    with Producer("LifeProducer", **traced) as producer:
        for body in ("fine", "retried", "dies"):
            sent = producer.send(Message(TOPIC, body.encode(), tags="t", keys=[f"key-{body}"]))
            found[body] = sent.message_id
        found["unread"] = producer.send(Message(f"{TOPIC}-unread", b"unread")).message_id
        batch = producer.send([Message(f"{TOPIC}-unread", b"a"), Message(f"{TOPIC}-unread", b"b")])
        found["batch"] = batch.message_id
    with TransactionProducer("LifeSagas", check=lambda message: COMMIT, **traced) as sagas:
        for name, outcome in (("committed", COMMIT), ("undone", ROLLBACK)):
            sent = sagas.send_in_transaction(Message(TOPIC, name.encode()), lambda _, how=outcome: how)
            found[name] = sent.message_id
    with consumer:
        broker.until(lambda: sorted(done) == sorted(
            ["fine", "retried", "committed", "failed retried", "failed dies", "failed dies"]
        ))  # fmt: skip
    return found


@pytest.fixture(scope="module")
def traces(spark: SparkSession, broker: Broker, ids: dict[str, str]) -> DataFrame:
    """Read from the broker once for all tests."""
    frame = read_traces(spark, TableTerms(nameserver=broker.nameserver), TRACES)
    return spark.createDataFrame(frame.select("body").collect(), "body binary")


@pytest.fixture(scope="module")
def lives(traces: DataFrame) -> DataFrame:
    return trace(traces).persist()


def test_each_life_has_its_steps_and_its_end(lives: DataFrame, ids: dict[str, str]) -> None:
    rows = {row["msgId"]: row for row in lives.collect()}
    states = {name: rows[message]["state"] for name, message in ids.items() if name != "batch"}
    assert states == {
        "fine": "consumed", "retried": "consumed", "dies": "failed", "unread": "never consumed",
        "committed": "consumed", "undone": "rolled back",
    }  # fmt: skip
    assert {rows[part]["state"] for part in ids["batch"].split(",")} == {"never consumed"}
    fine = rows[ids["fine"]]
    assert (fine["topic"], fine["tags"], fine["keys"]) == (TOPIC, "t", "key-fine")
    assert (fine["producerGroup"], fine["publishOk"], fine["bodyBytes"]) == ("LifeProducer", True, 4)
    assert fine["published"] <= fine["stored"] <= fine["consumptions"][0]["began"]
    assert 0 <= fine["publishMs"] < 60_000
    assert fine["storeToConsumeMs"] >= 0
    assert (fine["tries"], fine["failures"], fine["retries"]) == (1, 0, 0)
    assert (fine["consumptions"][0]["group"], fine["consumptions"][0]["code"]) == ("LifeGroup", "success")
    retried = rows[ids["retried"]]
    assert (retried["tries"], retried["failures"], retried["retries"]) == (2, 1, 1)
    assert [(each["ok"], each["retries"]) for each in retried["consumptions"]] == [(False, 0), (True, 1)]
    assert retried["consumptions"][1]["began"] > retried["consumptions"][0]["began"]
    assert (rows[ids["dies"]]["tries"], rows[ids["dies"]]["failures"]) == (2, 2)
    assert rows[ids["committed"]]["transaction"]["state"] == "COMMIT_MESSAGE"
    assert rows[ids["undone"]]["transaction"]["state"] == "ROLLBACK_MESSAGE"
    assert [what.split(" ")[0] for _, what in life_lines(retried)] == [
        "published",
        "stored",
        "consumed",
        "consumed",
    ]


def test_sums_are_those_of_the_lives(lives: DataFrame, ids: dict[str, str]) -> None:
    topics = {row["topic"]: row for row in by_topic(lives).collect()}
    mine = topics[TOPIC]
    assert (mine["messages"], mine["consumed"], mine["failed"], mine["rolled back"]) == (5, 3, 1, 1)
    assert (mine["retried"], topics[f"{TOPIC}-unread"]["never consumed"]) == (2, 3)
    assert len(mine["publishMs"]) == 3
    (group,) = by_group(lives).collect()
    assert (group["topic"], group["group"], group["messages"]) == (TOPIC, "LifeGroup", 4)
    assert (group["tries"], group["failures"], group["retries"]) == (6, 3, 2)
    assert group["consumeMsMax"] >= group["consumeMs"][0] >= 0


def test_lives_are_found_by_id_key_topic_state_and_time(
    spark: SparkSession, broker: Broker, lives: DataFrame, ids: dict[str, str]
) -> None:
    def found(**given: Any) -> set[str]:
        return {row["msgId"] for row in chosen_histories(lives, **given).collect()}

    assert found(ids=[ids["fine"]]) == {ids["fine"]}
    assert found(keys=["key-dies", "key-fine"], states=["failed"]) == {ids["dies"]}
    assert found(topics=[f"{TOPIC}-unread"], states=["never consumed"]) == {
        ids["unread"],
        *ids["batch"].split(","),
    }
    (undone,) = chosen_histories(lives, ids=[ids["undone"]]).collect()
    assert ids["fine"] not in found(since=undone["published"])
    assert ids["undone"] not in found(until=undone["published"])
    terms = TableTerms(nameserver=broker.nameserver)
    narrow = trace(read_traces(spark, terms, TRACES, [ids["batch"].split(",")[1]]))
    assert ids["batch"].split(",")[1] in {row["msgId"] for row in narrow.collect()}
    with pytest.raises(NoTraces, match="traceTopicEnable"):
        read_traces(spark, terms, "NoTracesHere")


def test_the_brokers_time_of_storing_and_a_group_can_be_asked_for(
    traces: DataFrame, read: Callable[..., DataFrame], ids: dict[str, str]
) -> None:
    stored = read("msgId string, storeTimestamp timestamp", subscribe=TOPIC)
    exact = {row["msgId"]: row["stored"] for row in trace(traces, messages=stored).collect()}
    times = {row["msgId"]: row["storeTimestamp"] for row in stored.collect()}
    assert exact[ids["fine"]] == times[ids["fine"]]
    other = {row["msgId"]: row["state"] for row in trace(traces, group="NoSuchGroup").collect()}
    assert other[ids["fine"]] == "never consumed"


def test_lines_of_any_age_and_cut_ones_do_no_harm(spark: SparkSession) -> None:
    """Old clients wrote less; a batch of Java's is one line; a consumption may have begun only."""
    old = "Pub\x011000\x01r\x01PG\x01T\x01A,B\x01null\x01null\x01h:1\x015\x017\x010\x01true\x02"
    begun = encode_event(TraceEvent(TraceKind.SUB_BEFORE, "A", 2000, group="G", request_id="1"))
    late = encode_event(TraceEvent(TraceKind.SUB_AFTER, "C", request_id="2", cost_ms=4))
    failed = encode_event(TraceEvent(TraceKind.PUB, "D", 1000, topic="T", success=False))
    rows = [((old + begun + "Pub\x01cut\x02" + late + failed).encode(),), (b"\xff\x00",), (b"",), (None,)]
    frame = spark.createDataFrame(rows, "body binary")
    assert trace_events(frame).count() == 5
    lives = {row["msgId"]: row for row in trace(frame).collect()}
    states = {message: life["state"] for message, life in lives.items()}
    assert states == {"A": "being consumed", "B": "never consumed", "C": "consumed", "D": "publish failed"}
    assert lives["A"]["storeToConsumeMs"] == 2000 - 1007
    assert lives["C"]["topic"] is None


def test_the_command_tells_a_life(broker: Broker, ids: dict[str, str]) -> None:
    words = [sys.executable, "-m", "rocketeer", "spark", "trace", "-n", broker.nameserver, "-q"]
    more = ["--trace-topic", TRACES, "--id", ids["retried"], "--json", "--master", "local[2]"]
    done = subprocess.run([*words, *more], env=dict(os.environ), capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (life,) = found["lives"]
    assert (life["msgId"], life["state"], life["tries"]) == (ids["retried"], "consumed", 2)
    assert [group["group"] for group in found["groups"]] == ["LifeGroup"]
