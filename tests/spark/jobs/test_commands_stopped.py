"""Ctrl-C in the middle of each job: one line that says how to go on where that can be, no traceback, nothing left."""

import signal
import tempfile
from pathlib import Path

import pytest

from rocketeer import Message
from support.audited import write_store
from support.sessions import processes_of
from support.spark_commands import NOISE, Driver
from support.spark_sink import stored

from ..conftest import Broker

pytestmark = pytest.mark.timeout(900)
GOES_ON = "; the same command goes on where it stopped"


def works(driver: Driver) -> bool:
    """Whether a task of Spark runs, in a Python process of its own."""
    for pid in processes_of(driver.process.pid):
        try:
            if b"pyspark.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return True
        except OSError:
            continue
    return False


def check_stopped(driver: Driver, line: str, name: str) -> None:
    said = driver.stop(signal.SIGINT)
    assert said.code == 130, said
    assert said.err.splitlines()[-1] == f"rocketeer: interrupted{line}", said.err
    assert not NOISE.search(said.out + said.err), said.err
    assert not (Path(tempfile.gettempdir()) / f"rocketeer-spark-{name}-{driver.process.pid}.log").exists()


@pytest.mark.parametrize("name", ["query", "stats", "trace", "dead-letters", "audit"])
def test_jobs_that_only_read_say_that_they_were_interrupted(
    name: str, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic(1, name=f"%DLQ%Stopped-{name}")
    broker.fill(topic, 50, queues=1)
    words: dict[str, list[object]] = {
        "query": ["-e", f"SELECT count(*) FROM `{topic}`"],
        "stats": ["-t", topic],
        "trace": ["--trace-topic", topic],
        "dead-letters": ["-g", f"Stopped-{name}"],
        "audit": [tmp_path / "store"],
    }
    if name == "audit":
        write_store(tmp_path / "store", 300)
    with Driver(name, *words[name], "-n", broker.nameserver) as driver:
        driver.freeze_when(lambda: works(driver))
        check_stopped(driver, "", name)


def test_a_replay_without_an_id_says_with_which_it_goes_on(broker: Broker, tmp_path: Path) -> None:
    source, target = broker.topic(), broker.topic()
    broker.fill(source, 600)
    words = ["replay", "-t", source, "--to", target, "--state", tmp_path, "-n", broker.nameserver]
    with Driver(*words, "--rate", "10") as driver:
        driver.freeze_when(lambda: len(stored(broker.cluster.broker, target)) > 20)
        (note,) = tmp_path.glob("*.json")
        check_stopped(driver, f"; the same command with --id {note.stem} goes on where it stopped", "replay")
    assert len(stored(broker.cluster.broker, target)) < 600
    with Driver(*words, "--id", note.stem) as driver:
        said = driver.end().fine()
    assert said.err.splitlines()[-1] == f"rocketeer: replay {note.stem} is complete: 600 messages sent"
    assert sorted(int(m.body) for m in stored(broker.cluster.broker, target)) == list(range(600))


@pytest.mark.parametrize("name", ["transform", "dedup"])
def test_streams_to_a_topic_go_on_where_they_stopped(name: str, broker: Broker, tmp_path: Path) -> None:
    source, target = broker.topic(2), broker.topic(2)
    for number in range(200):
        broker.producer.send(Message(source, str(number).encode(), keys=f"k{number}"))
    words = [name, "--to", target, "--checkpoint", tmp_path / "checkpoint", "-n", broker.nameserver]
    words += ["-e", f"SELECT body FROM {source}"] if name == "transform" else ["-t", source, "--by", "key"]

    def in_the_middle() -> bool:
        begun, ended = (
            {p.name for p in (tmp_path / "checkpoint" / log).glob("[0-9]*")} for log in ("offsets", "commits")
        )
        return bool(ended) and bool(begun - ended)

    small = ["--option", "maxOffsetsPerTrigger=10", "--forever", "--interval", "100ms"]
    with Driver(*words, *small) as driver:
        driver.freeze_when(in_the_middle)
        check_stopped(driver, GOES_ON, name)
    with Driver(*words) as driver:
        driver.end().fine()
    found = sorted(int(message.body) for message in stored(broker.cluster.broker, target, 2))
    assert found == list(range(200))
