"""A bit of a queue file is flipped: readers get every message all the same, and the entry is right again."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketeer.store.get import NO_RECORD, Fetched
from rocketeer.store.message_store import MessageStore
from rocketeer.store.queue_entries import entries_hold
from rocketeer.store.queue_entries_plain import entries_hold as plain_entries_hold
from rocketeer.store.queue_entry import ENTRY_BYTES
from support.clock import ManualClock
from support.records import split_records
from support.stores import bodies, checkpoint_now, kill, make_store, message

COUNT = 60
TOPIC = "TopicTest"


class Everything:
    """A filter on properties that lets all pass."""

    terms = 1

    def matches(self, record: memoryview) -> bool:
        return True

    def may_match(self, unit: object) -> bool:
        return True

    def scan(self, entries: bytes, log: memoryview, base: int, count_max: int, bytes_max: int):  # type: ignore[no-untyped-def]
        from rocketeer.filter.records import Scanned
        from rocketeer.store.queue_entry import ENTRY

        found = [(at, size) for at, size, _ in ENTRY.iter_unpack(entries)][:count_max]
        return Scanned(len(found), found)


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    """Messages of two queues in turn; queue 0's entries are in their file."""
    opened = make_store(tmp_path / "store")
    opened.open()
    for number in range(COUNT):
        opened.append(message(b"%d " % number * 20, TOPIC, 0, tags="T"))
        opened.append(message(b"other", TOPIC, 1))
    opened.queue_table.write_out()
    return opened


def expected() -> list[bytes]:
    return [b"%d " % number * 20 for number in range(COUNT)]


def flip(store: MessageStore, entry: int, byte: int, bits: int) -> None:
    path = next((store.config.store_path / "consumequeue" / TOPIC / "0").iterdir())
    with path.open("r+b") as file:
        file.seek(entry * ENTRY_BYTES + byte)
        (old,) = file.read(1)
        file.seek(entry * ENTRY_BYTES + byte)
        file.write(bytes([old ^ bits]))


def in_large_pieces(store: MessageStore) -> list[bytes]:
    return drained(lambda offset: store.get(TOPIC, 0, offset, 4096, large_bytes=1 << 20))


def filtered(store: MessageStore) -> list[bytes]:
    return drained(lambda offset: store.get(TOPIC, 0, offset, 32, matches=Everything()))


def drained(get: Callable[[int], Fetched]) -> list[bytes]:
    found: list[bytes] = []
    offset = 0
    while offset < COUNT:
        fetched = get(offset)
        found += [each.body for each in split_records(b"".join(fetched.parts))]
        assert fetched.next_offset > offset
        offset = fetched.next_offset
    return found


READERS = {"plain": bodies, "large": in_large_pieces, "filtered": filtered}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS.keys())
@pytest.mark.parametrize("entry", [0, 1, 30, COUNT - 1])
@pytest.mark.parametrize(("byte", "bits"), [(0, 0x80), (1, 1), (5, 1), (7, 4), (8, 0x80), (10, 1), (11, 8)])
def test_a_flipped_bit_costs_no_message(
    store: MessageStore, read: Callable[[MessageStore], list[bytes]], entry: int, byte: int, bits: int
) -> None:
    flip(store, entry, byte, bits)
    assert read(store) == expected()
    assert bodies(store, TOPIC, 0) == expected()
    store.close()


def test_the_first_message_of_a_queue_is_found_some_files_before_the_second(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store")
    store.open()
    store.append(message(b"first", TOPIC, 0))
    while len(store.log.segments) < 4:
        store.append(message(b"other" * 1000, TOPIC, 1))
    store.queue_table.write_out()
    flip(store, 0, 6, 1)
    assert bodies(store, TOPIC, 0) == [b"first"], "also while it is the only one"
    store.append(message(b"second", TOPIC, 0))
    store.queue_table.write_out()
    flip(store, 0, 11, 1)
    assert bodies(store, TOPIC, 0) == [b"first", b"second"]
    store.close()


def test_what_was_mended_is_right_on_disk(store: MessageStore, tmp_path: Path) -> None:
    path = next((tmp_path / "store" / "consumequeue" / TOPIC / "0").iterdir())
    before = path.read_bytes()
    flip(store, 30, 6, 1)
    assert bodies(store, TOPIC, 0) == expected()
    assert path.read_bytes() == before
    store.close()


def test_neighbours_that_are_both_damaged_are_mended_one_after_the_other(store: MessageStore) -> None:
    for entry in (10, 11, 12):
        flip(store, entry, 6, 1)
    assert bodies(store, TOPIC, 0) == expected()
    store.close()


@pytest.mark.parametrize("entry", [0, 3, 10, 30, 44])
@pytest.mark.parametrize("byte", [1, 5, 8])
def test_recovery_keeps_the_entries_behind_a_damaged_one(tmp_path: Path, entry: int, byte: int) -> None:
    clock = ManualClock()
    store = make_store(tmp_path / "store", clock)
    store.open()
    for number in range(COUNT):
        if number == 45:
            checkpoint_now(store, clock)
            store.delete_topic("Nobody")  # what was known of all queues together is known no more
        store.append(message(b"%d " % number * 20, TOPIC, 0, tags="T", keys=f"k{number}"))
    copy = kill(store, tmp_path / "copy")
    store.close()
    again = make_store(copy)
    flip(again, entry, byte, 1)
    again.open()
    assert bodies(again, TOPIC, 0) == expected()
    again.close()


def test_a_message_that_cannot_be_found_is_stepped_over(store: MessageStore) -> None:
    flip(store, 30, 6, 1)
    queue = store.queue_table.get(TOPIC, 0)
    assert queue is not None
    entry = queue.entry(29)
    assert entry is not None
    # Its record is damaged too: what stands there says that it is another message.
    view = store.log.segments[0].map_in()
    at = entry.log_offset + 2 * entry.size
    place = bytes(view).find(b"30 30 ") - 88
    assert place > at - 2 * entry.size
    view[place + 27] ^= 1
    found = bodies(store, TOPIC, 0)
    assert found == expected()[:30] + expected()[31:]
    store.close()


def test_the_message_of_a_deleted_topic_does_not_come_back_in_the_place_of_a_new_one(
    store: MessageStore,
) -> None:
    store.delete_topic(TOPIC)
    store.append(message(b"new", TOPIC, 0))
    store.queue_table.write_out()
    flip(store, 0, 6, 1)
    assert bodies(store, TOPIC, 0) == [b"new"]
    store.close()


def test_a_message_whose_queue_id_was_damaged_is_no_message_of_the_queue(store: MessageStore) -> None:
    queue = store.queue_table.get(TOPIC, 0)
    assert queue is not None
    entry = queue.entry(30)
    assert entry is not None
    view = store.log.segments[0].map_in()
    view[entry.log_offset + 15] ^= 1  # the last byte of its queue id
    found = bodies(store, TOPIC, 0)
    assert found == expected()[:30] + expected()[31:], "it costs this message, and no other"
    assert [each[0] for each in store.entries(TOPIC, 0, 29, 3)][1] == NO_RECORD
    store.close()


@pytest.mark.parametrize("holds", [entries_hold, plain_entries_hold], ids=["chosen", "plain"])
def test_entries_hold_says_whether_every_entry_leads_to_its_record(
    store: MessageStore, holds: Callable[[memoryview, bytes, int, int, int], bool]
) -> None:
    queue = store.queue_table.get(TOPIC, 0)
    assert queue is not None
    raw = queue.read(0, 40)
    window = store.log.read(0, store.log.max_offset)
    assert window is not None
    assert holds(window, raw, 0, 0, 0)
    assert not holds(window, raw, 0, 1, 0)
    assert not holds(window, raw, 0, 0, 1)
    assert not holds(window[8:], raw, 0, 0, 0)
    assert holds(window, b"", 0, 0, 0)
    for at in range(12):
        for bit in range(8):
            damaged = bytearray(raw)
            damaged[20 * 25 + at] ^= 1 << bit
            assert not holds(window, bytes(damaged), 0, 0, 0), (at, bit)
    store.close()


@pytest.mark.parametrize(
    ("byte", "bits"), [(2, 0x40), (7, 1), (8, 0x80), (11, 4)], ids=["far", "near", "size", "a little"]
)
def test_features_get_entries_that_lead_to_their_records(store: MessageStore, byte: int, bits: int) -> None:
    """Delays and transactions read their queues entry by entry, and go to the log with what they find."""
    sound = store.entries(TOPIC, 0, 0, COUNT)
    assert len(sound) == COUNT
    flip(store, 20, byte, bits)
    assert store.entries(TOPIC, 0, 0, COUNT) == sound
    store.close()
