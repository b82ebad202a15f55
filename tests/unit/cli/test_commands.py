"""What a person can get wrong: one line on stderr, exit code 1, nothing touched."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rocketeer import __version__
from rocketeer.cli import main
from support.shell import Shell


def refusal(shell: Shell, *arguments: object, **env: str) -> str:
    """The one line with which a command refuses to run."""
    done = shell.run(*arguments, **env)
    assert done.returncode == 1, done
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("rocketeer: ")
    return lines[0]


def test_the_version_names_the_reference(shell: Shell) -> None:
    assert shell.run("--version").stdout == f"rocketeer {__version__} (compatible with RocketMQ 4.9.8)\n"


def test_groups_of_commands_are_there_once_however_often_the_program_ran_in_this_process() -> None:
    for _ in range(3):
        main._add_groups("group")
    assert sorted(str(each.name) for each in main.app.registered_groups) == sorted(main._GROUPS)


def test_a_command_is_loaded_without_the_clients() -> None:
    """Every server and every child of `up` is started by a command: what it does not need makes each start slower."""
    code = "import sys, rocketeer.cli.main; print('rocketeer.client.app' in sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout == "False\n"


def test_help_lists_the_commands(shell: Shell) -> None:
    text = shell.run("--help").stdout
    for command in ("up", "namesrv", "broker"):
        assert f" {command} " in text
    assert "broker-child" not in text


@pytest.mark.parametrize("taken", [0, -2], ids=["listen port", "second port"])
def test_up_with_a_port_in_use_makes_no_store(shell: Shell, base_port: int, taken: int) -> None:
    with socket.create_server(("127.0.0.1", base_port + taken)):
        line = refusal(shell, "up", "--port", base_port, "--namesrv-port", base_port + 5, "--store", "s")
    assert f"port {base_port + taken} on 127.0.0.1" in line
    assert "already in use" in line
    assert list(shell.home.iterdir()) == []


def test_up_with_the_name_servers_port_in_use_makes_no_store(shell: Shell, base_port: int) -> None:
    with socket.create_server(("127.0.0.1", base_port + 5)):
        line = refusal(shell, "up", "--port", base_port, "--namesrv-port", base_port + 5)
    assert "name server" in line
    assert list(shell.home.iterdir()) == []


def test_up_with_a_second_brokers_port_in_use_starts_none(shell: Shell, base_port: int) -> None:
    with socket.create_server(("127.0.0.1", base_port + 10)):
        line = refusal(
            shell, "up", "--brokers", 2, "--port", base_port, "--namesrv-port", base_port + 5, "--store", "s"
        )
    assert f"port {base_port + 10}" in line
    assert "broker-b" in line
    assert list(shell.home.iterdir()) == []


def test_a_broker_with_its_port_in_use_makes_no_store(shell: Shell, base_port: int) -> None:
    conf = shell.home / "broker.conf"
    conf.write_text(f"listenPort={base_port}\nbindAddress=127.0.0.1\nstorePathRootDir={shell.home}/s\n")
    with socket.create_server(("127.0.0.1", base_port)):
        line = refusal(shell, "broker", "-c", conf, "-n", "127.0.0.1:9")
    assert f"port {base_port}" in line
    assert list(shell.home.iterdir()) == [conf]


@pytest.mark.parametrize("command", ["broker", "namesrv"])
def test_a_missing_or_unreadable_file_is_named(shell: Shell, command: str) -> None:
    assert "cannot read missing.conf: No such file" in refusal(shell, command, "-c", "missing.conf")
    assert "Is a directory" in refusal(shell, command, "-c", shell.home)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(shell: Shell) -> None:
    conf = shell.home / "broker.conf"
    conf.touch(mode=0)
    assert "Permission denied" in refusal(shell, "broker", "-c", conf)


def test_a_bad_value_names_key_value_and_line(shell: Shell) -> None:
    conf = shell.home / "broker.conf"
    conf.write_text("brokerName=a\nflushDiskType=SOMETIMES\n")
    line = refusal(shell, "broker", "-c", conf)
    assert "line 2: flushDiskType=SOMETIMES: expected ASYNC_FLUSH or SYNC_FLUSH" in line


def test_bad_addresses_are_refused_wherever_they_come_from(shell: Shell) -> None:
    assert "-n: 'nowhere' is not host:port" in refusal(shell, "broker", "-p", "-n", "nowhere")
    assert "NAMESRV_ADDR" in refusal(shell, "broker", "-p", NAMESRV_ADDR="nowhere")


def test_an_unknown_host_is_refused(shell: Shell) -> None:
    assert "has no address here" in refusal(shell, "up", "--host", "no-such-host.invalid")


def test_a_store_that_is_a_file_is_refused(shell: Shell, base_port: int) -> None:
    (shell.home / "s").write_text("mine")
    line = refusal(shell, "up", "--port", base_port, "--namesrv-port", base_port + 5, "--store", "s")
    assert str(shell.home / "s") in line
    assert (shell.home / "s").read_text() == "mine"


def test_print_config_shows_every_key_and_starts_nothing(shell: Shell) -> None:
    conf = shell.home / "broker.conf"
    conf.write_text("brokerName=broker-x\nbrokerNme=typo\n")
    done = shell.run("broker", "-c", conf, "-n", "10.0.0.1:9876;10.0.0.2:9876", "-p")
    assert done.returncode == 0
    table = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert table["brokerName"] == "broker-x"
    assert table["namesrvAddr"] == "10.0.0.1:9876;10.0.0.2:9876"
    assert table["storePathRootDir"] == str(shell.home / "store")
    assert table["listenPort"] == "10911"
    assert len(table) > 150
    assert done.stderr.count("\n") == 1
    assert "unknown key brokerNme is ignored; did you mean brokerName?" in done.stderr
    assert list(shell.home.iterdir()) == [conf]


def test_print_config_of_a_name_server(shell: Shell) -> None:
    table = dict(line.split("=", 1) for line in shell.run("namesrv", "-p").stdout.splitlines())
    assert table["listenPort"] == "9876"
    assert table["kvConfigPath"] == str(Path(shell.home) / "namesrv" / "kvConfig.json")
