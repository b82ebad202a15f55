"""A filled store that was stopped in one of three ways, and the check that all of it is there again."""

from pathlib import Path

from rocketeer.store.message_store import MessageStore
from support.clock import ManualClock
from support.stores import checkpoint_now, kill, make_store, message, query, read_queue

COUNT = 150


def body_of(number: int) -> bytes:
    return b"%04d" % number * (1 + number * 7 % 800)


def fill(store: MessageStore, start: int = 0, count: int = COUNT) -> None:
    """Some topics and queues, over several log and queue files; each message can be asked for by its number."""
    for number in range(start, start + count):
        topic, queue_id = f"Topic{number % 2}", number % 3
        store.append(message(body_of(number), topic, queue_id, tags="T", keys=f"k{number}"))


def numbers(store: MessageStore) -> list[int]:
    """Numbers of all messages in all queues; every queue in order and without holes."""
    found = []
    for topic, queue_id in store.queues():
        messages = read_queue(store, topic, queue_id)
        low = store.min_queue_offset(topic, queue_id)
        assert [each.queue_offset for each in messages] == list(range(low, low + len(messages)))
        for each in messages:
            number = int(each.body[:4])
            assert each.body == body_of(number)
            found.append(number)
    return sorted(found)


def places(store: MessageStore) -> dict[int, int]:
    """Queue offset of every message that can be pulled, by number; lost ones leave their places empty."""
    found = {}
    for topic, queue_id in store.queues():
        for each in read_queue(store, topic, queue_id):
            number = int(each.body[:4])
            assert each.body == body_of(number)
            found[number] = each.queue_offset
    return found


def check_whole(store: MessageStore, count: int = COUNT) -> None:
    assert numbers(store) == list(range(count))
    for number in range(count):
        found = query(store, f"Topic{number % 2}", f"k{number}", 0, 1 << 62, 32).messages
        assert [each.body for each in found] == [body_of(number)], number


def stopped(folder: Path, how: str) -> Path:
    """A filled store that was closed, or whose process died before anything was written out, or in between."""
    clock = ManualClock()
    store = make_store(folder / "first", clock)
    store.open()
    fill(store, 0, COUNT // 2)
    if how == "died late":
        checkpoint_now(store, clock)
    fill(store, COUNT // 2, COUNT - COUNT // 2)
    if how == "closed":
        store.close()
        return folder / "first"
    copy = kill(store, folder / "copy")
    store.close()
    return copy


HOW = ["closed", "died", "died late"]
