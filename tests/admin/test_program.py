"""The program itself: how it lists, refuses, asks and watches, on a terminal and off."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rocketeer import Admin
from rocketeer.cli.admin.program import run
from support.mqadmin import Mqadmin
from support.two_brokers import TwoBrokers

from .conftest import Shop, wait_until

MQADMIN = [sys.executable, "-c", "from rocketeer.cli.admin.program import main; main()"]


def program(*words: str, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    """As a script runs it: no terminal."""
    whole = {**os.environ, **(env or {})}
    return subprocess.run(
        [*MQADMIN, *words], capture_output=True, text=True, env=whole, stdin=subprocess.DEVNULL, timeout=60
    )


class Terminal:
    """The program on a terminal of its own."""

    def __init__(self, *words: str) -> None:
        self._end, inside = pty.openpty()
        env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200", "LINES": "50"}
        self._process = subprocess.Popen(
            [*MQADMIN, *words], stdin=inside, stdout=inside, stderr=inside, env=env, start_new_session=True
        )
        os.close(inside)
        self.text = ""

    def wait_for(self, text: str, timeout_s: float = 30) -> None:
        end_s = time.monotonic() + timeout_s
        while text not in self.text:
            assert time.monotonic() < end_s, f"{text!r} did not appear in {self.text!r}"
            self._read(0.1)

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self._end], [], [], timeout_s)[0]:
            return True
        try:
            data = os.read(self._end, 65536)
        except OSError:
            return False
        self.text += data.decode()
        return bool(data)

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def end(self) -> int:
        """Its exit code."""
        while self._read(0.1) or self._process.poll() is None:
            if self._process.poll() is not None and not self._read(0.1):
                break
        os.close(self._end)
        return self._process.wait(30)

    def interrupt(self) -> None:
        os.kill(self._process.pid, signal.SIGINT)


def test_alone_it_lists_every_command_by_subject(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([], "mqadmin") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Consumer groups:" in lines
    assert sum(line.startswith("  ") for line in lines) == 56


def test_a_mistyped_command_or_option_is_told_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["topicLst"], "no command 'topicLst'; did you mean topicList?"),
        (["consumerProgres"], "did you mean consumerProgress?"),
        (["topicStatus", "--topik", "T"], "topicStatus has no option '--topik'; did you mean --topic?"),
        (["topicStatus"], "topicStatus needs -t or --topic (name of the topic)"),
        (["topicStatus", "-t"], "topicStatus: -t needs a value"),
        (["updateTopic", "-t", "T"], "updateTopic needs -b or --brokerAddr or -c or --clusterName"),
        (["updateTopic", "-t", "T", "-r", "many"], "--readQueueNums 'many': a whole number"),
        (["updateSubGroup", "-g", "G", "-s", "maybe"], "--consumeEnable 'maybe': true or false"),
        (["updateOrderConf", "-t", "T", "-m", "look"], "--method 'look': one of put, get, delete"),
    ):
        assert run(words, "mqadmin") == 1
        printed = capsys.readouterr()
        assert said in printed.err
        assert printed.err.count("\n") == 1
        assert printed.out == ""


def test_commands_may_be_written_in_any_case_as_for_rocketmqs_tool(mqadmin: Mqadmin) -> None:
    assert mqadmin("topiclist").out == mqadmin("topicList").out != ""


def test_help_of_a_command_shows_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["help", "updateTopic"], ["updateTopic", "-h"], ["updateTopic", "--help"]):
        assert run(words, "mqadmin") == 0
        text = capsys.readouterr().out
        assert "-r, --readQueueNums VALUE" in text
        assert "-n, --namesrvAddr VALUE" in text


def test_options_may_be_written_together(pair: TwoBrokers, mqadmin: Mqadmin, shop: Shop) -> None:
    whole = mqadmin("topicClusterList", "-t", shop.topic).out
    assert mqadmin("topicClusterList", f"-t{shop.topic}").out == whole
    assert mqadmin("topicClusterList", f"--topic={shop.topic}").out == whole


def test_without_a_name_server_it_says_where_one_could_come_from() -> None:
    ran = program("topicList", env={"NAMESRV_ADDR": "", "ROCKETMQ_NAMESRV_DOMAIN": ""})
    assert ran.returncode == 1
    assert "add -n HOST:9876, or set NAMESRV_ADDR" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_the_environment_names_the_name_server(pair: TwoBrokers, shop: Shop) -> None:
    ran = program("topicList", env={"NAMESRV_ADDR": pair.namesrv})
    assert shop.topic in ran.stdout.splitlines()


def test_rocketeer_admin_is_the_same_program(pair: TwoBrokers, shop: Shop) -> None:
    words = [sys.executable, "-m", "rocketeer.cli.main", "admin", "topicList", "-n", pair.namesrv]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, shop.topic in ran.stdout.splitlines()) == (0, True)
    ran = subprocess.run([*words[:4], "topicLst"], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (
        1,
        "rocketeer admin: no command 'topicLst'; did you mean topicList?\n",
    )


def test_a_script_must_say_yes_before_something_is_destroyed(
    pair: TwoBrokers, admin: Admin, topic: str, mqadmin: Mqadmin
) -> None:
    words = ["deleteTopic", "-t", topic, "-c", "DefaultCluster", "-n", pair.namesrv]
    ran = program(*words)
    assert ran.returncode == 1
    assert f"Topic {topic} and its messages will be deleted on broker-a ({pair.broker})" in ran.stderr
    assert "add --yes" in ran.stderr
    assert admin.topic_exists(topic)
    ran = program(*words, env={"MQADMIN_YES": "1"})
    assert ran.returncode == 0, ran.stderr
    assert not admin.topic_exists(topic)


def test_a_person_is_asked_before_something_is_destroyed(pair: TwoBrokers, admin: Admin, topic: str) -> None:
    for answer, gone in (("n", False), ("y", True)):
        terminal = Terminal("deleteTopic", "-t", topic, "-c", "DefaultCluster", "-n", pair.namesrv)
        terminal.wait_for("Go on? [y/N]")
        assert "It holds 0 messages in 4 queues" in terminal.text
        terminal.type(f"{answer}\n")
        assert terminal.end() == (0 if gone else 1)
        assert admin.topic_exists(topic) is not gone


def test_a_terminal_gets_colours_and_a_pipe_does_not(pair: TwoBrokers, mqadmin: Mqadmin) -> None:
    terminal = Terminal("clusterList", "-n", pair.namesrv)
    assert terminal.end() == 0
    assert "\x1b[" in terminal.text
    assert "broker-b" in terminal.text
    plain = Terminal("clusterList", "-n", pair.namesrv, "--plain")
    assert plain.end() == 0
    assert "\x1b[" not in plain.text
    assert plain.text.startswith("#Cluster Name")


def test_a_watch_redraws_in_place_until_ctrl_c(pair: TwoBrokers) -> None:
    terminal = Terminal("clusterList", "-i", "0.1", "-n", pair.namesrv)
    terminal.wait_for("Ctrl-C ends it")
    wait_until(lambda: terminal._read(0.1) and terminal.text.count("Ctrl-C ends it") >= 3)
    assert "\x1b[1A" in terminal.text, "the cursor goes up again"
    terminal.interrupt()
    assert terminal.end() == 0


def test_a_dead_broker_is_named_and_nothing_of_it_is_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rocketeer import Message, Producer, PullConsumer, TopicConfig
    from support.two_brokers import two_brokers

    with two_brokers(tmp_path) as pair:
        mqadmin = Mqadmin(pair.namesrv, capsys)
        with Admin(pair.namesrv) as admin:
            admin.update_topic(TopicConfig("T", 1, 1), cluster="DefaultCluster")
        with Producer("PG", nameserver=pair.namesrv) as producer:
            for _ in range(6):
                producer.send(Message("T", b"x"))
        with PullConsumer("G", nameserver=pair.namesrv) as consumer:
            for queue in consumer.queues("T"):
                consumer.commit(queue, 0)
        assert mqadmin.json("consumerProgress", "-g", "G")["lag"] == 6
        pair.freeze_second()  # one that is gone is forgotten by the name server at once
        ran = mqadmin.run("clusterList", "--json", "--timeout", "1")
        assert ran.code == 1
        assert f"broker-b ({pair.second}) did not answer" in ran.err
        alive, dead = json.loads(ran.out)
        assert alive["version"] is not None
        assert {
            value for key, value in dead.items() if key not in ("cluster", "broker", "brokerId", "address")
        } == {None}
        ran = mqadmin.run("consumerProgress", "-g", "G", "--timeout", "1")
        assert ran.code == 1
        assert "Diff Total: - (not all brokers answered)" in ran.lines
        ran = mqadmin.run("consumerProgress", "-g", "G", "--json", "--timeout", "1")
        assert (json.loads(ran.out)["lag"], json.loads(ran.out)["tps"]) == (None, None)
        ran = mqadmin.run("statsAll", "-t", "T", "--json", "--timeout", "1")
        (row,) = json.loads(ran.out)
        assert (row["lag"], row["inTps"], ran.code) == (None, None, 1)
        found = mqadmin.run("startMonitoring", "--rounds", "1", "--timeout", "1").out
        assert f"broker-b ({pair.second}) did not answer" in found
        ran = mqadmin.run("deleteTopic", "-t", "T", "-c", "DefaultCluster", "--yes", "--timeout", "1")
        assert ran.code == 1
        assert "success" not in ran.out, "one broker still has it"


def test_a_watch_survives_a_name_server_that_is_silent_for_a_while(pair: TwoBrokers) -> None:
    words = ["clusterList", "-i", "0.2", "-n", pair.namesrv, "--timeout", "1", "--json"]
    process = subprocess.Popen([*MQADMIN, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    nameserver = pair.namesrv_process.pid
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert process.stdout.readline() == "[\n"
        os.kill(nameserver, signal.SIGSTOP)
        try:
            assert "clusterList did not answer" in process.stderr.readline()
        finally:
            os.kill(nameserver, signal.SIGCONT)
        for line in process.stdout:  # nothing was known for a round ...
            if line == "[]\n":
                break
        assert any("broker-a" in line for line in process.stdout), "... and then all again"
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
