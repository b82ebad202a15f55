"""Nobody who waits for the disk is forgotten, whatever the moment he came."""

import queue
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketeer.store import segment as segment_module
from rocketeer.store.kernel import sync_range
from support.clock import ManualClock
from support.stores import make_store, message

WAIT_S = 60


class Meeting(ManualClock):
    """Asked for the time by whoever is about to wait: lets a sync come to its end in exactly that moment."""

    def __init__(self) -> None:
        super().__init__()
        self.meet: Callable[[], None] = lambda: None

    def monotonic_s(self) -> float:
        meet, self.meet = self.meet, lambda: None
        meet()
        return super().monotonic_s()


def test_one_who_comes_while_a_sync_ends_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sync that covers his message ends after he looked and before he stands in the queue."""
    gate, inside = threading.Event(), threading.Event()
    gate.set()

    def gated_sync(*arguments: int) -> None:
        inside.set()
        assert gate.wait(WAIT_S)
        sync_range(*arguments)

    monkeypatch.setattr(segment_module, "sync_range", gated_sync)
    jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    clock = Meeting()
    store = make_store(tmp_path, clock, jobs.put, flush_interval_ms=3_600_000)
    store.open()
    answers: list[bool] = []
    gate.clear()
    inside.clear()
    first = store.append(message(b"first"))
    store.when_durable(first.end, answers.append)
    assert inside.wait(WAIT_S), "the sync runs, and covers only the first message or both"
    second = store.append(message(b"second"))
    gate.set()
    jobs.get(timeout=WAIT_S)()
    assert answers == [True]

    def sync_ends() -> None:
        """As the thread does it when it was woken for somebody else's message."""
        store._flusher.sync()

    clock.meet = sync_ends
    store.when_durable(second.end, answers.append)
    assert store.flushed_log_offset == second.end
    while len(answers) < 2:
        jobs.get(timeout=WAIT_S)()
    assert answers == [True, True]
    store.close()
