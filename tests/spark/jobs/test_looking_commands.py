"""Every option of the jobs that only look does what docs/jobs.md says: as a person types them, with a session that is
lent."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from rocketeer import Message, Producer
from support.spark_commands import Commands
from support.spark_sink import stored

from ..conftest import Broker
from .test_dead_letters import give_up

pytestmark = pytest.mark.timeout(600)
Read = Callable[..., DataFrame]


def test_query_of_lake_store_and_files(job: Commands, broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(1)
    for number in range(6):
        broker.producer.send(Message(topic, json.dumps({"id": number}).encode()))
    broker.producer.send(Message(topic, b"none"))
    lake = tmp_path / "lake"
    job("archive", lake, "-t", topic).fine()
    broker.producer.send(Message(topic, b'{"id": 7}'))
    count = ["-e", f"SELECT count(*) AS n FROM {topic}", "--format", "csv"]
    assert job("query", *count, "--lake", lake).fine().out == "n\n8\n"
    assert job("query", *count, "--lake", lake, "--lake-only").fine().out == "n\n7\n"
    store = f"storePath={broker.cluster.store}"
    assert job("query", *count, "--option", store).fine().out == "n\n8\n"
    assert job("query", *count, "--until", "1h").fine().out == "n\n0\n"
    script = tmp_path / "sums.sql"
    script.write_text(f"SELECT 1 AS one; SELECT sum(id) AS s, count_if(bodyIsJson) AS n FROM {topic};")
    said = job("query", script, "--json", topic, "--format", "json", "-o", tmp_path / "out.json").fine()
    assert said.out == '{"one":1}\n'
    assert (tmp_path / "out.json").read_text() == '{"s":22,"n":7}\n'
    assert f"{topic}: 1 of 8 messages are no JSON" in said.err
    line = job("query", script, "-o", tmp_path / "out.json").line()
    assert line == f"{tmp_path / 'out.json'} exists: choose another place, or say --overwrite"
    schema = [
        "--json-schema",
        f"{topic}=id long",
        "--no-json-count",
        "--overwrite",
        "--output",
        tmp_path / "out.json",
    ]
    assert "no JSON" not in job("query", script, *schema).fine().err
    assert job("query", "-e", f"SELECT queueOffset FROM {topic}", "--rows", "2").fine().out.splitlines()[
        -1
    ] == ("(2 rows shown; there are more: --rows, or --format csv)")


def test_stats_by_pattern_time_window_and_lake(job: Commands, broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(2, name="StatsOptions")
    for number in range(9):
        broker.producer.send(Message(topic, b"x" * 100, tags=f"T{number % 3}"))
    job("archive", tmp_path / "lake", "-t", topic).fine()
    shared = [
        "stats",
        "--pattern",
        "Stats(Options|No)",
        "--since",
        "1h",
        "--window",
        "5 minutes",
        "--top",
        "2",
    ]
    page = tmp_path / "page.html"
    for more in ([], ["--lake", tmp_path / "lake"]):
        found = json.loads(job(*shared, *more, "--json", "--html", page).fine().out)
        assert (found["messages"], found["window_ms"]) == (9, 300_000)
        (mine,) = found["topics"]
        assert (len(mine["tags"]), mine["tags_total"]) == (2, 3)
    shown = job(*shared, "--until", "0s").fine()
    assert "StatsOptions" in shown.out
    assert "no messages" in job("stats", "-t", topic, "--until", "1h").fine().out.lower()


def test_dead_letters_shown_exported_and_sent_again(
    job: Commands, broker: Broker, tmp_path: Path, read: Read
) -> None:
    origin, target = broker.topic(1), broker.topic(1)
    dead = "%DLQ%OptionsGroup"
    for number in range(4):
        broker.producer.send(Message(origin, f"letter {number}".encode(), tags="t", keys=f"k{number}"))
    give_up(broker, origin, "OptionsGroup", 4)
    lake = tmp_path / "lake"
    job("archive", lake, "-t", dead).fine()
    (message,) = read(None, subscribe=dead).where("keys = 'k0'").collect()
    shared = ["dead-letters", "-g", "OptionsGroup", "--lake", lake, "--since", "1h"]
    choices = [
        ["--id", message["msgId"]], ["-k", "k0"], ["--tag", "t", "-k", "k0"], ["-t", origin, "--where", "keys = 'k0'"],
    ]  # fmt: skip
    for choice in choices:
        found = json.loads(job(*shared, *choice, "--json", "--list", "9").fine().out)
        assert [letter["keys"] for letter in found["letters"]] == ["k0"], choice
        assert [row["originTopic"] for row in found["groups"]] == [origin]
    assert "no dead letters" in job(*shared, "--until", "1h", "--since", "2h").fine().out
    shown = job(*shared, "--list", "2").fine().out
    assert ("OptionsGroup" in shown, len(re.findall("letter [0-3]", shown))) == (True, 2)
    export = tmp_path / "dead.txt"
    assert "say --format json, csv or parquet" in job(*shared, "--export", export).line()
    words = [*shared, "--export", export, "--format", "json", "--body", "text"]
    assert "exported 4 dead letters" in job(*words).fine().err
    assert {json.loads(line)["body"] for line in export.open()} == {f"letter {number}" for number in range(4)}
    assert "say --overwrite" in job(*words).line()
    job(*words, "--overwrite").fine()
    everything = ["dead-letters", "-g", "OptionsGroup", "--resend", "--all", "--to", target]
    assert f"would send 4 messages to {target}" in job(*everything).fine().err
    assert read(subscribe=target).count() == 0
    assert f"sent 4 messages to {target}" in job(*everything, "--yes").fine().err
    job(*everything, "--yes").fine()
    assert read(subscribe=target).count() == 4, "once"
    job(*everything, "--yes", "--run", "again").fine()
    job(*everything, "--yes", "-k", "k0", "--at-least-once").fine()
    assert read(subscribe=target).count() == 9


def test_traces_by_every_choice(job: Commands, broker: Broker, tmp_path: Path) -> None:
    topic, traces = broker.topic(1), broker.topic(1, name="OptionTraces")
    given: dict[str, Any] = {"nameserver": broker.nameserver, "trace": True, "trace_topic": traces}
    with Producer("TRACED", **given) as producer:
        ids = [producer.send(Message(topic, b"x", keys=f"k{number}")).message_id for number in range(4)]
    broker.until(lambda: sum(len(m.body) > 0 for m in stored(broker.cluster.broker, traces, 1)) > 0)
    lake = tmp_path / "lake"
    job("archive", lake, "-t", traces).fine()
    shared = ["trace", "--trace-topic", traces, "--lake", lake, "--since", "1h"]
    wanted: list[tuple[list[object], int]] = [
        (["-t", topic, "--store-times"], 4),
        (["--id", ids[0], "--id", ids[1]], 2),
        (["--key", "k2"], 1),
        (
            [
                "-t",
                topic,
                "-g",
                "Nobody",
                "--state",
                "never-consumed",
                "--slowest",
                "publish",
                "--limit",
                "3",
            ],
            3,
        ),
        (["-t", topic, "--state", "consumed"], 0),
        (["-t", topic, "--until", "30m"], 0),
    ]
    for words, count in wanted:
        assert len(json.loads(job(*shared, *words, "--json").fine().out)["lives"]) == count, words
    shown = job(*shared, "--key", "k2").fine().out
    assert ("published by TRACED" in shown, "never consumed" in shown) == (True, True)


def test_audit_with_all_its_options(job: Commands, broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(1)
    broker.fill(topic, 8, queues=1)
    lake, store = tmp_path / "lake", broker.cluster.store
    job("archive", lake, "-t", topic).fine()
    words = ["audit", store, "--lake", lake, "--broker-name", "broker-a", "--lagging"]
    said = job(*words, "--json", tmp_path / "report.json", "--delay-levels", "1s 5s").fine()
    assert "nothing wrong" in said.out.lower(), said.out
    assert json.loads((tmp_path / "report.json").read_text())["counts"] == {}
    assert job("audit", "--lake", lake, "-n", broker.nameserver).fine()
    next(lake.glob("topic=*/date=*/*.parquet")).unlink()
    assert job("audit", "--lake", lake, "--exact").code == 1
    found = job("audit", "--lake", lake, "--findings", "1", "--json", "-")
    assert found.code == 1
    report = json.loads(found.out)
    assert (len(report["findings"]), sum(report["counts"].values()) > 1) == (1, True)
