"""RocketMQ's scripts by their own names: what they print, what they take, and whom mqshutdown ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rocketeer.cli.shutdown import Kind, kind_of, our_servers
from support.shell import Shell, listens, read_until, stop


@pytest.fixture
def bin_folder(shell: Shell) -> Path:
    """The programs as pip installs them."""
    folder = shell.home / "bin"
    folder.mkdir()
    for name in ("mqbroker", "mqnamesrv", "mqshutdown", "rocketeer"):
        function = "main" if name == "rocketeer" else name
        script = folder / name
        script.write_text(
            f"#!{sys.executable}\nimport sys\nfrom rocketeer.__main__ import {function}\nsys.exit({function}())\n"
        )
        script.chmod(0o755)
    return folder


class TestPrograms:
    @pytest.fixture(autouse=True)
    def _given(self, shell: Shell, bin_folder: Path, base_port: int) -> None:
        self.shell, self.bin, self.port = shell, bin_folder, base_port

    def start(self, name: str, *arguments: object) -> subprocess.Popen[str]:
        return self.shell.start_program(self.bin / name, *arguments)

    def run(self, name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        return self.shell.run_program(self.bin / name, *arguments)

    def test_started_as_the_documents_show_and_shut_down_by_mqshutdown(self) -> None:
        names = self.start("mqnamesrv", "--listenPort", self.port + 5, "bindAddress=127.0.0.1")
        assert "The Name Server boot success. serializeType=JSON\n" in read_until(names, "boot success")
        address = f"127.0.0.1:{self.port + 5}"
        broker = self.start(
            "mqbroker", "-n", address, "autoCreateTopicEnable=false", f"listenPort={self.port}",
            "bindAddress=127.0.0.1", "brokerIP1=127.0.0.1", "--brokerName", "broker-a",
            f"storePathRootDir={self.shell.home}/s", "mapedFileSizeCommitLog=1048576",
        )  # fmt: skip
        line = read_until(broker, "boot success").splitlines()[-1]
        assert line == (
            f"The broker[broker-a, 127.0.0.1:{self.port}] boot success. serializeType=JSON and name server is {address}"
        )
        config = self.shell.run(
            "admin", "getBrokerConfig", "-b", f"127.0.0.1:{self.port}", "-n", address
        ).stdout
        assert next(row for row in config.splitlines() if "autoCreateTopicEnable" in row).endswith("false")

        ours = {server.pid for server in our_servers(Kind.BROKER)}
        assert broker.pid in ours
        assert names.pid not in ours
        done = self.run("mqshutdown", "broker", broker.pid)
        assert done.stdout == (
            f"The mqbroker({broker.pid}) is running...\nSend shutdown request to mqbroker({broker.pid}) OK\n"
        )
        assert done.returncode == 0
        assert broker.wait(30) == 0
        assert not (self.shell.home / "s" / "abort").exists()
        wrong = self.run("mqshutdown", "broker", names.pid)
        assert f"process {names.pid} is no mqbroker of this user: left alone" in wrong.stderr
        assert listens(self.port + 5)
        assert self.run("mqshutdown", "namesrv", names.pid).returncode == 0
        assert names.wait(30) == 0

    def test_settings_and_help_are_printed_as_asked(self) -> None:
        every = self.run("mqbroker", "-p", "brokerName=x").stdout.splitlines()
        important = self.run("mqbroker", "-m", "brokerName=x").stdout.splitlines()
        assert "brokerName=x" in important
        assert set(important) < set(every)
        assert "sendMessageThreadPoolNums=2" in set(every) - set(important)
        assert "listenPort=9876" in self.run("mqnamesrv", "-p").stdout.splitlines()
        for name in ("mqbroker", "mqnamesrv", "mqshutdown"):
            assert f"Usage: {name}" in self.run(name, "-h").stdout

    def test_what_is_wrong_is_one_line_under_the_programs_name(self) -> None:
        done = self.run("mqbroker", "autoCreateTopicEnabl=true")
        assert done.returncode == 1
        assert done.stderr == (
            "mqbroker: command line: unknown key autoCreateTopicEnabl; did you mean autoCreateTopicEnable?\n"
        )

    def test_a_server_that_is_asked_twice_is_signalled_by_nobody_the_second_time(self) -> None:
        names = self.start("rocketeer", "namesrv", f"listenPort={self.port + 5}", "bindAddress=127.0.0.1")
        read_until(names, "listens on")
        stop(names)
        assert f"there is no process {names.pid}" in self.run("mqshutdown", "namesrv", names.pid).stderr


def test_only_command_lines_of_ours_are_servers_of_ours(bin_folder: Path) -> None:
    python = sys.executable
    stranger = bin_folder / "sub" / "mqbroker"
    stranger.parent.mkdir()
    stranger.write_text("#!/usr/bin/python3\nprint('another program of that name')\n")
    assert kind_of([python, f"{bin_folder}/mqbroker", "-n", "x:1"]) is Kind.BROKER
    assert kind_of([python, f"{bin_folder}/mqnamesrv"]) is Kind.NAMESRV
    assert kind_of([python, f"{bin_folder}/rocketeer", "broker"]) is Kind.BROKER
    assert kind_of([python, "-I", "-m", "rocketeer", "namesrv"]) is Kind.NAMESRV
    for words in (
        [],
        [python],
        [python, str(stranger)],
        [python, f"{bin_folder}/rocketeer", "up"],
        [python, f"{bin_folder}/mqshutdown", "broker"],
        [python, "-m", "rocketeer", "run", "broker"],
        [python, "-m", "pytest", "-m", "rocketeer", "broker"],
        [python, "-c", "import rocketeer", "broker"],
        ["java", "-cp", "x", "org.apache.rocketmq.broker.BrokerStartup"],
        ["vi", f"{bin_folder}/mqbroker"],
    ):
        assert kind_of(words) is None, words


def test_a_process_that_merely_looks_at_our_files_is_left_alone(shell: Shell, bin_folder: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "mqbroker"])
    try:
        done = shell.run_program(bin_folder / "mqshutdown", "broker", process.pid)
        assert "left alone" in done.stderr
        assert done.returncode == 1
        assert process.poll() is None
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
