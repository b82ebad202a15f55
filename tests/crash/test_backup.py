"""`rocketeer backup` of a broker under load, and `restore`: what was acknowledged before a backup is in it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rocketeer.bench.control import Control
from support.cluster import ServerCluster, running_cluster
from support.senders import Sender, assert_ledger_holds, read_topic, wait_for

SEED = int(os.environ.get("SEED", "1"))
TOPIC, QUEUES = "Plain", 4
CONF = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 500 * 20,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 5000,
    "flushConsumeQueueThoroughInterval": 300,
    "flushConsumerOffsetInterval": 100,
}


def rocketeer(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rocketeer", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def started(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rocketeer", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def load(cluster: ServerCluster) -> list[Sender]:
    senders = [
        Sender(cluster.broker, TOPIC, name=kind, window=4, kind=kind, queues=QUEUES, seed=SEED)
        for kind in ("plain", "batch")
    ]
    for sender in senders:
        sender.start()
    wait_for(lambda: all(len(sender.acked) > 200 for sender in senders), what="load", state=senders)
    return senders


def restored(folder: Path, backup: Path) -> Path:
    """The store that a backup gives; the audit has nothing against it."""
    done = rocketeer("restore", backup, folder / "store")
    assert done.returncode == 0, done.stderr
    audited = rocketeer("audit", folder / "store", "--quiet")
    assert audited.returncode == 0, audited.stdout
    return folder


def sync_times(store: Path) -> None:
    """A file that was just written is not known by its time: let those that are full be older."""
    for path in sorted((store / "commitlog").iterdir())[:-2]:
        os.utime(path, (path.stat().st_mtime - 60,) * 2)


@pytest.mark.timeout(240)
def test_what_was_acknowledged_before_a_backup_is_in_it(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    with running_cluster(tmp_path, conf=CONF) as cluster:
        with Control(cluster.broker) as broker:
            broker.create_topic(TOPIC, queues=QUEUES)
        senders = load(cluster)
        acked = [ack for sender in senders for ack in list(sender.acked)]
        first = rocketeer("backup", cluster.store, backup)
        assert first.returncode == 0, first.stderr

        # The next run is killed in the middle: the backup of before stays whole.
        killed = started("backup", cluster.store, backup)
        wait_for(
            lambda: any((backup / "contents").glob("*.tmp")) or killed.poll() is not None, what="copying"
        )
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        for sender in senders:
            sender.finish()
        assert rocketeer("restore", "--check", backup).returncode == 0
        with running_cluster(restored(tmp_path / "first", backup), conf=CONF) as again:
            queues = read_topic(again.broker, TOPIC, QUEUES)
        assert_ledger_holds(queues, sent=[body for sender in senders for body in sender.sent], acked=acked)

        sync_times(cluster.store)
        assert rocketeer("backup", cluster.store, backup).returncode == 0
        last = rocketeer("backup", cluster.store, backup)
        assert last.returncode == 0, last.stderr
        unchanged = int(last.stdout.split("unchanged ")[1].split(";")[0].replace(",", ""))
        segments = len(list((cluster.store / "commitlog").iterdir()))
        assert unchanged >= segments - 2 > 1, last.stdout
        restored(tmp_path / "last", backup)


def test_errors_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for words in (
        ("backup", tmp_path / "nowhere", tmp_path / "backup"),
        ("restore", tmp_path / "nowhere", tmp_path / "store"),
        ("restore", tmp_path / "nowhere"),
        ("restore", tmp_path / "full", tmp_path / "store"),
    ):
        done = rocketeer(*words)
        assert done.returncode == 1, words
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
