"""Messages sent again: from a lake or a topic, chosen ones only, as they were, each once, whatever dies."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from rocketeer import Message, Producer
from rocketeer.errors import ConfigError
from rocketeer.model import property_names as names
from rocketeer.model.queue import MessageQueue
from rocketeer.spark.jobs import archive, replay
from rocketeer.spark.jobs.archive.command import ArchiveTerms
from rocketeer.spark.jobs.lake.folder import NoLake
from rocketeer.spark.jobs.lake.state import Range
from rocketeer.spark.jobs.replay.command import Replayed, ReplayTerms
from rocketeer.spark.jobs.replay.properties import DROPPED, NOT_COPIED
from rocketeer.spark.jobs.replay.state import ReplayMismatch, ReplayState
from support.spark_sink import stored

from ..conftest import Broker, numbers

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def again(spark: SparkSession, broker: Broker, tmp_path: Path) -> Callable[..., Replayed]:
    def send(**given: Any) -> Replayed:
        given = {"nameserver": broker.nameserver, "state_folder": tmp_path / "state", **given}
        return replay(spark, ReplayTerms(**given))

    return send


@pytest.fixture
def lake(spark: SparkSession, broker: Broker, tmp_path: Path) -> Callable[..., Path]:
    def made(*topics: str) -> Path:
        archive(spark, tmp_path / "lake", ArchiveTerms(topics=topics, nameserver=broker.nameserver))
        return tmp_path / "lake"

    return made


def own_parts(row: Row) -> tuple[Any, ...]:
    """What the sender gave: this must arrive as it was."""
    kept = {name: value for name, value in row.properties.items() if name not in NOT_COPIED}
    return bytes(row.body), row.tags, row["keys"], kept


def test_delayed_and_deduplicated_messages_come_again_at_once_and_as_they_were(
    broker: Broker, lake: Callable[..., Path], again: Callable[..., Replayed], read: Callable[..., DataFrame]
) -> None:
    source, target = broker.topic(), broker.topic()
    queue = MessageQueue(source, "broker-a", 0)
    more = {"colour": "gr\u00fcn", "with space": "a  b ", "\U0001f680": "x=1;y"}
    with Producer("SPARK_IDEMPOTENT", nameserver=broker.nameserver, idempotent=True) as producer:
        producer.send(
            Message(source, bytes(range(256)), tags="paid", keys="a b", properties=more), queue=queue
        )
    broker.producer.send(Message(source, b"level", delay_level=1, properties=more))
    broker.producer.send(Message(source, b"timed", delay=0.2, keys="timed", sharding_key="customer-7"))
    broker.until(lambda: len(stored(broker.cluster.broker, source)) == 3, 200)
    rows = read(None, subscribe=source).collect()
    path = lake(source)
    began_s = time.time()
    assert again(lake=path, to=target).sent == 3
    found = read(None, subscribe=target).collect()
    assert sorted(map(repr, map(own_parts, found))) == sorted(map(repr, map(own_parts, rows)))
    for row in found:
        assert not set(row.properties) & set(DROPPED)
        assert row.msgId not in {old.msgId for old in rows}
        assert row.storeTimestamp.timestamp() >= began_s - 1
    assert {row.properties.get(names.SHARDING_KEY) for row in found} == {None, "customer-7"}
    # And once more, as another replay: nobody takes them for those that are there.
    assert again(lake=path, to=target).sent == 3
    assert read(subscribe=target).count() == 6


def test_time_key_tag_and_sql_choose(
    broker: Broker, lake: Callable[..., Path], again: Callable[..., Replayed], read: Callable[..., DataFrame]
) -> None:
    source = broker.topic()
    broker.fill(source, 30)
    broker.fill(source, 10, start=30, keys="red blue")
    times = {int(bytes(r.body)): r.storeTimestamp for r in read(None, subscribe=source).collect()}
    path = lake(source)
    places: list[dict[str, Any]] = [{"lake": path}, {"topics": [source]}]
    for place in places:
        by_key, by_both = broker.topic(), broker.topic()
        again(to=by_key, keys=["blue", "green"], **place)
        assert numbers(read(subscribe=by_key)) == list(range(30, 40))
        since = times[10].astimezone(UTC)
        again(to=by_both, since=since, tags="T0 || T1", where="int(properties['number']) < 20", **place)
        wanted = [n for n in range(20) if times[n] >= times[10] and n % 3 < 2]
        assert numbers(read(subscribe=by_both)) == wanted


def test_a_topic_can_be_replayed_into_itself(
    broker: Broker, again: Callable[..., Replayed], read: Callable[..., DataFrame]
) -> None:
    topic = broker.topic()
    broker.fill(topic, 20)
    assert again(topics=[topic], chunk_rows=7).sent == 20
    assert numbers(read(subscribe=topic)) == sorted([*range(20), *range(20)])


def test_ordered_replays_keep_the_order_of_each_queue(
    broker: Broker, lake: Callable[..., Path], again: Callable[..., Replayed], read: Callable[..., DataFrame]
) -> None:
    source, target = broker.topic(), broker.topic(queues=3)
    broker.fill(source, 200)
    path = lake(source)
    again(lake=path, to=target, ordered=True, chunk_rows=60)
    rows = read(subscribe=target).orderBy("queueId", "queueOffset").collect()
    found: dict[int, list[int]] = {}
    places: dict[int, set[int]] = {}
    for row in rows:
        number = int(bytes(row.body))
        found.setdefault(number % 4, []).append(number)
        places.setdefault(number % 4, set()).add(row.queueId)
    assert found == {queue: list(range(queue, 200, 4)) for queue in range(4)}
    assert all(len(where) == 1 for where in places.values())


def test_a_rate_is_not_exceeded(
    broker: Broker, again: Callable[..., Replayed], read: Callable[..., DataFrame]
) -> None:
    source, target = broker.topic(), broker.topic()
    broker.fill(source, 120)
    again(topics=[source], to=target, rate=40)
    times = sorted(r.storeTimestamp.timestamp() for r in read(None, subscribe=target).collect())
    assert len(times) == 120
    assert times[-1] - times[0] >= (120 - 40) / 40, (
        "at 40/s they take 3 s; the first and last steps are no time"
    )


def test_a_finished_replay_is_not_sent_again_and_its_id_means_no_other(
    broker: Broker, again: Callable[..., Replayed], read: Callable[..., DataFrame]
) -> None:
    source, target = broker.topic(), broker.topic()
    broker.fill(source, 12)
    assert again(topics=[source], to=target, replay_id="mine").sent_now == 12
    done = again(topics=[source], to=target, replay_id="mine")
    assert (done.sent, done.sent_now) == (12, 0)
    assert read(subscribe=target).count() == 12
    with pytest.raises(ReplayMismatch, match="tags was None"):
        again(topics=[source], to=target, replay_id="mine", tags="T1")


def test_what_cannot_be_is_said(again: Callable[..., Replayed], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to replay"):
        again(to="X")
    with pytest.raises(NoLake, match="does not exist"):
        again(lake=tmp_path / "none")
    with pytest.raises(ConfigError, match="up to 60"):
        again(topics=["A"], replay_id="a/b")


def test_chunks_are_the_same_each_time_and_cover_everything() -> None:
    ranges = {MessageQueue("T", "b", n): Range(n, n * 100 + 5) for n in range(5)}
    state = ReplayState({}, ranges, chunk_rows=33)
    chunks = list(state.chunks())
    assert chunks == list(ReplayState.from_json(state.to_json()).chunks())
    assert all(sum(r.end - r.begin for r in chunk.values()) <= 33 for chunk in chunks)
    for queue, whole in ranges.items():
        parts = [chunk[queue] for chunk in chunks if queue in chunk]
        assert [n for part in parts for n in range(part.begin, part.end)] == list(
            range(whole.begin, whole.end)
        )


def test_a_killed_replay_goes_on_without_duplicates(
    broker: Broker, tmp_path: Path, read: Callable[..., DataFrame]
) -> None:
    source, target = broker.topic(), broker.topic()
    broker.fill(source, 1500)

    def start(*more: str) -> "subprocess.Popen[bytes]":
        command = [
            sys.executable, "-m", "rocketeer.cli.main", "spark", "replay", "-t", source, "--to", target, "--id", "killed",
            "-n", broker.nameserver, "--state", str(tmp_path), "--master", "local[2]", *more,
        ]  # fmt: skip
        return subprocess.Popen(
            command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    first = start("--rate", "100")
    try:
        broker.until(lambda: len(stored(broker.cluster.broker, target)) > 100, 400)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    assert len(stored(broker.cluster.broker, target)) < 1500, "killed on the way"
    for _ in range(3):  # a busy machine may miss the 10 s that Spark gives its Python processes to come up
        later = start()
        said, _ = later.communicate(timeout=400)
        if later.returncode == 0:
            break
    assert later.returncode == 0, said.decode()
    found = [own_parts(row) for row in read(None, subscribe=target).collect()]
    wanted = [own_parts(row) for row in read(None, subscribe=source).collect()]
    assert len(found) == 1500

    def digest(parts: list[tuple[Any, ...]]) -> str:
        return hashlib.sha256("".join(sorted(map(repr, parts))).encode()).hexdigest()

    assert digest(found) == digest(wanted)


def test_the_documentation_lists_every_property_that_is_not_copied() -> None:
    text = (Path(__file__).parents[3] / "docs" / "jobs.md").read_text()
    section = text.split("**What arrives.**")[1].split("\n## ")[0]
    listed = {
        word for line in section.splitlines() for word in line.split("`")[1::2] if line.startswith("| `")
    }
    assert {name for name in NOT_COPIED if name not in (names.TAGS, names.KEYS)} == listed - {"--ordered"}
