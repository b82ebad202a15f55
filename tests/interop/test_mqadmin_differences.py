"""The table of docs/admin.md, line by line: what Apache's mqadmin does, and what ours does in the same place."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer import Admin, Message, Producer, TopicConfig
from support.java_mqadmin import JavaMqadmin, tool_environment
from support.mqadmin import Mqadmin
from support.peers import java_peer
from support.two_brokers import TwoBrokers, two_brokers

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]
DOCS = Path(__file__).parents[2] / "docs" / "admin.md"
HOURS_SINCE_1970 = 400_000


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBrokers]:
    with two_brokers(tmp_path_factory.mktemp("pair")) as running:
        yield running


@pytest.fixture(scope="module")
def java(pair: TwoBrokers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaMqadmin]:
    tool = JavaMqadmin(tmp_path_factory.mktemp("mqadmin"), pair.namesrv)
    yield tool
    tool.close()


@pytest.fixture
def ours(pair: TwoBrokers, capsys: pytest.CaptureFixture[str]) -> Mqadmin:
    return Mqadmin(pair.namesrv, capsys)


def test_these_are_the_lines_of_the_table() -> None:
    """A line that is added needs a test here."""
    table = DOCS.read_text().partition("| here | RocketMQ's tool |")[2].partition("\n\n")[0]
    assert len(table.strip().splitlines()) == 1 + 8


def test_a_failure_is_one_sentence_and_1_there_a_trace_and_0(
    pair: TwoBrokers, ours: Mqadmin, tmp_path: Path
) -> None:
    command = java_peer(tmp_path, "org.apache.rocketmq.tools.command.MQAdminStartup").command
    words = ["topicStatus", "-t", "NoSuchTopic", "-n", pair.namesrv]
    done = subprocess.run(
        [*command, *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=tool_environment(tmp_path),
        timeout=120,
    )
    assert (done.returncode, "\tat org.apache" in done.stdout + done.stderr) == (0, True)
    ran = ours.run("topicStatus", "-t", "NoSuchTopic")
    assert (ran.code, ran.out, len(ran.err.strip().splitlines())) == (1, "", 1)


def test_a_mistyped_command_is_told_the_nearest_there_a_list_of_all(java: JavaMqadmin, ours: Mqadmin) -> None:
    printed = java.run("topicLst")
    assert printed.count("\n") > 50
    ran = ours.run("topicLst")
    assert ran.code != 0
    assert "topicList" in ran.err
    assert len(ran.err.splitlines()) <= 3


def test_what_is_destroyed_needs_a_yes_there_it_is_done_at_once(
    java: JavaMqadmin, ours: Mqadmin, pair: TwoBrokers
) -> None:
    with Admin(pair.namesrv) as admin:
        for name in ("Doomed", "Spared"):
            admin.update_topic(TopicConfig(name, 1, 1), cluster="DefaultCluster")
        assert "success" in java("deleteTopic", "-t", "Doomed", "-c", "DefaultCluster")
        ran = ours.run("deleteTopic", "-t", "Spared", "-c", "DefaultCluster")
        assert ran.code == 1
        assert "--yes" in ran.err
        assert not admin.topic_exists("Doomed")
        assert admin.topic_exists("Spared")


def test_json_everywhere_there_nowhere(java: JavaMqadmin, ours: Mqadmin) -> None:
    assert "{" not in java.run("topicList", "--json")
    assert isinstance(ours.json("topicList"), list | dict)


def test_the_age_of_an_empty_log_is_a_dash_there_hours_since_1970(java: JavaMqadmin, ours: Mqadmin) -> None:
    (row,) = [line.split() for line in java("clusterList").splitlines() if " broker-b " in line]
    assert float(row[-2]) > HOURS_SINCE_1970, "it reckons from -1"
    (own,) = [line.split() for line in ours("clusterList").lines if " broker-b " in line]
    assert own[-2] == "-"


def test_a_group_without_a_retry_topic_has_progress_there_no_route(
    java: JavaMqadmin, ours: Mqadmin, pair: TwoBrokers
) -> None:
    with Admin(pair.namesrv) as admin, Producer("shop", nameserver=pair.namesrv) as producer:
        admin.update_topic(TopicConfig("Read", 1, 1), cluster="DefaultCluster")
        producer.send(Message("Read", b"x"))
        admin.reset_offsets("reader", "Read", 1000)
    assert "No topic route info" in java.run("consumerProgress", "-g", "reader")
    assert ours.json("consumerProgress", "-g", "reader")["lag"] == 1


def test_start_monitoring_says_what_is_wrong_there_it_writes_to_a_log(ours: Mqadmin) -> None:
    """That Java's says nothing on its output: test_java_mqadmin.py."""
    said = ours.run("startMonitoring", "--rounds", 1, "-l", 0, "-d", 1.0)
    assert "reader" in said.out, "the group of the test before is one message behind"


def test_a_silent_broker_is_named_and_has_no_figures_there_they_are_zero(
    java: JavaMqadmin, ours: Mqadmin, pair: TwoBrokers
) -> None:
    pair.freeze_second()
    try:
        (row,) = [line.split() for line in java.run("clusterList").splitlines() if " broker-b " in line]
        assert "0.00(0,0ms)" in row
        ran = ours.run("clusterList", "--timeout", 2)
        (own,) = [line.split() for line in ran.lines if " broker-b " in line]
        assert ran.code == 1
        assert "broker-b" in ran.err
        assert "-" in own
        assert "0.00(0,0ms)" not in own
    finally:
        pair.wake_second()
