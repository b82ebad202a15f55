"""Topic to topic: what was there is transformed once, whatever dies; what cannot work is refused before it starts."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rocketeer import Message
from rocketeer.errors import ConfigError, NoRoute
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs.checkpoints import OtherCheckpoint
from rocketeer.spark.jobs.query.statements import NoSuchTable
from rocketeer.spark.jobs.topic_sink import TopicSink
from rocketeer.spark.jobs.transform import BadTransform, TransformTerms, load_function, transform
from rocketeer.spark.sink.columns import SinkSchemaError
from rocketeer.spark.source.options import parse_options
from rocketeer.spark.source.reading import open_view

from ..conftest import SETTINGS, Broker, patiently

pytestmark = pytest.mark.timeout(600)

Read = Callable[..., DataFrame]
COUNT = 3000
# Slow enough to be killed in the middle. Equal bodies come in threes: each must be there three times.
SLOWLY = """
import time
from pyspark.sql import functions as f

def pause(batches):
    for batch in batches:
        time.sleep(0.05)
        yield batch

def thirds(orders):
    number = f.col("body").cast("string").cast("long")
    made = orders.select(f.concat(f.lit("third-"), (number / 3).cast("long")).cast("binary").alias("body"))
    return made.mapInArrow(pause, "body binary")
"""


def run(spark: SparkSession, work: object, terms: TransformTerms) -> None:
    query = patiently(lambda: transform(spark, work, terms))  # type: ignore[arg-type]
    query.awaitTermination(400)
    assert not query.isActive
    assert query.exception() is None


def test_sql_makes_messages_of_messages_and_goes_on_where_it_stopped(
    spark: SparkSession, broker: Broker, read: Read, tmp_path: Path
) -> None:
    orders, paid = broker.topic(2), broker.topic(2)

    def send(start: int, count: int) -> None:
        for number in range(start, start + count):
            body = json.dumps({"id": number, "amount": 10 * number}).encode()
            message = Message(
                orders, body, tags="paid" if number % 2 else "open", properties={"region": "eu"}
            )
            broker.producer.send(message, queue=MessageQueue(orders, "broker-a", number % 2))

    sql = (
        f"SELECT to_json(struct(id, amount / 2 AS half)) AS body, tags, string(id) AS keys, properties "
        f"FROM {orders.lower()} WHERE tags = 'paid'"
    )
    terms = TransformTerms(TopicSink(broker.nameserver, paid), tmp_path / "checkpoint", json={orders: None})
    send(0, 10)
    run(spark, sql, terms)
    note = json.loads((tmp_path / "checkpoint" / "rocketeer.json").read_text())
    assert "amount" in note["facts"]["json"][orders], "the schema that was found out is kept"
    send(10, 10)
    run(spark, sql, terms)
    rows = read(
        "body binary, tags string, keys string, properties map<string,string>", subscribe=paid
    ).collect()
    made = sorted((json.loads(row.body)["id"], row.tags, row.keys, row.properties["region"]) for row in rows)
    assert made == [(number, "paid", str(number), "eu") for number in range(1, 20, 2)]
    other = TransformTerms(TopicSink(broker.nameserver, broker.topic(1)), tmp_path / "checkpoint")
    with pytest.raises(OtherCheckpoint, match=f"its 'to' is '{paid}'"):
        transform(spark, f"SELECT body FROM {orders}", other)


def test_what_cannot_work_is_refused_before_it_starts(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    source, target = broker.topic(1), broker.topic(1)
    terms = TransformTerms(TopicSink(broker.nameserver, target), tmp_path / "checkpoint")
    refused: list[tuple[object, type[Exception], str]] = [
        (f"SELECT tags FROM {source}", SinkSchemaError, "there is no body column"),
        (
            f"SELECT body, queueId + 1 AS place FROM {source}",
            SinkSchemaError,
            "column 'place' is no part of a message",
        ),
        (
            f"SELECT body, 1 AS tags FROM {source}",
            SinkSchemaError,
            "column 'tags' is int, but must be string",
        ),
        ("SELECT body FROM no_such_topic_here", NoSuchTable, "no topic or table 'no_such_topic_here'"),
        (f"SELECT body FROM {target}", ConfigError, "the stream would feed itself"),
        ("SELECT 1 AS body", BadTransform, "names no topic"),
        (f"SELECT body FROM {source}; SELECT 1", BadTransform, "one SELECT is needed, there are 2"),
        (lambda df: None, ConfigError, "a function needs topics to read"),
    ]
    for work, kind, text in refused:
        with pytest.raises(kind, match=text):
            transform(spark, work, terms)  # type: ignore[arg-type]
    by_function = TransformTerms(terms.sink, terms.checkpoint, [source])
    with pytest.raises(BadTransform, match="the function returned NoneType"):
        transform(spark, lambda df: None, by_function)  # type: ignore[arg-type, return-value]
    with pytest.raises(BadTransform, match="nothing would ever be written"):
        transform(spark, lambda df: spark.createDataFrame([("x",)], "body string"), by_function)
    nowhere = TransformTerms(TopicSink(broker.nameserver, "NoSuchTarget"), terms.checkpoint)
    with pytest.raises(NoRoute):
        transform(spark, f"SELECT body FROM {source}", nowhere)
    with pytest.raises(ConfigError, match="write module:function"):
        load_function("thirds")
    with pytest.raises(ConfigError, match="has no function 'nothing'"):
        load_function("json:nothing")
    assert not (tmp_path / "checkpoint").exists(), "nothing was touched"
    assert not [
        view for view in spark.catalog.listTables() if view.name.lower() in (source.lower(), target.lower())
    ]


def _driver(broker: Broker, source: str, target: str, folder: Path) -> "subprocess.Popen[bytes]":
    conf = [part for key, value in SETTINGS.items() for part in ("--conf", f"{key}={value}")]
    command = [
        sys.executable, "-c", "from rocketeer.cli.main import main; main()", "spark", "transform",
        "-n", broker.nameserver, "--master", "local[2]", *conf, "--function", "slowly:thirds", "-t", source, "--to", target,
        "--checkpoint", str(folder / "checkpoint"), "--option", "maxOffsetsPerTrigger=500", "--option", "fetchBytes=8k",
        "--sink-option", "checkFirst=false", "--sink-option", "batchRows=20",
    ]  # fmt: skip
    with (folder / "driver.log").open("ab") as log:
        # A group of its own: the JVM and its Python workers die with the driver.
        return subprocess.Popen(command, start_new_session=True, stdout=log, stderr=log, cwd=folder)


def test_a_killed_driver_goes_on_without_duplicates_or_holes(
    broker: Broker, read: Read, tmp_path: Path
) -> None:
    source, target = broker.topic(4), broker.topic(4)
    broker.fill(source, COUNT)
    (tmp_path / "slowly.py").write_text(SLOWLY)
    commits = tmp_path / "checkpoint" / "commits"
    view = open_view(parse_options({"nameserver": broker.nameserver, "subscribe": target}, streaming=False))

    def done() -> int:
        return len(list(commits.glob("[0-9]*"))) if commits.exists() else 0

    def stored() -> int:
        return sum(view.highs(view.queues()).values())

    driver = _driver(broker, source, target, tmp_path)
    try:
        # In the middle: of the second batch or a later one something is stored, and it is not committed. (`stored` is
        # asked first: a batch is stored before it is committed.)
        broker.until(lambda: stored() > 500 * done() > 0, 300)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert 0 < 500 * done() < stored() <= COUNT, "killed on the way"
    view.close()
    end_s = time.monotonic() + 250
    # Spark gives its Python processes 10 s to come up, which a busy machine may miss: then once more.
    while _driver(broker, source, target, tmp_path).wait(250) != 0 and time.monotonic() < end_s:
        pass
    log = (tmp_path / "driver.log").read_text()
    assert done() >= COUNT // 500, log
    rows = read("body binary", subscribe=target).select(f.col("body").cast("string")).collect()
    made = sorted(row.body for row in rows)
    wanted = sorted(f"third-{number // 3}" for number in range(COUNT))
    assert len(made) == COUNT, log
    assert (
        hashlib.sha256(repr(made).encode()).hexdigest() == hashlib.sha256(repr(wanted).encode()).hexdigest()
    )
    assert "transformed" in log
