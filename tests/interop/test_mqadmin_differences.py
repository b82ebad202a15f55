"""The table of docs/admin.md, line by line: what Apache's mqadmin does, and what ours does in the same place."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer import Admin, Message, Producer, PullConsumer, SubscriptionGroup, TopicConfig
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
    assert len(table.strip().splitlines()) == 1 + 9


def test_a_failure_is_one_sentence_and_1_there_a_trace_and_0(
    pair: TwoBrokers, ours: Mqadmin, tmp_path: Path
) -> None:
    done = java_alone(pair, tmp_path, "topicStatus", "-t", "NoSuchTopic")
    assert (done.returncode, "\tat org.apache" in done.stdout + done.stderr) == (0, True)
    ran = ours.run("topicStatus", "-t", "NoSuchTopic")
    assert (ran.code, ran.out, len(ran.err.strip().splitlines())) == (1, "", 1)


def java_alone(pair: TwoBrokers, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, for words that end it."""
    command = java_peer(home, "org.apache.rocketmq.tools.command.MQAdminStartup").command
    return subprocess.run(
        [*command, *words, "-n", pair.namesrv],
        capture_output=True,
        text=True,
        cwd=home,
        env=tool_environment(home),
        timeout=120,
    )


def test_what_is_mistyped_is_told_the_nearest_there_it_does_not_exist(
    pair: TwoBrokers, java: JavaMqadmin, ours: Mqadmin, tmp_path: Path
) -> None:
    assert java.run("topicLst").strip() == "The sub command topicLst not exist."
    assert ours.run("topicLst").err == "mqadmin: no command 'topicLst'; did you mean topicList?\n"
    printed = java_alone(pair, tmp_path, "topicStatus", "--topik", "T").stdout
    assert "usage: mqadmin topicStatus" in printed
    assert "did you mean --topic?" in ours.run("topicStatus", "--topik", "T").err


def test_lists_are_in_order_there_in_that_of_a_hash_table(java: JavaMqadmin, ours: Mqadmin) -> None:
    theirs = [line for line in java("topicList").splitlines() if line]
    own = ours("topicList").lines
    assert own == sorted(own) == sorted(theirs) != theirs


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


def test_json_everywhere_there_nowhere(pair: TwoBrokers, ours: Mqadmin, tmp_path: Path) -> None:
    assert "usage: mqadmin topicList" in java_alone(pair, tmp_path, "topicList", "--json").stdout
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
        with PullConsumer("reader", nameserver=pair.namesrv) as consumer:
            for queue in consumer.queues("Read"):
                consumer.commit(queue, 0)
        admin.update_group(SubscriptionGroup("retried-nothing"), cluster="DefaultCluster")
    assert "No topic route info" in java.run("consumerProgress", "-g", "retried-nothing")
    assert ours.json("consumerProgress", "-g", "retried-nothing")["lag"] == 0
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
        assert "0.00(,ms)" in row
        ran = ours.run("clusterList", "--timeout", 2)
        (own,) = [line.split() for line in ran.lines if " broker-b " in line]
        assert ran.code == 1
        assert "broker-b" in ran.err
        assert "-" in own
        assert not any(word.startswith("0.00") for word in own)
    finally:
        pair.wake_second()
