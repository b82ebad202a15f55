"""A first session: made by hand, run by an environment's Python that nobody activated; reads with a call."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from rocketeer.errors import ConfigError, NoRoute
from rocketeer.spark import SparkFailed, clear_errors, read, read_stream, reason, register
from rocketeer.spark.java import ensure_java

from .conftest import Broker, numbers

MADE_BY_HAND = """
{first}
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
{second}
frame = spark.read.format("rocketmq").option("nameserver", "{nameserver}").option("subscribe", "{topic}").load()
print("rows:", frame.count())
spark.stop()
"""
AFTERWARDS = "import rocketeer.spark; rocketeer.spark.register(spark)"


@pytest.mark.jvms
@pytest.mark.parametrize(("first", "second"), [("import rocketeer.spark", ""), ("", AFTERWARDS)])
def test_a_session_made_by_hand_restarts_nothing_and_finds_the_package(
    broker: Broker, tmp_path: Path, first: str, second: str
) -> None:
    """Without a word about PYSPARK_PYTHON, and with a `python3` on the PATH that has nothing installed."""
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / "python3").symlink_to(os.path.realpath(sys.executable))
    topic = broker.topic(1)
    broker.fill(topic, 3, queues=1)
    env = {"PATH": f"{bare}:/usr/bin:/bin", "JAVA_HOME": str(ensure_java()), "HOME": str(tmp_path)}
    script = MADE_BY_HAND.format(first=first, second=second, nameserver=broker.nameserver, topic=topic)
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert "rows: 3" in done.stdout, done.stdout + done.stderr
    assert ("so they may not find rocketeer: call rocketeer.spark.register" in done.stderr) == bool(second)


def test_reading_with_a_call_takes_only_the_columns_named(
    spark: SparkSession, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic(2)
    broker.fill(topic, 10, queues=2)
    monkeypatch.setenv("NAMESRV_ADDR", broker.nameserver)
    assert read(spark, topic, columns=["queueOffset", "tags"]).columns == ["queueOffset", "tags"]
    assert numbers(read(spark, [topic], columns=["body"], failOnDataLoss=True)) == list(range(10))
    assert "properties" in read(spark, subscribePattern=topic).columns
    assert read_stream(spark, topic, columns=["body"], maxOffsetsPerTrigger=5).isStreaming


def test_a_thread_of_ones_own_writes_once_it_has_registered(spark: SparkSession, broker: Broker) -> None:
    topic = broker.topic()
    rows = spark.sql("select 'x' body")

    def write() -> None:
        with clear_errors():
            rows.write.format("rocketmq").options(nameserver=broker.nameserver, topic=topic).mode(
                "append"
            ).save()

    def register_and_write() -> None:
        register(spark)
        write()

    for target, sentence in ((write, "call rocketeer.spark.register"), (register_and_write, None)):
        with ThreadPoolExecutor(1) as pool:
            error = pool.submit(target).exception()
        assert (error is None) if sentence is None else (sentence in str(error))
    assert read(spark, topic, nameserver=broker.nameserver).count() == 1


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda s, n: read(s, "NoSuchTopic", nameserver=n), NoRoute, "no route to topic 'NoSuchTopic': asked"),
        (lambda s, n: read(s, "T", columns=["colour"], nameserver=n), ConfigError, "column 'colour' does not exist"),
        (lambda s, n: read(s, "T", columns=["body", "body"], nameserver=n), ConfigError, "has 'body' twice"),
        (lambda s, n: read(s, "T", columns="body", nameserver=n), ConfigError, r"write a list, as \['body'\]"),
        (lambda s, n: read(s, "T", nameserver=n, subscrib="T"), ConfigError, "option 'subscrib' is unknown"),
        (lambda s, n: read(s, "T", nameserver=n, assign="{}"), ConfigError, "topics and the option 'assign' both"),
        (lambda s, n: read(s, nameserver=n, subscribePattern="Nowh.*"), ConfigError, "'Nowh.*', which no topic fits"),
        (lambda s, n: read(s, "T"), ConfigError, "no name server given"),
        (lambda s, n: read_stream(s, "T", nameserver=n, endingOffsets="latest"), ConfigError, "is for batches"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_raised_at_once_and_as_one_sentence(
    spark: SparkSession,
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[SparkSession, str], DataFrame],
    kind: type[Exception],
    sentence: str,
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    if sentence.startswith("column"):
        broker.topic(1, "T")
    with pytest.raises(kind, match=sentence) as failure:
        call(spark, broker.nameserver)
    assert "\n" not in str(failure.value)


def test_what_fails_in_spark_is_one_sentence_for_those_who_ask(spark: SparkSession, broker: Broker) -> None:
    frame = (
        spark.read.format("rocketmq")
        .option("nameserver", broker.nameserver)
        .option("subscribe", "Nowhere")
        .load()
    )
    with (
        pytest.raises(SparkFailed, match=r"^no route to topic 'Nowhere': asked name server [^\n]+$"),
        clear_errors(),
    ):
        frame.count()
    with pytest.raises(Exception, match="Traceback") as failure:
        frame.count()
    assert reason(failure.value).startswith("no route to topic 'Nowhere'")
