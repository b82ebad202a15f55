"""Laws of what is read off the queues: every message once, whatever happened to its queue in between."""

from pathlib import Path

import pytest

from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.topic import QUEUES_MAX
from rocketeer.observe import stored as observed
from rocketeer.observe.stored import SIZE_BUCKETS, StoredTopics
from rocketeer.steps import finish
from rocketeer.store.queue_table import QueueTable
from support.clock import ManualClock
from support.step_times import best_longest_step_ms
from support.stores import make_store, message


def never() -> bool:
    return False


def at_once() -> bool:
    return True


def test_messages_and_bytes_since_the_start_by_topic(tmp_path: Path) -> None:
    store = make_store(tmp_path, ManualClock())
    store.open()
    store.append(message(b"before", topic="T", queue_id=0))
    stored = StoredTopics(store.queue_table)
    stored.start()
    sizes = [store.append(message(b"x" * n, topic="T", queue_id=n % 3)).size for n in range(100)]
    other = store.append(message(b"y" * 2_000, topic="U", queue_id=0)).size
    assert finish(stored.messages()) == {"T": 100, "U": 1}
    assert stored.catch_up(never)
    assert finish(stored.bytes()) == {"T": sum(sizes), "U": other}
    assert stored.sizes_sum == sum(sizes) + other
    assert stored.sizes[0] == 100
    assert stored.sizes[1] == 1, f"between {SIZE_BUCKETS[0]} and {SIZE_BUCKETS[1]} bytes"
    assert sum(stored.sizes) == 101
    store.close()


def test_slices_add_up_to_the_whole(tmp_path: Path) -> None:
    store = make_store(tmp_path, ManualClock())
    store.open()
    stored = StoredTopics(store.queue_table)
    stored.start()
    total = sum(store.append(message(b"x" * n, topic=f"T{n % 7}", queue_id=n % 2)).size for n in range(300))
    steps = 0
    while not stored.catch_up(at_once):
        steps += 1
    assert steps >= 7
    assert sum(finish(stored.bytes()).values()) == total
    assert stored.catch_up(never)
    assert stored.sizes_sum == total, "nothing is counted twice"
    store.close()


def test_a_topic_that_was_deleted_and_made_anew_begins_anew(tmp_path: Path) -> None:
    store = make_store(tmp_path, ManualClock())
    store.open()
    stored = StoredTopics(store.queue_table)
    stored.start()
    for _ in range(10):
        store.append(message(b"x", topic="T", queue_id=0))
    stored.catch_up(never)
    store.delete_topic("T")
    assert finish(stored.messages()) == {}
    size = store.append(message(b"x", topic="T", queue_id=0)).size
    stored.catch_up(never)
    assert (finish(stored.messages()), finish(stored.bytes())) == ({"T": 1}, {"T": size})
    store.close()


def test_a_queue_with_more_than_a_step_is_looked_at_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed, "READ_ENTRIES", 7)
    store = make_store(tmp_path, ManualClock())
    store.open()
    stored = StoredTopics(store.queue_table)
    stored.start()
    total = sum(store.append(message(b"x" * n, topic=f"T{n % 2}", queue_id=0)).size for n in range(100))
    while not stored.catch_up(at_once):
        pass
    assert stored.sizes_sum == total
    assert sum(stored.sizes) == 100
    store.close()


def test_queues_without_news_are_passed_by_in_steps(tmp_path: Path) -> None:
    store = make_store(tmp_path, ManualClock())
    store.open()
    for number in range(2 * observed.QUEUES_AT_ONCE):
        store.append(message(b"x", topic="T", queue_id=number))
    stored = StoredTopics(store.queue_table)
    stored.start()
    assert not stored.catch_up(at_once), "nobody waits for a walk over all queues"
    while not stored.catch_up(at_once):
        pass
    store.close()


def with_entries(table: QueueTable, topic: str, queue_id: int, entries: int) -> None:
    queue = table.get_or_make(topic, queue_id)
    for offset in range(entries):
        queue.put(QueueOffset(offset), LogOffset(100 * offset), 100, 0)


def test_one_topic_is_asked_after_whatever_queues_came_and_went(tmp_path: Path) -> None:
    table = QueueTable(tmp_path / "queues", 2_000)
    for number in range(3):
        with_entries(table, "T", number, number)
    stored = StoredTopics(table)
    assert finish(stored.of("T")) == (0 + 1 + 2, 0)
    with_entries(table, "U", 0, 7)
    with_entries(table, "T", 3, 3)
    assert (finish(stored.of("T")), finish(stored.of("U"))) == ((6, 0), (7, 0))
    table.remove_topic("T")
    with_entries(table, "V", 0, 9)
    with_entries(table, "T", 3, 30)
    assert (finish(stored.of("T")), finish(stored.of("V"))) == ((30, 0), (9, 0)), "it was made anew"
    for number in range(20):
        table.remove_topic("W")
        for queue_id in range(number):
            with_entries(table, "W", queue_id, 1)
            assert finish(stored.of("W")) == (queue_id + 1, 0), "none is counted twice"
    table.remove_topic("W")
    assert finish(stored.messages()) == {"T": 30, "U": 7, "V": 9}
    assert (finish(stored.of("W")), finish(stored.of("T"))) == ((0, 0), (30, 0))
    table.files.close()


def test_queues_that_are_gone_are_forgotten_in_steps(tmp_path: Path) -> None:
    table = QueueTable(tmp_path / "queues", 2_000)
    for number in range(4 * observed.TOPICS_AT_ONCE):
        table.get_or_make(f"T{number}", number)
    stored = StoredTopics(table)
    stored.start()
    table.get_or_make("T1", 7)
    assert stored.catch_up(never)
    for number in range(4 * observed.TOPICS_AT_ONCE):
        if number != 1:
            table.remove_topic(f"T{number}")
    steps = 0
    while not stored.catch_up(at_once):
        steps += 1
    assert steps >= 4
    assert [found for found in stored.each() if found is not None] == [("T1", 0, 0), ("T1", 0, 0)]
    table.files.close()


def test_no_step_is_long_however_many_queues_of_a_topic_have_messages(tmp_path: Path) -> None:
    store = make_store(tmp_path, ManualClock())
    store.open()
    stored = StoredTopics(store.queue_table)
    stored.start()
    for queue_id in range(QUEUES_MAX):
        store.append(message(b"x", topic="T", queue_id=queue_id))
    stored.catch_up(never)
    for make in (lambda: stored.of("T"), stored.messages, stored.bytes):
        assert best_longest_step_ms(make) < 4
    assert finish(stored.of("T"))[0] == finish(stored.messages())["T"] == QUEUES_MAX
    store.close()
