"""RocketMQ's scripts by their own names: what they print, what they take, and whom mqshutdown ends."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rocketeer.cli.java_options import without_java, words_of_variables
from rocketeer.cli.shutdown import ServerKind, kind_of, our_servers
from rocketeer.errors import ConfigError
from support.shell import Shell, listens, read_until, stop

ROOT = Path(__file__).parents[3]


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

        ours = {server.pid for server in our_servers(ServerKind.BROKER)}
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

    def test_nohup_sh_bin_mqbroker_in_a_checkout_runs_and_outlives_its_terminal(self) -> None:
        checkout = self.shell.home / "checkout"
        shutil.copytree(ROOT / "bin", checkout / "bin")
        (checkout / "tools").mkdir()
        shutil.copy(ROOT / "tools" / "in_venv.sh", checkout / "tools")
        alone = self.shell.run_program("sh", checkout / "bin" / "mqbroker", "-h")
        assert alone.stderr == f"mqbroker: there is no environment in {checkout} yet: run make setup there\n"
        assert alone.returncode == 1
        (checkout / ".venv").mkdir()
        self.bin.rename(checkout / ".venv" / "bin")
        names = self.shell.start_program(
            "nohup",
            "sh",
            checkout / "bin" / "mqnamesrv",
            f"listenPort={self.port + 5}",
            "bindAddress=127.0.0.1",
        )
        read_until(names, "The Name Server boot success")
        names.send_signal(signal.SIGHUP)  # the terminal is closed
        done = self.shell.run_program("sh", checkout / "bin" / "mqshutdown", "namesrv", names.pid)
        assert "Send shutdown request to mqnamesrv" in done.stdout
        assert done.returncode == 0
        assert names.wait(30) == 0
        config = self.shell.home / "conf" / "broker.conf"
        config.parent.mkdir()
        config.write_text("brokerName=from-file\n")
        printed = self.shell.run_program("sh", checkout / "bin" / "mqbroker", "-c", "conf/broker.conf", "-m")
        assert "brokerName=from-file" in printed.stdout.splitlines()

    def test_system_properties_of_java_count_where_rocketmq_reads_them(self) -> None:
        said = self.run(
            "mqbroker", "-Drocketmq.namesrv.addr=10.0.0.1:9876", "-Drocketmq.home.dir=/opt/mq",
            "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.80", "-Dtls.server.mode=disabled", "-p",
        ).stdout.splitlines()  # fmt: skip
        assert {
            "namesrvAddr=10.0.0.1:9876", "rocketmqHome=/opt/mq", "diskSpaceWarningLevelRatio=80",
            "tls.server.mode=disabled",
        } <= set(said)  # fmt: skip
        file = self.shell.home / "broker.conf"
        file.write_text("namesrvAddr=10.0.0.2:9876\n")
        done = self.shell.run_program(
            self.bin / "mqbroker", "-c", file, "-m",
            JAVA_OPT="-server -Xmx4g -Dmy.password=x -Drocketmq.namesrv.addr=10.0.0.1:9876 -Dtls.server.mode=enforcing",
        )  # fmt: skip
        assert "namesrvAddr=10.0.0.2:9876" in done.stdout.splitlines(), (
            "as in RocketMQ, the file goes before it"
        )
        assert done.stderr == (
            "mqbroker: JAVA_OPT is set, but there is no Java here: -server -Xmx4g -Dmy.password has no effect\n"
        )
        assert (
            "listenPort=9876" in self.run("rocketeer", "namesrv", "-Dtls.server.mode=disabled", "-p").stdout
        )

    @pytest.mark.parametrize(
        ("program", "words", "complaint"),
        [
            ("mqbroker", ["-Xmx4g"], "-Xmx4g is an option of Java, and there is none here: leave it out"),
            ("mqnamesrv", ["-Dsecret=x"], "-Dsecret is an option of Java"),
            ("mqbroker", ["-listenPort", "9"], "'-listenPort' is no setting; write key=value or --key value"),
            ("rocketeer", ["broker", "-server"], "-server is an option of Java"),
        ],
    )
    def test_options_of_java_are_refused_by_name(
        self, program: str, words: list[str], complaint: str
    ) -> None:
        done = self.run(program, *words)
        assert done.returncode == 1
        assert done.stderr.startswith(f"{program}: command line: {complaint}")
        assert done.stderr.count("\n") == 1
        assert done.stdout == ""

    def test_settings_and_help_are_printed_as_asked(self) -> None:
        every = self.run("mqbroker", "-p", "brokerName=x").stdout.splitlines()
        important = self.run("mqbroker", "-m", "brokerName=x").stdout.splitlines()
        assert "brokerName=x" in important
        assert set(important) < set(every)
        assert "sendMessageThreadPoolNums=2" in set(every) - set(important)
        assert "listenPort=9876" in self.run("mqnamesrv", "-p").stdout.splitlines()
        ours = self.run(
            "rocketeer",
            "broker",
            "-p",
            "brokerName=x",
            "--listenPort",
            20911,
            "mapedFileSizeCommitLog=1048576",
        )
        assert {"brokerName=x", "listenPort=20911", "mappedFileSizeCommitLog=1048576"} <= set(
            ours.stdout.splitlines()
        )
        assert "mapedFileSizeCommitLog is an old name of mappedFileSizeCommitLog" in ours.stderr
        for name in ("mqbroker", "mqnamesrv", "mqshutdown"):
            assert f"Usage: {name}" in self.run(name, "-h").stdout

    def test_what_is_wrong_is_one_line_under_the_programs_name(self) -> None:
        done = self.run("mqbroker", "autoCreateTopicEnabl=true")
        assert done.returncode == 1
        assert done.stderr == (
            "mqbroker: command line: unknown key autoCreateTopicEnabl; did you mean autoCreateTopicEnable?\n"
        )

    def test_mqshutdown_alone_stops_all_of_a_kind_and_says_when_there_is_none(self) -> None:
        """In a list of processes of its own: without numbers it stops every server of this user."""
        apart = ["unshare", "--fork", "--pid", "--mount-proc"]
        if os.geteuid() != 0:
            apart += ["--user", "--map-root-user"]
        if shutil.which("unshare") is None or self.shell.run_program(*apart, "true").returncode != 0:
            pytest.skip("needs a process namespace, which this machine does not give")
        script = f"""
            "{self.bin}/mqnamesrv" listenPort={self.port + 5} bindAddress=127.0.0.1 >said 2>&1 &
            server=$!
            while ! grep -q "boot success" said; do kill -0 $server || exit 9; sleep 0.1; done
            "{self.bin}/mqshutdown" broker; echo "brokers: $?"
            "{self.bin}/mqshutdown" namesrv >asked; echo "name servers: $?"
            wait $server; echo "ended: $?"
            "{self.bin}/mqshutdown" namesrv; echo "again: $?"
        """
        done = self.shell.run_program(*apart, "sh", "-c", script)
        assert done.stdout == (
            "No mqbroker running.\nbrokers: 1\nname servers: 0\nended: 0\nNo mqnamesrv running.\nagain: 1\n"
        ), done.stderr
        assert "Send shutdown request to mqnamesrv(" in (self.shell.home / "asked").read_text()

    def test_a_server_that_is_asked_twice_is_signalled_by_nobody_the_second_time(self) -> None:
        names = self.start("rocketeer", "namesrv", f"listenPort={self.port + 5}", "bindAddress=127.0.0.1")
        read_until(names, "listens on")
        stop(names)
        assert f"there is no process {names.pid}" in self.run("mqshutdown", "namesrv", names.pid).stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["-Dtls.server.mode"], "-Dtls.server.mode has no value"),
        (
            ["-Drocketmq.broker.diskSpaceCleanForciblyRatio=much"],
            "-Drocketmq.broker.diskSpaceCleanForciblyRatio: 'much' is no number",
        ),
    ],
)
def test_a_system_property_that_cannot_be_used_says_why(words: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        without_java(words, {})


def test_other_words_are_left_as_they_are() -> None:
    words = ["-n", "a:1", "-c", "-pm", "-nlocalhost:9876", "--listenPort", "9", "brokerName=-D", "-p"]
    environment: dict[str, str] = {}
    assert without_java(words, environment) == words
    assert environment == {}
    with pytest.raises(ConfigError, match="environment variable JAVA_OPT_EXT: No closing quotation"):
        words_of_variables({"JAVA_OPT_EXT": "'"}, "mqbroker")


def test_only_command_lines_of_ours_are_servers_of_ours(bin_folder: Path) -> None:
    python = sys.executable
    stranger = bin_folder / "sub" / "mqbroker"
    stranger.parent.mkdir()
    stranger.write_text("#!/usr/bin/python3\nprint('another program of that name')\n")
    assert kind_of([python, f"{bin_folder}/mqbroker", "-n", "x:1"]) is ServerKind.BROKER
    assert kind_of([python, f"{bin_folder}/mqnamesrv"]) is ServerKind.NAMESRV
    assert kind_of([python, f"{bin_folder}/rocketeer", "broker"]) is ServerKind.BROKER
    assert kind_of([python, "-I", "-m", "rocketeer", "namesrv"]) is ServerKind.NAMESRV
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
