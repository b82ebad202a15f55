"""Broken settings, signals at the wrong moment, stores that cannot be used: one clear line, and nothing is lost."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer.bench.control import Control
from rocketeer.bench.processes import ServerProcess, anonymous_bytes
from rocketeer.config.ports import free_ports
from rocketeer.protocol.codes import RequestCode
from support.cluster import ServerCluster, restart_broker, running_cluster
from support.senders import Acked, Sender, assert_ledger_holds, read_topic, send_header, wait_for
from support.volumes import small_volume

WAIT_S = 60
TOPIC = "Rough"
IDLE_BYTES_MAX = 150 << 20


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path, conf={"mappedFileSizeCommitLog": 1 << 20}) as running:
        with Control(running.broker) as broker:
            broker.create_topic(TOPIC, queues=4)
        yield running


def try_to_start(folder: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    """A broker with these lines in its configuration, which is expected to end by itself."""
    conf = folder / "rough.conf"
    _, port = free_ports()
    first = (f"listenPort={port}", f"storePathRootDir={folder / 'new-store'}", "brokerIP1=127.0.0.1")
    conf.write_text("\n".join([*first, *lines]) + "\n")
    env = {**os.environ, "HOME": str(folder)}
    env.pop("NAMESRV_ADDR", None)
    command = [sys.executable, "-m", "rocketeer", "broker", "-c", str(conf), "-n", "127.0.0.1:9"]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=WAIT_S)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("mappedFileSizeCommitLog=many", "mappedFileSizeCommitLog"),
        ("mappedFileSizeCommitLog=-1", "mappedFileSizeCommitLog"),
        ("maxHashSlotNum=0", "maxHashSlotNum"),
        ("messageDelayLevel=soon", "messageDelayLevel"),
        ("messageDelayLevel=99999999999999999999h", "messageDelayLevel"),
        ("listenPort=70000", "listenPort"),
        ("brokerIP1=nonsense..host", "nonsense..host"),
        ("brokerIP1=" + "x" * 300, "host"),
        ("bindAddress=nonsense..host", "nonsense..host"),
        ("brokerRole=KING", "brokerRole"),
        ("storePathCommitLog={afile}", "{afile}"),
        ("storePathCommitLog={afile}/below", "{afile}"),
        ("storePathRootDir={afile}", "{afile}"),
        ("storePathRootDir=/proc/nothing/here", "/proc"),
        ("key=\\uZZZZ", "line 4"),
    ],
)
def test_a_setting_that_cannot_be_used_is_one_line_and_nothing_is_made(
    tmp_path: Path, line: str, word: str
) -> None:
    afile = tmp_path / "afile"
    afile.write_text("I am a file")
    done = try_to_start(tmp_path, line.format(afile=afile))
    errors = [text for text in done.stderr.splitlines() if "warning" not in text]
    assert done.returncode == 1, done.stderr
    assert len(errors) == 1, done.stderr
    assert word.format(afile=afile) in errors[0]
    assert not (tmp_path / "new-store").exists(), "nothing was touched"
    assert afile.read_text() == "I am a file"


def test_a_store_on_a_read_only_file_system_is_refused(tmp_path: Path) -> None:
    with small_volume(tmp_path / "volume", megabytes=8) as volume:
        (volume / "store").mkdir()
        subprocess.run(["mount", "-o", "remount,ro", str(volume)], check=True, timeout=WAIT_S)
        done = try_to_start(tmp_path, f"storePathRootDir={volume / 'store'}")
    errors = [text for text in done.stderr.splitlines() if "warning" not in text]
    assert done.returncode == 1
    assert len(errors) == 1, done.stderr
    assert str(volume) in errors[0]


def test_a_second_broker_on_the_same_store_is_refused(cluster: ServerCluster, tmp_path: Path) -> None:
    """By another name of the same folder, too."""
    (tmp_path / "link").symlink_to(cluster.store)
    for path in (cluster.store, tmp_path / "link"):
        done = try_to_start(tmp_path, f"storePathRootDir={path}", "mappedFileSizeCommitLog=1048576")
        errors = [text for text in done.stderr.splitlines() if "warning" not in text]
        assert done.returncode == 1
        assert "in use by another broker" in errors[-1], done.stderr
    with Control(cluster.broker) as broker:
        broker.ask(RequestCode.SEND_MESSAGE_V2, send_header(TOPIC, 0, ""), b"still here ")
    restart_broker(cluster, kill=True)
    assert read_topic(cluster.broker, TOPIC)[0][0].body == b"still here "


def loaded(cluster: ServerCluster, count: int) -> tuple[set[bytes], list[Acked]]:
    sender = Sender(cluster.broker, TOPIC, name="load", window=64, body_bytes_max=500)
    sender.start()
    wait_for(lambda: len(sender.sent) > count, what="load", state=sender)
    sender.finish()
    return set(sender.sent), sender.acked


@pytest.mark.timeout(300)
def test_signals_during_start_and_recovery_lose_nothing(cluster: ServerCluster) -> None:
    """SIGTERM or SIGKILL at any moment of a start that has much to recover; the next start finds everything."""
    sent, acked = loaded(cluster, 8000)
    cluster.kill_broker()
    command = cluster.broker_process.command
    dice = random.Random(int(os.environ.get("SEED", "5")))
    for number in range(10):
        # Without derived files there is something to do.
        shutil.rmtree(cluster.store / "consumequeue", ignore_errors=True)
        (cluster.store / "checkpoint").unlink(missing_ok=True)
        process = ServerProcess(command, log=cluster.folder / "interrupted.out")
        time.sleep(dice.random() * 1.5)
        if number % 3 == 2:
            process.kill()
        else:
            os.kill(process.pid, signal.SIGTERM)
            wait_for(lambda process=process: not process.running, what="it ends")  # type: ignore[misc]
            assert process.exit_code in (0, -signal.SIGTERM)
    cluster.start_broker()
    assert_ledger_holds(read_topic(cluster.broker, TOPIC), sent=sent, acked=acked)
    assert "Traceback" not in (cluster.folder / "interrupted.out").read_text()


def test_sigterm_under_load_is_a_clean_stop(cluster: ServerCluster) -> None:
    senders = [Sender(cluster.broker, TOPIC, name=f"load-{number}", window=64) for number in range(4)]
    for sender in senders:
        sender.start()
    wait_for(lambda: all(len(sender.acked) > 200 for sender in senders), what="load", state=senders)
    assert cluster.stop_broker() == 0
    assert not (cluster.store / "abort").exists()
    for sender in senders:
        sender.join(WAIT_S)
    cluster.start_broker()
    assert_ledger_holds(
        read_topic(cluster.broker, TOPIC),
        sent={body for sender in senders for body in sender.sent},
        acked=[ack for sender in senders for ack in sender.acked],
    )
    log = cluster.broker_process.log.read_text()
    assert "Traceback" not in log
    assert "clean=False" not in log


def test_an_idle_broker_is_small(tmp_path: Path) -> None:
    """With RocketMQ's own file sizes, before and after some messages: log files are page cache."""
    with ServerCluster("ours", tmp_path) as cluster:
        idle = anonymous_bytes(cluster.broker_process.pid)
        loaded(cluster, 5000)
        used = anonymous_bytes(cluster.broker_process.pid)
    assert idle < IDLE_BYTES_MAX, f"{idle >> 20} MB"
    assert used < IDLE_BYTES_MAX + (50 << 20), f"{used >> 20} MB"
