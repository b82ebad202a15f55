"""Beside appends and pulls: checkpoints, retention, a disk that fills up."""

import errno
import itertools
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rocketeer.errors import StoreRefused
from rocketeer.store import checkpointing, cleaning, summary
from rocketeer.store.message_store import MessageStore
from support.clock import ManualClock
from support.indexes import query
from support.stores import SEGMENT_BYTES, bodies, checkpoint_now, kill, make_store, message, open_store

HOUR_MS = 3_600_000
NOON_MS = int(time.mktime((2023, 11, 14, 12, 0, 0, 0, 0, -1))) * 1000
WAIT_S = 60


def tick_until(store: MessageStore, clock: ManualClock, holds, step_ms: int = 100) -> None:  # type: ignore[no-untyped-def]
    deadline_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline_s, "it never came true"
        clock.advance(ms=step_ms)
        store.tick()
        time.sleep(0.001)  # the worker thread has its part


def fill_segments(store: MessageStore, count: int) -> None:
    while len(store.log.segments) < count:
        store.append(message(b"x" * 4000, keys="k"))


def age_files(store: MessageStore, clock: ManualClock) -> None:
    """Their times are those of the test's clock."""
    for segment in store.log.segments:
        os.utime(segment.path, ns=(0, clock.now_ms() * 1_000_000))


def test_a_store_is_idle_when_all_it_took_is_put_away(tmp_path: Path) -> None:
    clock = ManualClock()
    store = make_store(tmp_path, clock)
    store.open()
    store.is_idle()
    assert store.is_idle()
    store.append(message(keys="k"))
    assert not store.is_idle(), "the log has grown"
    assert not store.is_idle(), "its key is not in the index yet"
    tick_until(store, clock, store.is_idle)
    store.append(message())
    assert not store.is_idle()
    store.close()


def test_a_few_keys_wait_until_nothing_more_comes(tmp_path: Path) -> None:
    store = make_store(tmp_path, ManualClock())
    store.open()
    index = store.index
    assert index is not None
    for count in (1, 2, 3):
        store.append(message(keys="k"))
        store.tick()
        store.sends_answered()
        assert index.pending_count == count, "the log has grown since the last tick"
    for _ in range(100):  # it makes the file ready first, step by step
        store.tick()
    assert index.pending_count == 0
    store.close()


def test_enough_keys_for_a_step_wait_for_no_tick(tmp_path: Path) -> None:
    store = make_store(tmp_path, ManualClock())
    store.open()
    index = store.index
    assert index is not None
    for _ in range(300):
        store.append(message(keys="k"))
        for _ in range(10):
            store.sends_answered()
        assert index.pending_count < 256
    assert index.pending_count == 300 - 256
    store.close()


# --- checkpoints ----------------------------------------------------------------------------------


def test_a_checkpoint_is_taken_every_minute(tmp_path: Path) -> None:
    clock = ManualClock()
    store = make_store(tmp_path, clock)
    store.open()
    store.append(message(keys="k"))
    checkpoint_now(store, clock)
    checkpoint, noted = summary.load(tmp_path / "checkpoint")
    assert checkpoint.dispatched_offset == checkpoint.index_offset == store.log.max_offset
    assert noted == summary.Summary(1, 0)
    assert checkpoint.logics_ms == ManualClock().now_ms()
    assert (tmp_path / "consumequeue/TopicTest/0/00000000000000000000").exists()
    store.close()


def test_index_slots_that_the_disk_did_not_take_are_written_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(tmp_path)
    store.open()
    store.append(message(keys="k"))
    real_open = os.open

    def broken(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if "/index/" in str(path) and flags & os.O_WRONLY:
            raise OSError(errno.EIO, "Input/output error")
        return real_open(path, flags, mode)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", broken)
        store._checkpointer.start()
    store.close()
    store, _ = open_store(tmp_path)
    assert store.index is not None
    assert query(store.index, "TopicTest", "k", 0, 1 << 60, 10) == [0]
    store.close()


def test_much_new_log_makes_a_checkpoint_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointing, "ROUND_BYTES", 10_000)
    monkeypatch.setattr(checkpointing, "ROUND_BYTES_PER_QUEUE", 0)
    clock = ManualClock()
    store = make_store(tmp_path, clock)
    store.open()
    store.append(message(b"x" * 12_000))
    tick_until(
        store,
        clock,
        lambda: summary.load(tmp_path / "checkpoint")[0].dispatched_offset == store.log.max_offset,
        step_ms=1,  # so that a slow disk does not use up the minute
    )
    assert clock.now_ms() - ManualClock().now_ms() < 60_000
    store.close()


def test_a_checkpoint_of_many_queues_takes_many_ticks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointing, "SLICE_S", 0.0)
    clock = ManualClock()
    store = make_store(tmp_path, clock)
    store.open()
    for number in range(100):
        store.append(message(topic=f"T{number}"))
    clock.advance(ms=60_000)
    for _ in range(10):
        store.tick()
    written = len(list((tmp_path / "consumequeue").glob("*/*/*")))
    assert 0 < written <= 10
    store.append(message(topic="T0"))
    checkpointed = store.log.max_offset - store.log.max_offset // 101
    tick_until(store, clock, lambda: (summary.load(tmp_path / "checkpoint")[0].dispatched_offset or 0) > 0, 1)
    checkpoint, noted = summary.load(tmp_path / "checkpoint")
    assert checkpoint.dispatched_offset is not None
    assert checkpoint.dispatched_offset <= checkpointed
    assert noted is not None
    assert noted.queue_offsets_sum == 100, "of the moment the round began"
    store.close()


def test_a_deleted_topic_is_noted_although_no_message_follows(tmp_path: Path) -> None:
    clock = ManualClock()
    store = make_store(tmp_path / "store", clock)
    store.open()
    store.append(message(keys="k"))
    checkpoint_now(store, clock)
    store.delete_topic("TopicTest")
    assert summary.load(tmp_path / "store/checkpoint")[1] is None
    tick_until(store, clock, lambda: summary.load(tmp_path / "store/checkpoint")[1] == summary.Summary(0, 0))
    copy = kill(store, tmp_path / "copy")
    store.close()
    store, report = open_store(copy)
    assert store.queues() == []
    assert report.redone_messages == 0
    store.close()


def test_a_topic_that_is_deleted_while_a_checkpoint_is_made_is_noted_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    store = make_store(tmp_path / "store", clock)
    store.open()
    for number in range(10):
        store.append(message(topic=f"T{number}"))
    clock.advance(ms=60_000)
    monkeypatch.setattr(checkpointing, "SLICE_S", 0.0)
    store.tick()  # it begins, and writes out one queue
    store.delete_topic("T9")
    noted: list[summary.Summary | None] = []

    def saved() -> bool:
        noted.append(summary.load(tmp_path / "store/checkpoint")[1])
        return noted[-1] == summary.Summary(9, -1)

    tick_until(store, clock, saved)
    assert set(noted[:-1]) == {None}, "no sum of queues that were not there any more"
    copy = kill(store, tmp_path / "copy")
    store.close()
    store, report = open_store(copy)
    assert not [action for action in report.actions if "queues lack entries" in action]
    store.close()


def test_who_deletes_a_topic_does_not_wait_until_the_disk_has_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loop and worker shared a lock that the worker held while it synced: also for topics that are not there."""
    clock = ManualClock()
    store = make_store(tmp_path, clock)
    store.open()
    for topic in ("A", "B", "C"):
        store.append(message(topic=topic))
    syncing, go_on = threading.Event(), threading.Event()
    real_fsync = os.fsync

    def slow_fsync(fd: int) -> None:
        if Path(f"/proc/self/fd/{fd}").readlink().name == "checkpoint":
            syncing.set()
            go_on.wait(WAIT_S)
        real_fsync(fd)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", slow_fsync)
        clock.advance(ms=store.config.flush_queue_thorough_ms)
        tick_until(store, clock, syncing.is_set)
        threading.Timer(2, go_on.set).start()
        began_s = time.monotonic()
        for topic in ("none", "A", "B"):
            store.delete_topic(topic)
        took_s = time.monotonic() - began_s
        assert summary.load(tmp_path / "checkpoint")[1] is None, (
            "the sum that is being synced is of other queues"
        )
        go_on.set()
        tick_until(store, clock, lambda: summary.load(tmp_path / "checkpoint")[1] == summary.Summary(1, -1))
    assert took_s < 1
    store.close()


def test_a_topic_without_queues_takes_no_sum_along(tmp_path: Path) -> None:
    clock = ManualClock()
    store = make_store(tmp_path, clock)
    store.open()
    store.append(message())
    checkpoint_now(store, clock)
    store.delete_topic("none")
    assert summary.load(tmp_path / "checkpoint")[1] == summary.Summary(1, -1)
    store.close()


# --- retention ------------------------------------------------------------------------------------


def test_old_files_go_at_the_set_hour_and_everything_follows(tmp_path: Path) -> None:
    clock = ManualClock(NOON_MS)
    store = make_store(tmp_path, clock, reserved_hours=72, delete_when="04")
    store.open()
    fill_segments(store, 4)
    last = store.log.segments[-1].base
    for segment in store.log.segments[:-1]:
        os.utime(segment.path, ns=(0, clock.now_ms() * 1_000_000))
    clock.advance(ms=73 * HOUR_MS)  # 13 o'clock
    for _ in range(100):
        clock.advance(ms=1000)
        store.tick()
    assert len(store.log.segments) == 4
    clock.advance(ms=15 * HOUR_MS)  # 4 o'clock
    tick_until(store, clock, lambda: len(store.log.segments) == 1, 50)  # nor the hour
    tick_until(store, clock, lambda: store.min_queue_offset("TopicTest", 0) > 0)
    assert store.log.min_offset == last
    assert store.min_queue_offset("TopicTest", 0) > 0
    assert store.get("TopicTest", 0, 0, 1).next_offset == store.min_queue_offset("TopicTest", 0)
    tick_until(store, clock, lambda: len(list((tmp_path / "commitlog").iterdir())) <= 2)
    left = bodies(store)
    copy = kill(store, tmp_path / "copy")
    store.close()
    for folder in (tmp_path, copy):
        store, report = open_store(folder)
        assert report.log_min == last
        assert bodies(store) == left
        assert store.min_queue_offset("TopicTest", 0) > 0
        store.close()


def test_an_operator_may_have_expired_files_deleted_at_once(tmp_path: Path) -> None:
    clock = ManualClock(NOON_MS)
    store = make_store(tmp_path, clock, reserved_hours=1, delete_when="04")
    store.open()
    fill_segments(store, 3)
    age_files(store, clock)
    clock.advance(ms=2 * HOUR_MS)
    store.delete_expired()
    tick_until(store, clock, lambda: len(store.log.segments) == 1)
    store.close()


class PassingClock(ManualClock):
    """Whoever asks for the time takes some."""

    ask_s = 0.0
    _asked_s = 0.0

    def monotonic_s(self) -> float:
        self._asked_s += self.ask_s
        return super().monotonic_s() + self._asked_s


def test_queues_follow_the_log_as_long_as_there_is_time(tmp_path: Path) -> None:
    clock = PassingClock(NOON_MS)
    store = make_store(tmp_path, clock, reserved_hours=1, delete_when="04")
    store.open()
    for number in range(200):
        for _ in range(2):
            store.append(message(b"x" * 300, topic=f"T{number % 10}", queue_id=number // 10))
    fill_segments(store, 4)
    age_files(store, clock)
    clock.advance(ms=2 * HOUR_MS)
    store.delete_expired()
    tick_until(store, clock, lambda: len(store.log.segments) < 4)
    clock.ask_s = 0.0005
    following = [0]
    while following[-1] < 50:
        store.tick()
        following.append(sum(queue.min_offset > 0 for queue in store.queue_table.walk()))
        assert len(following) < 500
    assert max(after - before for before, after in itertools.pairwise(following)) <= 2
    store.close()


def test_a_file_that_cannot_be_deleted_is_not_left_alone_before_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(NOON_MS)
    store = make_store(tmp_path, clock, reserved_hours=1, delete_when="04")
    store.open()
    fill_segments(store, 4)
    age_files(store, clock)
    oldest = store.log.segments[0].path
    unlink, held = os.unlink, True

    def unlink_unless_held(path: str | os.PathLike[str], **options: Any) -> None:
        if held and Path(path) == oldest:
            raise OSError(errno.EBUSY, "somebody holds it")
        unlink(path, **options)

    monkeypatch.setattr(os, "unlink", unlink_unless_held)
    clock.advance(ms=2 * HOUR_MS)
    store.delete_expired()
    tick_until(store, clock, lambda: len(store.log.segments) == 1)
    assert store._worker.submit("nothing", lambda: None).result(WAIT_S)  # what came before is done
    left = bodies(store)
    copy = kill(store, tmp_path / "copy")
    again, report = open_store(copy)
    assert report.log_min == 0, "all of them, and not the first one without the second"
    assert bodies(again)[-len(left) :] == left
    again.close()
    held = False
    fill_segments(store, 2)
    age_files(store, clock)
    clock.advance(ms=2 * HOUR_MS)
    store.delete_expired()
    tick_until(store, clock, lambda: not oldest.exists())
    store.close()
    again, report = open_store(tmp_path)
    assert report.log_min > 0
    again.close()


@pytest.mark.parametrize("used", [91, 99])
def test_a_nearly_full_disk_refuses_messages_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: int
) -> None:
    percent = used
    monkeypatch.setattr(cleaning, "used_percent", lambda path: percent)
    clock = ManualClock(NOON_MS)
    store = make_store(tmp_path, clock, disk_warning_percent=90)
    store.open()
    store.tick()
    with pytest.raises(StoreRefused) as refused:
        store.append(message())
    assert refused.value.reason == StoreRefused.DISK_FULL
    ratio = f"{used / 100:5.2f}"
    assert str(refused.value) == f"CL: {ratio} CQ: {ratio} INDEX: {ratio}", "RocketMQ's words"
    percent = 50
    tick_until(store, clock, lambda: store.refusal is None, 1000)
    store.append(message(b"again"))
    assert bodies(store) == [b"again"]
    store.close()


def test_over_85_percent_the_oldest_files_go_before_their_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    percent = 50
    monkeypatch.setattr(cleaning, "used_percent", lambda path: percent)
    clock = ManualClock(NOON_MS)
    store = make_store(tmp_path, clock, disk_warning_percent=95, disk_clean_percent=85)
    store.open()
    fill_segments(store, 5)
    age_files(store, clock)
    clock.advance(ms=60_000)
    for _ in range(20):
        clock.advance(ms=1000)
        store.tick()
    assert len(store.log.segments) == 5
    percent = 86
    tick_until(store, clock, lambda: len(store.log.segments) == 4, 1000)
    percent = 80
    for _ in range(5):
        clock.advance(ms=1000)
        store.tick()
    clock.advance(ms=60_000)
    before = len(store.log.segments)
    for _ in range(20):
        clock.advance(ms=1000)
        store.tick()
    assert len(store.log.segments) == before >= 1
    assert store.log.min_offset % SEGMENT_BYTES == 0
    store.close()
