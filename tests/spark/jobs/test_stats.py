"""What `stats` counts and measures is what was sent, from topics, a lake and both; the page is one file."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rocketeer import Message
from rocketeer.errors import ConfigError
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs import archive, measures, stats
from rocketeer.spark.jobs.archive.command import ArchiveTerms
from rocketeer.spark.jobs.chosen_messages import read_topics
from rocketeer.spark.jobs.query.terms import TableTerms
from rocketeer.spark.jobs.stats.measures import COLUMNS

from ..conftest import Broker

pytestmark = pytest.mark.timeout(600)


def fill(broker: Broker, topic: str, sizes: list[int], queue: int = 0, tags: str | None = None) -> None:
    for size in sizes:
        message = Message(topic, b"x" * size, tags=tags)
        broker.producer.send(message, queue=MessageQueue(topic, "broker-a", queue))


def test_every_message_is_counted_once_in_each_grouping(
    broker: Broker, read: Callable[..., DataFrame]
) -> None:
    topic, other = broker.topic(), broker.topic(queues=2)
    fill(broker, topic, list(range(1, 101)), queue=0, tags="small")
    fill(broker, topic, [1000] * 20, queue=1, tags="large")
    fill(broker, topic, [5] * 10, queue=1)
    fill(broker, other, [7] * 3)
    queues = {MessageQueue(topic, "broker-a", number) for number in range(4)}
    found = stats(read(None, subscribe=f"{topic},{other}"), queues=queues)
    assert [one.topic for one in found.topics] == [topic, other]
    mine = found.topics[0]
    assert (mine.measures.messages, mine.measures.bytes) == (130, 5050 + 20_000 + 50)
    assert found.messages == 133
    assert [(q.name, q.measures.messages) for q in mine.queues] == [
        ("broker-a:0", 100), ("broker-a:1", 30), ("broker-a:2", 0), ("broker-a:3", 0),
    ]  # fmt: skip
    assert (mine.skew.queues, mine.skew.empty) == (4, 2)
    assert mine.skew.max_over_mean == pytest.approx(100 / 32.5, abs=0.001)
    assert [(t.name, t.measures.messages) for t in mine.tags] == [("small", 100), ("large", 20), (None, 10)]
    small = mine.tags[0].measures.size_bytes
    assert (small.min, small.p50, small.p90, small.p99, small.max) == (1, 50, 90, 99, 100)
    assert [(h.name, h.measures.messages) for h in mine.hosts] == [("127.0.0.1", 130)]
    assert sum(w.measures.messages for w in mine.windows) == 130
    for window in mine.windows:
        assert window.start_ms % found.window_ms == 0
        assert window.start_ms <= window.measures.first_ms <= window.measures.last_ms
        assert window.measures.last_ms < window.start_ms + found.window_ms
    assert 0 <= mine.measures.delay_ms.p50 <= mine.measures.delay_ms.max < 60_000


def test_the_largest_tags_are_shown_and_the_others_counted(
    spark: SparkSession, broker: Broker, read: Callable[..., DataFrame]
) -> None:
    topic = broker.topic(queues=1)
    for number in range(6):
        fill(broker, topic, [1] * (number + 1), tags=f"t{number}")
    rows = read(None, subscribe=topic)
    (found,) = stats(rows, top=2, window_ms=3_600_000).topics
    assert [(tag.name, tag.measures.messages) for tag in found.tags] == [("t5", 6), ("t4", 5)]
    assert found.tags_total == 6
    by_length = {row["n"]: row["messages"] for row in measures(rows, f.length("tags").alias("n")).collect()}
    assert by_length == {2: 21}
    with pytest.raises(ConfigError, match="top is 0"):
        stats(rows, top=0)
    with pytest.raises(ConfigError, match="window"):
        stats(rows, window_ms=0)
    assert stats(rows.where("false")).topics == ()


def test_lake_and_topic_together_have_each_message_once(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic(queues=2)
    fill(broker, topic, [10] * 30)
    archive(spark, tmp_path / "lake", ArchiveTerms(topics=[topic], nameserver=broker.nameserver))
    fill(broker, topic, [10] * 12)
    for terms, expected in (
        (TableTerms(lake=tmp_path / "lake"), 30),
        (TableTerms(nameserver=broker.nameserver), 42),
        (TableTerms(nameserver=broker.nameserver, lake=tmp_path / "lake"), 42),
    ):
        found = stats(read_topics(spark, terms, [topic], COLUMNS), window_ms=60_000)
        assert found.messages == expected


def test_the_command_prints_and_writes_a_page(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(name="Stats-of-a-command")
    fill(broker, topic, [100] * 25, queue=2, tags="<b>&")
    page = tmp_path / "report.html"
    given = ["-n", broker.nameserver, "-t", topic, "--json", "--html", page, "--master", "local[2]"]
    done = run("stats", *given)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["messages"], found["bytes"]) == (25, 2500)
    (mine,) = found["topics"]
    assert (mine["topic"], mine["skew"]["empty"]) == (topic, 3)
    text = page.read_text()
    assert "&lt;b&gt;&amp;" in text
    assert "<b>&" not in text
    missing = run("stats", "-n", broker.nameserver, "-t", "NoSuchTopic", "-q")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "NoSuchTopic" in missing.stderr
    assert len(missing.stderr.splitlines()) == 1, missing.stderr


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "NAMESRV_ADDR"}
    words = [sys.executable, "-m", "rocketeer", "spark", *map(str, arguments)]
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=400)
