"""When the log is synced while nobody waits: enough pages, or long enough ago; on request at once."""

import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rocketeer.config import FlushMode
from rocketeer.store import flush
from rocketeer.store.flush import FlushRules
from rocketeer.store.message_store import MessageStore
from support.clock import ManualClock
from support.stores import make_store, message, small_config

LEAST_PAGES = 4


class Opened:
    """A store whose flusher's thread looks at the log only when it is told to."""

    def __init__(self, folder: Path, **changes: object) -> None:
        self.clock = ManualClock()
        self.jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        rules = {
            "flush_interval_ms": 3_600_000,
            "flush_least_pages": LEAST_PAGES,
            "flush_thorough_ms": 10_000,
        }
        self.store: MessageStore = make_store(folder, self.clock, self.jobs.put, **{**rules, **changes})
        self.store.open()
        self.flusher = self.store._flusher

    def append(self, count: int, body_bytes: int = 1024) -> None:
        for _ in range(count):
            self.store.append(message(b"x" * body_bytes), self.clock.now_ms())


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    made = Opened(tmp_path / "store")
    yield made
    made.store.close()


def test_fewer_pages_than_asked_for_wait_until_they_have_waited_long(opened: Opened) -> None:
    opened.append(2)
    assert not opened.flusher._is_due()
    opened.clock.advance(ms=9_999)
    assert not opened.flusher._is_due()
    opened.clock.advance(ms=1)
    assert opened.flusher._is_due()


def test_enough_pages_are_synced_at_the_next_look(opened: Opened) -> None:
    opened.append(LEAST_PAGES * flush.PAGE_BYTES // 1024 + 1)
    assert opened.flusher._is_due()


def test_who_waits_or_asks_does_not_wait_for_more_pages(opened: Opened) -> None:
    opened.append(1)
    answers: list[bool] = []
    opened.store.when_durable(opened.store.max_log_offset, answers.append)
    opened.jobs.get(timeout=30)()
    assert answers == [True]
    opened.append(1)
    opened.flusher.flush_soon()
    for _ in range(3000):
        if opened.flusher.flushed == opened.store.max_log_offset:
            return
        opened.flusher._thread.join(0.01)  # type: ignore[union-attr]
    raise AssertionError("asked for, and not synced")


def test_sync_flush_knows_no_least_pages(tmp_path: Path) -> None:
    rules = FlushRules.of(small_config(tmp_path, flush_mode=FlushMode.SYNC_FLUSH, flush_least_pages=8))
    assert rules.least_bytes == 0


def test_untimed_looks_as_soon_as_there_are_enough_pages(tmp_path: Path) -> None:
    opened = Opened(tmp_path / "store", flush_timed=False)
    try:
        opened.append(LEAST_PAGES * 4 + 1)
        opened.store.tick()
        for _ in range(3000):
            if opened.flusher.flushed == opened.store.max_log_offset:
                return
            opened.flusher._thread.join(0.01)  # type: ignore[union-attr]
        raise AssertionError("enough pages, and not synced")
    finally:
        opened.store.close()


def test_rules_change_while_the_store_is_open(opened: Opened) -> None:
    opened.append(2)
    opened.store.reconfigure(small_config(opened.store.config.store_path, flush_least_pages=1))
    opened.append(4)
    assert opened.flusher._is_due()
