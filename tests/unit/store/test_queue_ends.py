"""The sum of all queues' ends is kept while they change: a round notes it however many queues there are."""

import gc
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketeer.config import BrokerRole
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.topic import QUEUES_MAX
from rocketeer.steps import finish
from rocketeer.store import checkpointing, summary
from rocketeer.store.message_store import MessageStore
from rocketeer.store.queue_entry import QueueEntry
from rocketeer.store.queue_table import QueueTable
from support.clock import ManualClock
from support.stores import checkpoint_now, kill, make_store, message, open_store

TOPICS = ["A", "B", "C"]


def added_up(table: QueueTable) -> int:
    return sum(queue.max_offset for queue in table)


def any_topic(chance: random.Random) -> str:
    return chance.choice(TOPICS)


def append(store: MessageStore, chance: random.Random) -> None:
    for _ in range(chance.randrange(1, 40)):
        store.append(
            message(chance.randbytes(chance.randrange(2_000)), any_topic(chance), chance.randrange(4))
        )


def skip(store: MessageStore, chance: random.Random) -> None:
    """Lost messages: within the queue, next, and behind a gap."""
    queue = store.queue_table.get_or_make(any_topic(chance), chance.randrange(4))
    for ahead in chance.sample([-3, -1, 0, 1, 7, 50, 10**9], 3):
        queue.skip(QueueOffset(max(0, queue.max_offset + ahead)))


def truncate(store: MessageStore, chance: random.Random) -> None:
    end = LogOffset(chance.randrange(store.log.max_offset + 1))
    chance.choice([store.queue_table.cut_to_log, store.queue_table.drop_beyond])(end)
    for queue in list(store.queue_table)[: chance.randrange(3)]:
        queue.drop_blank_end()


def mend(store: MessageStore, chance: random.Random) -> None:
    for queue in store.queue_table:
        if queue.max_offset > queue.min_offset:
            queue.put_right(QueueOffset(queue.max_offset - 1), QueueEntry(0, 100, 0))


def remove(store: MessageStore, chance: random.Random) -> None:
    store.delete_topic(any_topic(chance))
    if chance.randrange(2):
        store.queue_table.empty_removed()


def expire(store: MessageStore, chance: random.Random) -> None:
    low = LogOffset(chance.randrange(store.log.max_offset + 1))
    store.queue_table.raise_min(low)
    finish(store.queue_table.remove_expired(low, lambda: None))


def write_out(store: MessageStore, chance: random.Random) -> None:
    store.queue_table.write_out()


CHANGES: list[Callable[[MessageStore, random.Random], None]] = [
    append, append, append, skip, truncate, mend, remove, expire, write_out,
]  # fmt: skip


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_sum_is_that_of_all_ends_whatever_happens_to_queues(
    tmp_path: Path, seed: int, extended: bool
) -> None:
    chance = random.Random(seed)
    store, _ = open_store(tmp_path / "s", queue_extension_enable=extended)
    removed = []
    for _ in range(150):
        removed += list(store.queue_table)
        change = chance.choice(CHANGES)
        change(store, chance)
        assert store.queue_table.offsets_sum() == added_up(store.queue_table), change.__name__
    copy = kill(store, tmp_path / "copy")
    again, _ = open_store(copy, queue_extension_enable=extended)
    assert again.queue_table.offsets_sum() == added_up(again.queue_table) > 0
    again.close()
    for queue in set(removed).difference(store.queue_table):  # somebody still holds it
        queue.skip(queue.max_offset)
        queue.forget()
    assert store.queue_table.offsets_sum() == added_up(store.queue_table)
    store.close()


@pytest.mark.parametrize("piece_bytes", [61, 5_000])
def test_what_is_copied_in_runs_counts_too(tmp_path: Path, piece_bytes: int) -> None:
    chance = random.Random(piece_bytes)
    master, _ = open_store(tmp_path / "master")
    slave, _ = open_store(tmp_path / "slave", broker_role=BrokerRole.SLAVE)
    for number in range(30):
        append(master, chance)
        if number % 10 == 9:
            remove(master, chance)
    end = master.log.max_offset
    while (at := slave.log.max_offset) < end:
        size = min(piece_bytes, end - at, master.log.next_segment_offset(at) - at)
        data = master.log.read(at, size)
        assert data is not None
        slave.append_raw(at, data)
        assert slave.queue_table.offsets_sum() == added_up(slave.queue_table)
    assert slave.queue_table.offsets_sum() == master.queue_table.offsets_sum() > 0
    shutil.copytree(tmp_path / "slave", tmp_path / "copy")
    again, _ = open_store(tmp_path / "copy")  # recovery reads runs as well
    assert again.queue_table.offsets_sum() == slave.queue_table.offsets_sum()
    for store in (again, slave, master):
        store.close()


def test_the_next_start_finds_its_queues_whole_after_rounds_between_changes(tmp_path: Path) -> None:
    chance = random.Random(5)
    clock = ManualClock()
    store = make_store(tmp_path / "s", clock)
    store.open()
    for number in range(5):
        append(store, chance)
        remove(store, chance)
        append(store, chance)
        checkpoint_now(store, clock)
        _, noted = summary.load(tmp_path / "s" / "checkpoint")
        assert noted is not None
        assert noted.queue_offsets_sum == added_up(store.queue_table)
        again, report = open_store(kill(store, tmp_path / f"{number}"))
        assert not [action for action in report.actions if "queues lack entries" in action]
        again.close()
    store.close()


def test_the_sum_costs_no_more_with_many_queues(tmp_path: Path) -> None:
    table = QueueTable(tmp_path / "queues", 2_000)

    def took_s() -> float:
        took = []
        for _ in range(30):
            began_s = time.perf_counter()
            table.offsets_sum()
            took.append(time.perf_counter() - began_s)
        return min(took)

    for number in range(10):
        table.get_or_make("T", number)
    few_s = took_s()
    for number in range(20_000):
        table.get_or_make(f"T{number % 100}", number)
    assert took_s() < 50 * few_s + 20e-6  # adding them up takes 20,000 times as long as asking for one


def test_a_round_passes_by_idle_queues_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    store = make_store(tmp_path, clock)
    store.open()
    for number in range(1_000):
        store.append(message(topic=f"T{number // 10}", queue_id=number % 10))
    checkpoint_now(store, clock)
    monkeypatch.setattr(checkpointing, "SLICE_S", 0.0)
    last = store.append(message(topic="T99", queue_id=9))
    clock.advance(ms=store.config.flush_queue_thorough_ms)
    queue = store.queue_table.get("T99", 9)
    ticks = 0
    while queue.pending_bytes:
        store.tick()
        ticks += 1
    assert ticks > 10, "a thousand queues are too many for one step"
    monkeypatch.undo()
    checkpoint_now(store, clock)
    assert summary.load(tmp_path / "checkpoint")[0].dispatched_offset == last.end
    store.close()


@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer takes its time")
def test_a_topic_with_all_queues_that_it_may_have_goes_in_a_short_step(tmp_path: Path) -> None:
    """In the processor's time, beside what popping as many keys takes here: about 2.5 times that, some 10 ms on
    a quiet machine. The best of a few: a busy one takes longer now and then."""
    store = make_store(tmp_path, ManualClock())
    store.open()
    took_s, pops_s = [], []
    for _ in range(2):
        for queue_id in range(QUEUES_MAX):
            store.append(message(b"x", "Wide", queue_id))
        store.append(message(b"x", "Other", 0))
        pops_s.append(popping_s(store.queue_table))
        gc.collect()
        began_s = time.thread_time()
        assert store.queue_table.remove_topic("Wide") == QUEUES_MAX
        took_s.append(time.thread_time() - began_s)
        assert store.queue_table.offsets_sum() == added_up(store.queue_table)
        while store.queue_table._removed:
            store.queue_table.empty_removed()
    assert min(took_s) < 6 * min(pops_s)
    assert store.queue_table.offsets_sum() == added_up(store.queue_table) == 2
    store.close()


def popping_s(table: QueueTable) -> float:
    """How long it takes to pop every key from a plain table of all queues."""
    copy = {(queue.topic, queue.queue_id): queue for queue in table}
    keys = list(copy)
    gc.collect()
    began_s = time.thread_time()
    for key in keys:
        copy.pop(key)
    return time.thread_time() - began_s
