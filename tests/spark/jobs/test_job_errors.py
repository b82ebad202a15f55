"""What a person can get wrong ends as one line and exit code 1, whichever the job: no traceback, nothing of Java's."""

import json
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from rocketeer.spark.jobs.archive.command import ArchiveTerms, archive
from support.spark_commands import Commands

from ..conftest import Broker

pytestmark = pytest.mark.timeout(600)
NOBODY = "127.0.0.1:1"


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    name = broker.topic(1)
    broker.fill(name, 4, queues=1)
    return name


@pytest.fixture(scope="module")
def lake(spark: SparkSession, broker: Broker, topic: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("errors") / "lake"
    archive(spark, folder, ArchiveTerms(topics=[topic], nameserver=broker.nameserver))
    return folder


def of_topic(topic: str, target: str, folder: Path) -> dict[str, list[object]]:
    """Each job that reads topics, told to read this one."""
    return {
        "archive": [folder / "lake", "-t", topic],
        "replay": ["-t", topic, "--to", target, "--state", folder],
        "query": ["-e", f"SELECT * FROM {topic}"],
        "transform": ["-e", f"SELECT body FROM {topic}", "--to", target, "--checkpoint", folder / "c1"],
        "dedup": ["-t", topic, "--to", target, "--checkpoint", folder / "c2"],
        "stats": ["-t", topic],
        "trace": ["--trace-topic", topic],
        "dead-letters": ["-g", topic],
    }


def test_no_such_topic(job: Commands, topic: str, tmp_path: Path) -> None:
    for name, words in of_topic("NoSuchTopic", topic, tmp_path).items():
        assert "NoSuchTopic" in job(name, *words).line(), name
    assert list(tmp_path.iterdir()) == [], "nothing was touched"
    for name, words in of_topic(topic, "NoSuchTarget", tmp_path).items():
        if "NoSuchTarget" in words:
            assert "NoSuchTarget" in job(name, *words).line(), name
    assert list(tmp_path.iterdir()) == [], "nor an id taken"
    assert job("archive", tmp_path / "lake", "--pattern", "NoSuch.*").line() == (
        "no topic fits --pattern 'NoSuch.*'"
    )


def test_no_name_server(job: Commands, topic: str, tmp_path: Path) -> None:
    for name, words in of_topic(topic, "Target", tmp_path).items():
        line = job(name, *words, "-n", NOBODY).line()
        assert "no name server answered: cannot connect to 127.0.0.1:1" in line, name


def test_no_lake_and_a_lake_of_another_schema(job: Commands, lake: Path, topic: str, tmp_path: Path) -> None:
    def of_lake(path: Path) -> dict[str, list[object]]:
        return {
            "archive": [path, "-t", topic],
            "replay": ["--lake", path, "--to", topic],
            "query": ["--lake", path, "-e", f"SELECT * FROM {topic}"],
            "dedup": ["-t", topic, "--lake", path],
            "stats": ["--lake", path],
            "trace": ["--lake", path, "--trace-topic", topic],
            "dead-letters": ["--lake", path],
            "audit": ["--lake", path],
        }

    for name, words in of_lake(tmp_path / "none").items():
        if name not in ("archive", "dedup"):  # those make one
            assert job(name, *words).line() == f"{tmp_path / 'none'} is no lake: it does not exist", name
    assert not (tmp_path / "none").exists()
    theirs = tmp_path / "theirs"
    table = pa.table({"topic": ["T"], "date": [date(2026, 11, 16)], "body": ["text"]})
    write_deltalake(theirs, table, partition_by=["topic", "date"])
    for name, words in of_lake(theirs).items():
        line = job(name, *words).line()
        assert line == (
            f"{theirs} is a Delta table of another schema: "
            "it differs in body, brokerName, queueId, queueOffset, storeTimestamp"
        ), name


def test_a_checkpoint_of_another_query(job: Commands, broker: Broker, topic: str, tmp_path: Path) -> None:
    target = broker.topic(1)
    note = tmp_path / "theirs" / "rocketeer.json"
    note.parent.mkdir()
    note.write_text(
        json.dumps({"query": {"job": "transform", "from": ["Others"], "to": target}, "facts": {}})
    )
    for name, words in of_topic(topic, target, tmp_path).items():
        if "--checkpoint" in words:
            words[words.index("--checkpoint") + 1] = note.parent
            line = job(name, *words).line()
            assert line.startswith(f"{note.parent} is the checkpoint of another query: its "), name
    note.rename(note.with_name("metadata"))  # a query that is none of ours
    words = of_topic(topic, target, tmp_path)["transform"]
    words[words.index("--checkpoint") + 1] = note.parent
    assert (
        job("transform", *words).line()
        == f"{note.parent} is another query's checkpoint: choose another folder"
    )


def test_what_was_lost_comes_with_the_flag_that_goes_on(
    job: Commands, broker: Broker, tmp_path: Path
) -> None:
    source, target = broker.topic(1), broker.topic(1)
    broker.fill(source, 5, queues=1)
    words = of_topic(source, target, tmp_path)["transform"]
    job("transform", *words).fine()
    broker.delete(source)
    broker.topic(1, name=source)
    broker.fill(source, 2, queues=1)
    line = job("transform", *words).line()
    assert "offsets went back from 5 to 2" in line
    assert line.endswith("). Say --option failOnDataLoss=false to go on with what exists")
    said = job("transform", *words, "--option", "failOnDataLoss=false").fine()
    assert "transformed 2 messages" in said.err


def test_a_replay_that_is_complete_in_one_cluster_is_not_in_another(
    job: Commands, lake: Path, broker: Broker, tmp_path: Path
) -> None:
    words = ["replay", "--lake", lake, "--to", broker.topic(1), "--id", "one", "--state", tmp_path]
    assert "4 messages sent" in job(*words).fine().err
    line = job(*words, "-n", NOBODY).line()
    assert f"nameserver was ['{broker.nameserver}']): give them, or another --id" in line


def test_a_file_of_the_lake_that_is_none(
    job: Commands, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    archive(spark, tmp_path / "lake", ArchiveTerms(topics=[topic], nameserver=broker.nameserver))
    (file,) = (tmp_path / "lake").rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:-8])
    line = job("replay", "--lake", tmp_path / "lake", "--to", broker.topic(1)).lines()[-1]
    assert file.name in line
    assert "is no Parquet file" in line


def test_a_url_of_an_unknown_kind_is_no_lake(
    job: Commands, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["archive", "-t", topic], ["dedup", "-t", topic, "--lake"], ["audit", "--lake"]):
        line = job(*words, "gs://bucket/lake").line()
        assert line.startswith("gs://bucket/lake: a lake is a folder, or a prefix of an object store"), words
    assert list(tmp_path.iterdir()) == [], "nor is one made here"


def test_a_lake_that_dedup_fills_and_a_store_of_somebody_else(
    job: Commands, broker: Broker, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "lake" / "_rocketeer" / "dedup-checkpoint").mkdir(parents=True)
    assert "is filled by dedup" in job("archive", tmp_path / "lake", "-t", topic).line()
    assert job("archive", tmp_path / "new", "-t", topic, "--store", tmp_path / "none").line() == (
        f"storePath '{tmp_path / 'none'}' is not a folder"
    )
    assert (
        "it goes with --store" in job("archive", tmp_path / "new", "-t", topic, "--broker-name", "b").line()
    )
    assert "has no folder commitlog" in job("audit", tmp_path).line()


def test_words_that_are_no_values(job: Commands, topic: str, lake: Path, tmp_path: Path) -> None:
    sql = f"SELECT body FROM {topic}"
    wrong: list[tuple[list[object], str]] = [
        (["archive", lake, "-t", topic, "--interval", "1s"], "--interval '1s' is for --forever"),
        (["archive", lake, "-t", topic, "--forever", "--interval", "often"], "--interval 'often' is no time"),
        (["archive", lake, "-t", topic, "--batch-bytes", "lots"], "write a size like 64m"),
        (["archive", lake, "-t", topic, "--compression", "zip"], "choose one of zstd, lz4, snappy, none"),
        (["archive", lake, "-t", topic, "--start", "now"], "write earliest or latest"),
        (["archive", lake, "-t", topic, "--option", "x"], "--option 'x': write KEY=VALUE"),
        (["archive", lake], "name topics (-t), or give a --pattern"),
        (["replay", "--lake", lake, "--to", topic, "--since", "tomorrow"], "--since 'tomorrow' is no time"),
        (
            ["replay", "--lake", lake, "--to", topic, "--where", "colour = 1"],
            "name `colour` cannot be resolved",
        ),
        (["replay", "--lake", lake, "--to", topic, "--where", "= ="], "Syntax error at or near '='"),
        (["replay", "--lake", lake, "--to", topic, "--id", "a/b"], "write up to 60 letters"),
        (["replay", "--to", topic], "nothing to replay"),
        (["query", "-e", f"SELECT colour FROM {topic}"], "name `colour` cannot be resolved"),
        (["query", "-e", "SELECT 1", "--since", "2h", "--until", "3h"], "nothing lies between"),
        (["query", "-e", ";"], "there is no SQL to run"),
        (["query", "-e", "SELECT 1", "--lake-only"], "--lake-only needs --lake"),
        (["transform", "--to", "X", "--checkpoint", tmp_path], "give one of --sql, --file and --function"),
        (
            ["transform", "--to", "X", "--checkpoint", tmp_path, "-e", sql, "--watermark", "late"],
            "--watermark 'late' is no time",
        ),
        (["dedup", "-t", topic], "give --to TOPIC or --lake FOLDER"),
        (["dedup", "-t", topic, "--to", "X"], "--to needs --checkpoint FOLDER"),
        (["dedup", "-t", topic, "--lake", tmp_path / "l", "--within", "long"], "--within 'long' is no time"),
        (["stats", "-t", topic, "--window", "0s"], "--window 0s: write a time like 10s"),
        (["stats", "-t", topic, "--pattern", "x"], "not both"),
        (["stats", "--pattern", "(("], "is no regular expression"),
        (["stats", "-t", topic, "--html", tmp_path / "no" / "x.html"], "the folder does not exist"),
        (["trace", "--state", "lost"], "--state 'lost': choose of consumed"),
        (["trace", "--store-times"], "name them with -t"),
        (["dead-letters", "--resend"], "choose what to resend"),
        (["audit"], "nothing to audit"),
    ]
    for words, text in wrong:
        assert text in job(*words).line(), words
    assert list(tmp_path.iterdir()) == []
