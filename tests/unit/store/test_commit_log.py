"""The log's files: made ahead, made in time when the thread lags, and never written where the disk has no room."""

import errno
import os
import resource
import threading
from pathlib import Path

import pytest

from rocketeer.errors import StoreError, StoreLocked, StoreRefused
from rocketeer.store import commit_log as commit_log_module
from rocketeer.store import segment, segment_preparer
from rocketeer.store.kernel import address_of, data_ranges, populate
from rocketeer.store.message_store import GetStatus, MessageStore
from rocketeer.store.segment import Segment
from support.stores import SEGMENT_BYTES, append_batch, bodies, make_store, message, open_store

WAIT_S = 30


def wait_until(holds) -> None:  # type: ignore[no-untyped-def]
    for _ in range(WAIT_S * 200):
        if holds():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it never came true")


def test_the_next_file_is_there_before_it_is_needed(tmp_path: Path) -> None:
    store, _ = open_store(tmp_path)
    store.append(message(b"x" * 10_000))
    following = tmp_path / "commitlog" / f"{SEGMENT_BYTES:020d}"
    wait_until(lambda: following.exists() and following.stat().st_size == SEGMENT_BYTES)
    store.close()
    assert not following.exists(), "not left behind when nothing was written to it"


def test_a_thread_that_lags_costs_nothing_but_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_preparer.Preparer, "start", lambda self: None)
    store, _ = open_store(tmp_path)
    for number in range(60):
        store.append(message(b"%d" % number * 4000))
    assert len(store.log.segments) > 3
    assert len(bodies(store)) == 60
    store.close()


def test_blocks_are_allocated_before_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_preparer, "AHEAD_BYTES", 1 << 20)
    monkeypatch.setattr(commit_log_module, "AHEAD_BYTES", 1 << 20)
    store, _ = open_store(tmp_path, segment_bytes=8 << 20, message_bytes_max=1 << 20)
    for _ in range(40):
        store.append(message(b"x" * 100_000))
        assert store.log.max_offset <= store.log.segments[-1].base + store.log.segments[-1].reserved
    path = store.log.segments[0].path
    wait_until(lambda: path.stat().st_blocks * 512 >= store.log.max_offset + (1 << 19))
    assert path.stat().st_size == 8 << 20
    store.close()


class FullDisk:
    """posix_fallocate as a full disk answers it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        real = os.posix_fallocate

        def allocate(fd: int, offset: int, size: int) -> None:
            if self.full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(fd, offset, size)

        monkeypatch.setattr(segment.os, "posix_fallocate", allocate)


def refusal_of(store: MessageStore) -> StoreRefused | None:
    try:
        store.append(message(b"x" * 5000))
    except StoreRefused as refusal:
        return refusal
    return None


def test_a_full_disk_refuses_messages_and_recovers_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(monkeypatch)
    store, _ = open_store(tmp_path, message_index_enable=False)
    stored = 0
    disk.full = True
    while (refusal := refusal_of(store)) is None:
        stored += 1
    assert refusal.reason == StoreRefused.DISK_FULL
    end = store.log.max_offset
    for _ in range(3):
        with pytest.raises(StoreRefused):
            append_batch(store, [message(b"x" * 5000)] * 2)
    assert store.log.max_offset == end
    assert stored == 0 or store.get("TopicTest", 0, 0, 1).status is GetStatus.FOUND
    disk.full = False
    for _ in range(40):
        store.append(message(b"y" * 5000))
    assert bodies(store) == [b"x" * 5000] * stored + [b"y" * 5000] * 40
    store.close()
    store, report = open_store(tmp_path, message_index_enable=False)
    assert report.actions == ()
    assert len(bodies(store)) == stored + 40
    store.close()


def test_few_files_are_mapped_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_log_module, "MAPPED_MAX", 4)
    open_before = len(os.listdir("/proc/self/fd"))
    store, _ = open_store(tmp_path, segment_bytes=8192, message_bytes_max=6000)
    for number in range(100):
        store.append(message(b"%04d" % number * 500))
    assert len(store.log.segments) > 30
    for _ in range(2):
        assert [int(body[:4]) for body in bodies(store)] == list(range(100))
    mapped = [each for each in store.log.segments if each.map is not None]
    assert len(mapped) <= 6
    assert len(os.listdir("/proc/self/fd")) - open_before < 40
    store.close()


def test_a_store_of_many_files_and_queues_lives_under_a_low_limit_of_descriptors(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 500, hard))
    try:
        store, _ = open_store(tmp_path, segment_bytes=4096, message_bytes_max=2000)
        for number in range(700):
            store.append(message(b"x" * 1500, f"T{number}", 0))
        assert len(store.log.segments) > 300
        for number in range(700):
            assert store.get(f"T{number}", 0, 0, 1).count == 1
        store.close()
        store, report = open_store(tmp_path, segment_bytes=4096, message_bytes_max=2000)
        assert report.actions == ()
        assert len(store.queues()) == 700
        for number in range(700):
            assert bodies(store, f"T{number}") == [b"x" * 1500]
        store.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_pages_can_be_populated_and_holes_are_seen(tmp_path: Path) -> None:
    made = Segment.create(tmp_path, 0, 1 << 20)
    made.reserve(1 << 16)
    made.populate(0, 1 << 16)
    assert made.map is not None
    populate(address_of(made.map), 0, 4096)
    view = made.map_in()
    view[70_000:70_004] = b"data"
    made.sync(0, 1 << 20)
    ranges = data_ranges(os.open(made.path, os.O_RDONLY), 0, 1 << 20)
    assert any(low <= 70_000 < high for low, high in ranges)
    assert made.used_until(0) == 70_004
    assert made.zero_from(70_001) == 3
    assert made.used_until(0) == 70_001
    made.unmap()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    store, _ = open_store(tmp_path)
    with pytest.raises(StoreLocked, match="in use by another broker"):
        make_store(tmp_path).open()
    store.append(message())
    store.close()
    store, _ = open_store(tmp_path)
    store.close()


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be opened"):
        make_store(tmp_path / "file" / "store").open()
