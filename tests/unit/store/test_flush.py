"""Durability: one sync answers all who wait, late ones get False, a disk that fails stops the store."""

import errno
import queue
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rocketeer.answers import ANSWERS_AT_ONCE
from rocketeer.config import FlushMode
from rocketeer.errors import StoreRefused
from rocketeer.store import segment as segment_module
from rocketeer.store.kernel import sync_range
from rocketeer.store.message_store import MessageStore
from support.clock import ManualClock
from support.stores import SEGMENT_BYTES, make_store, message

WAIT_S = 30


class Loop:
    """Runs what threads post, when told to: the event loop of these tests."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def run_one(self) -> None:
        self.jobs.get(timeout=WAIT_S)()


class Disk:
    """The real sync, which can be held up, or made to fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.syncs: list[tuple[int, int]] = []
        self.error: OSError | None = None
        monkeypatch.setattr(segment_module, "sync_range", self)

    def __call__(self, address: int, start: int, end: int) -> None:
        self.entered.set()
        assert self.gate.wait(WAIT_S)
        if self.error is not None:
            raise self.error
        sync_range(address, start, end)
        self.syncs.append((start, end))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def loop() -> Loop:
    return Loop()


def opened(folder: Path, loop: Loop, clock: ManualClock | None = None, **changes: object) -> MessageStore:
    # An interval far away: only those who wait make the thread work.
    store = make_store(folder, clock, loop.jobs.put, flush_interval_ms=3_600_000, **changes)
    store.open()
    return store


def test_whoever_waits_is_answered_when_the_log_is_on_disk(tmp_path: Path, disk: Disk, loop: Loop) -> None:
    store = opened(tmp_path, loop, flush_mode=FlushMode.ASYNC_FLUSH)
    appended = store.append(message())
    answers: list[bool] = []
    store.when_durable(appended.end, answers.append)
    assert answers == []
    loop.run_one()
    assert answers == [True]
    assert store.flushed_log_offset == appended.end
    store.when_durable(appended.end, answers.append)
    assert answers == [True, True], "nothing to wait for"
    store.close()


def test_one_sync_answers_all_who_came_while_the_last_one_ran(tmp_path: Path, disk: Disk, loop: Loop) -> None:
    store = opened(tmp_path, loop)
    disk.syncs.clear()
    disk.gate.clear()
    disk.entered.clear()
    answers: list[int] = []
    for number in range(100):
        end = store.append(message(b"%d" % number)).end
        store.when_durable(end, lambda ok, number=number: answers.append(number if ok else -1))  # type: ignore[misc]
        if number == 0:
            assert disk.entered.wait(WAIT_S)
    disk.gate.set()
    while len(answers) < 100:
        loop.run_one()
    assert answers == list(range(100))
    assert len(disk.syncs) <= 3
    store.close()


def test_a_wait_that_takes_too_long_ends_with_false(tmp_path: Path, disk: Disk, loop: Loop) -> None:
    clock = ManualClock()
    store = opened(tmp_path, loop, clock, sync_flush_timeout_ms=5_000)
    disk.gate.clear()
    answers: list[bool] = []
    store.when_durable(store.append(message()).end, answers.append)
    clock.advance(ms=4_999)
    store.tick()
    assert answers == []
    clock.advance(ms=1)
    store.tick()
    assert answers == [False]
    disk.gate.set()
    store.close()
    assert answers == [False], "answered once"


def test_a_disk_that_fails_stops_the_store(tmp_path: Path, disk: Disk, loop: Loop) -> None:
    store = opened(tmp_path, loop)
    disk.error = OSError(errno.EIO, "broken")
    answers: list[bool] = []
    store.when_durable(store.append(message(b"lost?")).end, answers.append)
    loop.run_one()
    assert answers == [False]
    with pytest.raises(StoreRefused, match="broken") as refused:
        store.append(message())
    assert refused.value.reason == StoreRefused.NOT_WRITABLE
    store.when_durable(1 << 30, answers.append)
    assert answers == [False, False]
    assert store.get("TopicTest", 0, 0, 1).count == 1, "reads go on"
    store.close()


def test_closing_answers_everybody(tmp_path: Path, disk: Disk, loop: Loop) -> None:
    store = opened(tmp_path, loop)
    answers: list[bool] = []
    disk.gate.clear()
    for _ in range(3):
        store.when_durable(store.append(message()).end, answers.append)
    threading.Timer(0.05, disk.gate.set).start()
    store.close()
    assert answers == [True, True, True]


def test_a_sync_covers_all_files_since_the_last(tmp_path: Path, disk: Disk, loop: Loop) -> None:
    store = opened(tmp_path, loop)
    for _ in range(30):
        store.append(message(b"x" * 8000))
    assert store.log.max_offset > 3 * SEGMENT_BYTES
    answers: list[bool] = []
    store.when_durable(store.log.max_offset, answers.append)
    while not answers:
        loop.run_one()
    assert answers == [True]
    assert store.flushed_log_offset == store.log.max_offset
    store.close()


def test_without_anybody_waiting_the_log_is_synced_every_interval(
    tmp_path: Path, disk: Disk, loop: Loop
) -> None:
    store = make_store(tmp_path, None, loop.jobs.put, flush_interval_ms=1)
    store.open()
    disk.syncs.clear()
    end = store.append(message()).end
    deadline = threading.Event()
    for _ in range(WAIT_S * 100):
        if store.flushed_log_offset == end:
            break
        deadline.wait(0.01)
    assert store.flushed_log_offset == end
    assert loop.jobs.empty(), "nobody waited, nobody is told"
    store.close()


def test_thousands_who_wait_for_one_sync_are_answered_some_at_a_time(
    tmp_path: Path, disk: Disk, loop: Loop
) -> None:
    store = make_store(tmp_path, post=loop.jobs.put, flush_mode=FlushMode.SYNC_FLUSH)
    store.open()
    disk.gate.clear()
    answers: list[int] = []
    for number in range(1_000):
        end = store.append(message()).end
        store.when_durable(end, lambda durable, number=number: answers.append(number))  # type: ignore[misc]
    disk.gate.set()
    while len(answers) < 1_000:
        before = len(answers)
        loop.run_one()
        assert len(answers) - before <= ANSWERS_AT_ONCE
    assert answers == list(range(1_000))
    store.close()


def test_a_reply_that_fails_keeps_nobody_else_from_theirs(tmp_path: Path, disk: Disk, loop: Loop) -> None:
    store = opened(tmp_path, loop)
    answers: list[int] = []

    def reply(number: int, durable: bool) -> None:
        if number in (0, 70, 150):
            raise ValueError(number)
        answers.append(number)

    for numbers in (range(140), range(140, 200)):
        disk.gate.clear()
        for number in numbers:
            store.when_durable(store.append(message()).end, partial(reply, number))
        disk.gate.set()
        while answers[-1:] != [numbers[-1]]:
            loop.run_one()
    assert answers == [number for number in range(200) if number not in (0, 70, 150)]
    store.close()


def test_a_refusal_that_fails_keeps_nobody_else_from_theirs(tmp_path: Path, disk: Disk, loop: Loop) -> None:
    store = opened(tmp_path, loop)
    disk.error = OSError(errno.EIO, "broken")
    answers: list[bool] = []

    def fails(durable: bool) -> None:
        raise ValueError(durable)

    disk.gate.clear()
    for reply in (fails, answers.append, fails, answers.append):
        store.when_durable(store.append(message()).end, reply)
    disk.gate.set()
    loop.run_one()
    assert answers == [False, False]
    store.close()
