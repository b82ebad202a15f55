"""Laws of what is read off the queues: every message once, whatever happened to its queue in between."""

from pathlib import Path

import pytest

from rocketeer.clock import ManualClock
from rocketeer.observe import stored as observed
from rocketeer.observe.stored import SIZE_BUCKETS, StoredTopics
from support.stores import make_store, message


def never() -> bool:
    return False


def at_once() -> bool:
    return True


def test_messages_and_bytes_since_the_start_by_topic(tmp_path: Path) -> None:
    store = make_store(tmp_path, ManualClock())
    store.open()
    store.append(message(b"before", topic="T", queue_id=0))
    stored = StoredTopics(store.queue_table.by_key)
    stored.start()
    sizes = [store.append(message(b"x" * n, topic="T", queue_id=n % 3)).size for n in range(100)]
    other = store.append(message(b"y" * 2_000, topic="U", queue_id=0)).size
    assert stored.messages() == {"T": 100, "U": 1}
    assert stored.catch_up(never)
    assert stored.bytes() == {"T": sum(sizes), "U": other}
    assert stored.sizes_sum == sum(sizes) + other
    assert stored.sizes[0] == 100
    assert stored.sizes[1] == 1, f"between {SIZE_BUCKETS[0]} and {SIZE_BUCKETS[1]} bytes"
    assert sum(stored.sizes) == 101
    store.close()


def test_slices_add_up_to_the_whole(tmp_path: Path) -> None:
    store = make_store(tmp_path, ManualClock())
    store.open()
    stored = StoredTopics(store.queue_table.by_key)
    stored.start()
    total = sum(store.append(message(b"x" * n, topic=f"T{n % 7}", queue_id=n % 2)).size for n in range(300))
    steps = 0
    while not stored.catch_up(at_once):
        steps += 1
    assert steps >= 7
    assert sum(stored.bytes().values()) == total
    assert stored.catch_up(never)
    assert stored.sizes_sum == total, "nothing is counted twice"
    store.close()


def test_a_topic_that_was_deleted_and_made_anew_begins_anew(tmp_path: Path) -> None:
    store = make_store(tmp_path, ManualClock())
    store.open()
    stored = StoredTopics(store.queue_table.by_key)
    stored.start()
    for _ in range(10):
        store.append(message(b"x", topic="T", queue_id=0))
    stored.catch_up(never)
    store.delete_topic("T")
    assert stored.messages() == {}
    size = store.append(message(b"x", topic="T", queue_id=0)).size
    stored.catch_up(never)
    assert (stored.messages(), stored.bytes()) == ({"T": 1}, {"T": size})
    store.close()


def test_a_queue_with_more_than_a_step_is_looked_at_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed, "READ_ENTRIES", 7)
    store = make_store(tmp_path, ManualClock())
    store.open()
    stored = StoredTopics(store.queue_table.by_key)
    stored.start()
    total = sum(store.append(message(b"x" * n, topic=f"T{n % 2}", queue_id=0)).size for n in range(100))
    while not stored.catch_up(at_once):
        pass
    assert stored.sizes_sum == total
    assert sum(stored.sizes) == 100
    store.close()
