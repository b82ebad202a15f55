"""Servers that run: the banner, a clean stop, the locked store, brokers in child processes."""

import os
import signal
import urllib.request
from pathlib import Path

import psutil
import pytest

from support.senders import wait_for
from support.shell import WAIT_S, Shell, listens, read_until, stop


@pytest.fixture
def up(base_port: int) -> tuple[object, ...]:
    return ("up", "--port", base_port, "--namesrv-port", base_port + 5, "--store", "s", "--no-console")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_up_says_where_it_is_and_stops_cleanly(
    shell: Shell, base_port: int, up: tuple[object, ...], how: signal.Signals
) -> None:
    process = shell.start(*up)
    banner = read_until(process, "Ctrl-C")
    assert f"name server  127.0.0.1:{base_port + 5}" in banner
    assert f"broker-a     127.0.0.1:{base_port}" in banner
    assert str(shell.home / "s") in banner
    assert "try next" in banner
    assert listens(base_port)
    assert listens(base_port - 2)
    assert listens(base_port + 5)
    code, _, err = stop(process, how)
    assert (code, err) == (0, "")
    assert not (shell.home / "s" / "abort").exists(), "a clean stop leaves no mark of a crash"
    assert sorted(path.name for path in shell.home.iterdir()) == ["s"], "nothing outside of the store"


def test_up_starts_again_on_the_same_store(shell: Shell, up: tuple[object, ...]) -> None:
    for _ in range(2):
        process = shell.start(*up)
        read_until(process, "Ctrl-C")
        assert stop(process)[0] == 0


def test_a_locked_store_is_refused_and_not_touched(
    shell: Shell, base_port: int, up: tuple[object, ...]
) -> None:
    first = shell.start(*up)
    read_until(first, "Ctrl-C")
    first.send_signal(signal.SIGSTOP)  # so that nobody but the second one could change anything
    before = names_and_sizes(shell.home)
    done = shell.run("up", "--port", base_port + 10, "--namesrv-port", base_port + 13, "--store", "s")
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert str(shell.home / "s") in done.stderr
    assert names_and_sizes(shell.home) == before
    first.send_signal(signal.SIGCONT)
    assert stop(first)[0] == 0


def test_a_second_ctrl_c_ends_it_at_once(shell: Shell, up: tuple[object, ...]) -> None:
    process = shell.start(*up)
    read_until(process, "Ctrl-C")
    process.send_signal(signal.SIGSTOP)  # both signals wait, then arrive together
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 130


def test_further_brokers_are_processes_that_end_with_the_parent(
    shell: Shell, base_port: int, up: tuple[object, ...]
) -> None:
    process = shell.start(*up, "--brokers", 2)
    banner = read_until(process, "Ctrl-C")
    assert f"broker-b     127.0.0.1:{base_port + 10}" in banner
    (child,) = psutil.Process(process.pid).children()
    assert listens(base_port + 10)
    assert listens(base_port + 8)
    assert stop(process) == (0, "", "")
    assert not child.is_running()
    assert (shell.home / "s" / "broker-b" / "commitlog").is_dir()
    assert not (shell.home / "s" / "broker-b" / "abort").exists()


def test_a_killed_parent_takes_its_children_along(
    shell: Shell, base_port: int, up: tuple[object, ...]
) -> None:
    process = shell.start(*up, "--brokers", 2)
    read_until(process, "Ctrl-C")
    (child,) = psutil.Process(process.pid).children()
    process.kill()
    process.wait()
    child.wait(timeout=WAIT_S)
    assert not listens(base_port + 10)


def test_a_child_that_crashes_is_reported_and_the_others_go_on(
    shell: Shell, base_port: int, up: tuple[object, ...]
) -> None:
    process = shell.start(*up, "--brokers", 2)
    read_until(process, "Ctrl-C")
    (child,) = psutil.Process(process.pid).children()
    os.kill(child.pid, signal.SIGKILL)
    assert process.stderr is not None
    line = next(line for line in process.stderr if "loop stalled" not in line)  # the machine may be busy
    assert f"broker-b at 127.0.0.1:{base_port + 10} ended (signal 9); the others go on" in line
    assert listens(base_port)
    assert stop(process)[0] == 0


def test_a_child_that_cannot_start_stops_the_others(shell: Shell, up: tuple[object, ...]) -> None:
    (shell.home / "s" / "broker-b").mkdir(parents=True)
    (shell.home / "s" / "broker-b" / "commitlog").write_text("a file where a folder should be")
    done = shell.run(*up, "--brokers", 2)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "broker-b" in done.stderr


def test_a_name_server_and_a_broker_run_apart(shell: Shell, base_port: int) -> None:
    namesrv_conf = shell.home / "namesrv.conf"
    namesrv_conf.write_text(f"listenPort={base_port + 5}\nbindAddress=127.0.0.1\n")
    broker_conf = shell.home / "broker.conf"
    broker_conf.write_text(
        f"brokerName=broker-x\nbrokerIP1=127.0.0.1\nlistenPort={base_port}\nbindAddress=127.0.0.1\n"
        f"storePathRootDir={shell.home}/s\nmappedFileSizeCommitLog=1048576\n"
    )
    namesrv = shell.start("namesrv", "-c", namesrv_conf, "--log-level", "warning")
    read_until(namesrv, f"name server listens on 127.0.0.1:{base_port + 5}")
    broker = shell.start(
        "broker", "-c", broker_conf, "-n", f"127.0.0.1:{base_port + 5}", "--log-level", "warning"
    )
    read_until(broker, f"broker broker-x listens on 127.0.0.1:{base_port}, store {shell.home}/s")
    assert stop(broker) == (0, "", "")
    assert stop(namesrv) == (0, "", "")


def test_a_broker_nobody_can_find_says_so(shell: Shell, base_port: int) -> None:
    conf = shell.home / "broker.conf"
    conf.write_text(f"listenPort={base_port}\nstorePathRootDir={shell.home}/s\nbrokerIP1=127.0.0.1\n")
    process = shell.start("broker", "-c", conf, "--log-level", "error")
    read_until(process, "listens on")
    code, _, err = stop(process)
    assert code == 0
    assert "no name server given" in err


def names_and_sizes(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in sorted(folder.rglob("*"))}


def test_up_shows_the_cluster_in_a_browser_and_the_console_ends_with_it(shell: Shell, base_port: int) -> None:
    port = base_port + 7
    process = shell.start(
        "up", "--port", base_port, "--namesrv-port", base_port + 5, "--store", "s", "--console-port", port
    )
    assert f"console      http://127.0.0.1:{port}/" in read_until(process, "Ctrl-C")
    wait_for(lambda: listens(port), what="the console")
    process.kill()  # it cannot even say goodbye
    process.wait(WAIT_S)
    wait_for(lambda: not listens(port), what="the console's end")


def test_up_serves_metrics_of_all_its_servers(shell: Shell, base_port: int, up: tuple[object, ...]) -> None:
    port = base_port + 3
    process = shell.start(*up, "--brokers", 2, "--metrics-port", port)
    read_until(process, "Ctrl-C")
    for number, node in ((port, "broker-a"), (port + 10, "broker-b"), (port + 1, "nameserver")):
        with urllib.request.urlopen(f"http://127.0.0.1:{number}/metrics", timeout=WAIT_S) as answer:
            assert f'"{node}"' in answer.read().decode()
    assert stop(process) == (0, "", "")
