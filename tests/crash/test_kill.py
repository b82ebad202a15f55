"""kill -9 under load, again and again: nothing acknowledged is lost, nothing is invented, offsets are dense."""

import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from crash.store_writer import HOST, body_of, config
from rocketeer.clock import SystemClock
from rocketeer.errors import StoreLocked
from rocketeer.store.message_store import MessageStore, RecoveryReport
from support.stores import query, read_queue

WRITER = Path(__file__).with_name("store_writer.py")
START_S = 60


class Acknowledged(NamedTuple):
    life: int
    number: int
    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int


def run_and_kill(folder: Path, mode: str, life: int, after: str, seconds: float) -> list[Acknowledged]:
    """Let a writer live until `seconds` after it said `after`; what it had acknowledged by then."""
    process = subprocess.Popen(
        [sys.executable, str(WRITER), str(folder), mode, str(life)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    lines: list[bytes] = []
    said = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if line.strip() == after.encode():
                said.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert said.wait(START_S), "the writer never got so far"
        time.sleep(seconds)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        reader.join()
    words = [line.decode().split() for line in lines if line.endswith(b"\n")]
    return [
        Acknowledged(int(row[0]), int(row[1]), row[2], *map(int, row[3:])) for row in words if len(row) == 6
    ]


def reopen(folder: Path, mode: str) -> tuple[MessageStore, RecoveryReport]:
    store = MessageStore(config(folder, mode), clock=SystemClock(), store_host=HOST, post=lambda job: job())
    return store, store.open()


def check(folder: Path, mode: str, acknowledged: list[Acknowledged]) -> None:
    store, report = reopen(folder, mode)
    assert report.quarantined == ()
    found: dict[tuple[int, int], Acknowledged] = {}
    for topic, queue_id in store.queues():
        for expected, each in enumerate(read_queue(store, topic, queue_id)):
            assert each.queue_offset == expected, "dense"
            life, number = map(int, each.body.split(b":")[:2])
            assert each.body == body_of(life, number), "not invented"
            assert (life, number) not in found, "once"
            found[life, number] = Acknowledged(
                life, number, each.topic, each.queue_id, each.queue_offset, each.log_offset
            )
    lost = [each for each in acknowledged if found.get((each.life, each.number)) != each]
    assert lost == []
    for each in random.sample(acknowledged, min(100, len(acknowledged))):
        hits = query(store, each.topic, f"ID-{each.life}-{each.number}", 0, 1 << 62, 10).messages
        assert [hit.log_offset for hit in hits] == [each.log_offset]
    if random.random() < 0.5:
        store.close()
    else:  # as if this process died too: only the folder's lock is given back
        store.log.close()
        store._flusher.close()
        store._worker.close()
        store._lock.release()


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_nothing_acknowledged_is_lost(tmp_path: Path, mode: str) -> None:
    acknowledged: list[Acknowledged] = []
    for life in range(3):
        seconds = random.uniform(0.02, 0.4)
        acknowledged += run_and_kill(tmp_path / "store", mode, life, "open", seconds)
        check(tmp_path / "store", mode, acknowledged)
    assert acknowledged


def test_a_death_during_recovery_loses_nothing(tmp_path: Path) -> None:
    mode = "ASYNC_FLUSH"
    acknowledged = run_and_kill(tmp_path / "store", mode, 0, "open", 0.5)
    for life in range(1, 4):
        acknowledged += run_and_kill(tmp_path / "store", mode, life, "opening", random.uniform(0, 0.03))
    check(tmp_path / "store", mode, acknowledged)


def test_the_folder_is_locked_while_the_process_lives_and_free_when_it_is_dead(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    outcome: list[str] = []

    def look() -> None:
        store = MessageStore(config(folder, "ASYNC_FLUSH"), clock=SystemClock(), store_host=HOST, post=print)
        try:
            store.open()
            outcome.append("opened")
        except StoreLocked:
            outcome.append("locked")

    process = subprocess.Popen(
        [sys.executable, str(WRITER), str(folder), "ASYNC_FLUSH", "0"], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"opening\n"
        assert process.stdout.readline() == b"open\n"
        look()
    finally:
        process.kill()
        process.wait()
    assert outcome == ["locked"]
    store, report = reopen(folder, "ASYNC_FLUSH")
    assert report.after_crash
    store.close()
