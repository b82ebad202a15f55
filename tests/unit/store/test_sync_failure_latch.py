"""A sync that failed once ends the store's trust in its disk; nothing is noted ahead of the log that it speaks of."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketeer.config import FlushMode
from rocketeer.errors import StoreError, StoreRefused
from rocketeer.store import file_cache as file_cache_module
from rocketeer.store import segment as segment_module
from rocketeer.store.checkpoint import read_checkpoint
from rocketeer.store.kernel import SyncFailed, sync_fd, sync_range
from rocketeer.store.message_store import MessageStore
from support.clock import ManualClock
from support.stores import bodies, checkpoint_now, kill, make_store, message, open_store
from support.stuck_disk import StuckDisk

EIO = SyncFailed(errno.EIO, os.strerror(errno.EIO))


def until(holds: Callable[[], bool], store: MessageStore) -> None:
    deadline_s = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline_s
        store.tick()
        time.sleep(0.002)


def test_no_checkpoint_speaks_of_log_that_is_not_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = StuckDisk(monkeypatch)
    clock = ManualClock()
    store = make_store(tmp_path / "store", clock, flush_interval_ms=1)
    store.open()
    disk.stuck = True
    for number in range(50):
        store.append(message(b"%d" % number, keys=f"k{number}"))
    clock.advance(ms=store.config.flush_queue_thorough_ms)
    for _ in range(100):
        store.tick()
        time.sleep(0.002)
    noted = read_checkpoint(tmp_path / "store" / "checkpoint")
    assert store.flushed_log_offset < store.max_log_offset
    assert noted.dispatched_offset is not None
    assert max(noted.dispatched_offset, noted.index_offset or 0) <= store.flushed_log_offset
    disk.stuck = False
    checkpoint_now(store, clock)
    store.close()


def test_after_a_power_failure_on_a_slow_disk_no_queue_points_at_zeros(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = StuckDisk(monkeypatch)
    clock = ManualClock()
    store = make_store(tmp_path / "store", clock, flush_interval_ms=1)
    store.open()
    for number in range(20):
        store.append(message(b"%d" % number))
    until(lambda: store.flushed_log_offset == store.max_log_offset, store)
    flushed = store.flushed_log_offset
    disk.stuck = True
    for number in range(20, 40):
        store.append(message(b"%d" % number))
    clock.advance(ms=store.config.flush_queue_thorough_ms)
    for _ in range(100):
        store.tick()
        time.sleep(0.002)
    copy = kill(store, tmp_path / "copy")
    with (copy / "commitlog" / f"{0:020d}").open("r+b") as file:  # what was not synced is gone
        file.truncate(flushed)
        file.truncate(store.config.segment_bytes)
    disk.stuck = False
    store.close()
    store, _ = open_store(copy)
    assert bodies(store) == [b"%d" % number for number in range(20)]
    store.close()


def lost(store: MessageStore, folder: Path, noted: bytes) -> None:
    """What holds once a sync has failed."""
    with pytest.raises(StoreRefused, match="did not take"):
        store.append(message(b"one more"))
    flushed = store.flushed_log_offset
    answers: list[bool] = []
    store.when_durable(store.max_log_offset + 1, answers.append)
    assert answers == [False]
    store.close()
    assert store.flushed_log_offset == flushed
    assert (folder / "abort").exists(), "the next start must not take it for a clean stop"
    assert (folder / "checkpoint").read_bytes()[:128] == noted[:128]


def test_a_failed_sync_of_a_queue_is_not_made_good_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    folder = tmp_path / "store"
    store = make_store(folder, clock, flush_interval_ms=1)
    store.open()
    noted = (folder / "checkpoint").read_bytes()
    failures = []

    def failing(fd: int) -> None:
        if not failures and "consumequeue" in os.readlink(f"/proc/self/fd/{fd}"):
            failures.append(fd)
            raise EIO
        sync_fd(fd)

    monkeypatch.setattr(file_cache_module, "sync_fd", failing)
    store.append(message(b"x"))
    clock.advance(ms=store.config.flush_queue_thorough_ms)
    until(lambda: store.refusal is not None, store)
    for _ in range(3):
        clock.advance(ms=store.config.flush_queue_thorough_ms)
        store.tick()
    lost(store, folder, noted)


def test_a_report_that_the_preparer_gets_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "store"
    failing = []

    def sync(address: int, start: int, end: int) -> None:
        if failing:
            raise SyncFailed(errno.EIO, failing.pop())
        sync_range(address, start, end)

    monkeypatch.setattr(segment_module, "sync_range", sync)
    # Nobody asks for the log to be flushed: only the preparer, which puts the zeros ahead on disk, syncs.
    store = make_store(
        folder, flush_mode=FlushMode.SYNC_FLUSH, flush_interval_ms=3_600_000, segment_bytes=1 << 20
    )
    store.open()
    noted = (folder / "checkpoint").read_bytes()
    failing.append("once")
    store.append(message(b"x"))
    until(lambda: store.refusal is not None, store)
    assert not failing
    lost(store, folder, noted)


def test_closing_after_a_failed_sync_is_no_clean_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "store"
    store = make_store(folder, flush_interval_ms=3_600_000)
    store.open()
    noted = (folder / "checkpoint").read_bytes()
    store.append(message(b"x"))

    def sync(address: int, start: int, end: int) -> None:
        raise EIO

    with monkeypatch.context() as patch:
        patch.setattr(segment_module, "sync_range", sync)
        store.when_durable(store.max_log_offset, lambda ok: None)
        until(lambda: store.refusal is not None, store)
    lost(store, folder, noted)
    store, report = open_store(folder)
    assert not report.clean
    assert bodies(store) == [b"x"]
    store.close()


def test_a_sync_that_fails_while_the_store_opens_is_an_error_of_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = open_store(tmp_path / "store")
    store.append(message(b"x"))
    folder = kill(store, tmp_path / "copy")
    store.close()

    def sync(address: int, start: int, end: int) -> None:
        raise EIO

    with monkeypatch.context() as patch:
        patch.setattr(segment_module, "sync_range", sync)
        with pytest.raises(StoreError, match="does not take"):
            open_store(folder)
    assert (folder / "abort").exists()
    store, _ = open_store(folder)
    assert bodies(store) == [b"x"]
    store.close()
