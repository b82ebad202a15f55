"""Pulls: RocketMQ 4.9.8's statuses and next offsets, case by case, and its limits on one answer."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketeer.config import BrokerRole
from rocketeer.filter.records import Scanned
from rocketeer.record.java_hash import tag_hash
from rocketeer.record.layout import decode_record
from rocketeer.store.consume_queue_ext import ExtUnit
from rocketeer.store.get import NO_RECORD
from rocketeer.store.message_store import Fetched, GetStatus, MessageStore
from rocketeer.store.queue_entry import ENTRY
from support.records import split_records
from support.stores import bodies, message, open_store, query


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def outcome(fetched: Fetched) -> tuple[GetStatus, int, int, int]:
    return fetched.status, fetched.next_offset, fetched.min_offset, fetched.max_offset


class TestOf:
    """A filter on properties, here on bodies."""

    __test__ = False

    def __init__(self, wants: Callable[[bytes], bool]) -> None:
        self._wants = wants

    def matches(self, record: memoryview) -> bool:
        return self._wants(decode_record(record).body)

    def may_match(self, unit: ExtUnit) -> bool:
        return True

    def scan(self, entries: bytes, log: memoryview, base: int, count_max: int, bytes_max: int) -> Scanned:
        found: list[tuple[int, int]] = []
        looked_at = 0
        for log_offset, size, _ in ENTRY.iter_unpack(entries):
            if len(found) == count_max:
                break
            looked_at += 1
            if self.matches(log[log_offset - base : log_offset - base + size]):
                found.append((log_offset, size))
        return Scanned(looked_at, found)


def fill(store: MessageStore, count: int, size: int = 10) -> None:
    for number in range(count):
        store.append(message(b"%d" % (number % 10) * size))


def test_a_queue_nobody_wrote_to_is_empty(folder: Path) -> None:
    store, _ = open_store(folder)
    assert outcome(store.get("Nobody", 3, 0, 32)) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
    assert outcome(store.get("Nobody", 3, 7, 32)) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
    assert store.queues() == [], "asking makes no queue"
    store.close()


def test_offsets_outside_the_queue(folder: Path) -> None:
    store, _ = open_store(folder)
    fill(store, 10, 4000)
    while store.min_queue_offset("TopicTest", 0) == 0:
        fill(store, 10, 4000)
        store.log.drop_first()
        store.queue_table.raise_min(store.log.min_offset)
    low, high = store.min_queue_offset("TopicTest", 0), store.max_queue_offset("TopicTest", 0)
    assert outcome(store.get("TopicTest", 0, 0, 32)) == (GetStatus.OFFSET_TOO_SMALL, low, low, high)
    assert outcome(store.get("TopicTest", 0, high, 32)) == (GetStatus.OFFSET_OVERFLOW_ONE, high, low, high)
    assert outcome(store.get("TopicTest", 0, high + 1, 32)) == (
        GetStatus.OFFSET_OVERFLOW_BADLY,
        high,
        low,
        high,
    )
    assert store.get("TopicTest", 0, low, 1).status is GetStatus.FOUND
    store.close()


def test_a_slave_does_not_move_offsets(tmp_path: Path) -> None:
    store, _ = open_store(tmp_path, broker_role=BrokerRole.SLAVE)
    assert outcome(store.get("Nobody", 3, 7, 32)) == (GetStatus.NO_MESSAGE_IN_QUEUE, 7, 0, 0)
    store.close()
    store, _ = open_store(tmp_path, broker_role=BrokerRole.SLAVE, offset_check_in_slave=True)
    assert outcome(store.get("Nobody", 3, 7, 32)) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
    store.close()


def test_an_answer_has_at_most_32_messages_whatever_is_asked(folder: Path) -> None:
    store, _ = open_store(folder)
    fill(store, 90)
    for asked, given in ((1, 1), (31, 31), (32, 32), (33, 32), (1000, 32), (0, 1)):
        fetched = store.get("TopicTest", 0, 5, asked)
        assert (fetched.count, fetched.next_offset) == (given, 5 + given)
        assert len(list(split_records(b"".join(fetched.parts)))) == given
    store.close()


def test_an_answer_ends_where_a_queue_file_ends(folder: Path) -> None:
    store, _ = open_store(folder)  # 100 entries per file
    fill(store, 130)
    assert store.get("TopicTest", 0, 90, 32).next_offset == 100
    assert store.get("TopicTest", 0, 90, 32, accepts=lambda code: True).next_offset == 100
    assert store.get("TopicTest", 0, 100, 32).next_offset == 130
    store.close()


def test_an_answer_has_at_most_256_kib_but_at_least_one_message(folder: Path) -> None:
    store, _ = open_store(folder, segment_bytes=4 << 20, message_bytes_max=1 << 20)
    for size in (100_000, 100_000, 100_000, 600_000, 10):
        store.append(message(b"b" * size))
    assert [store.get("TopicTest", 0, offset, 32).count for offset in range(5)] == [2, 2, 1, 1, 1]
    store.close()


def test_what_is_not_in_memory_comes_in_small_answers_and_the_slave_is_suggested(folder: Path) -> None:
    store, _ = open_store(folder, memory_ratio=0, segment_bytes=1 << 20)
    fill(store, 90, 20)
    fetched = store.get("TopicTest", 0, 0, 32)
    assert (fetched.count, fetched.suggest_slave) == (8, True)
    for _ in range(8):
        store.append(message(b"b" * 15_000, queue_id=1))
    assert store.get("TopicTest", 1, 0, 32).count == 4, "64 KiB"
    store.close()
    store, _ = open_store(folder, segment_bytes=1 << 20)
    assert not store.get("TopicTest", 0, 0, 32).suggest_slave
    store.close()


def test_neighbours_in_the_log_come_as_one_part(folder: Path) -> None:
    store, _ = open_store(folder)
    for number in range(12):
        store.append(message(b"a", queue_id=0))
        if number % 3 == 2:
            store.append(message(b"b", queue_id=1))
    assert len(store.get("TopicTest", 0, 0, 3).parts) == 1
    assert len(store.get("TopicTest", 0, 0, 32, accepts=lambda code: True).parts) == 4
    assert len(store.get("TopicTest", 1, 0, 32, accepts=lambda code: True).parts) == 4
    assert len(store.get("TopicTest", 1, 0, 32).parts) == 1, "few and all wanted: joined"
    store.close()


def test_tags_that_do_not_match_are_passed_over(folder: Path) -> None:
    store, _ = open_store(folder)
    for number in range(60):
        store.append(message(b"%d" % number, tags="AB"[number % 2]))
    fetched = store.get("TopicTest", 0, 0, 10, accepts=lambda code: code == tag_hash("B"))
    assert [each.body for each in split_records(b"".join(fetched.parts))] == [
        b"%d" % n for n in range(1, 20, 2)
    ]
    # The loop stops when it meets the first entry it has no room for, wanted or not.
    assert fetched.next_offset == 20
    fetched = store.get("TopicTest", 0, 30, 10, accepts=lambda code: False)
    assert (fetched.status, fetched.next_offset, fetched.count) == (GetStatus.NO_MATCHED_MESSAGE, 60, 0)
    store.close()


def test_one_answer_looks_at_800_entries(folder: Path) -> None:
    store, _ = open_store(folder, consume_queue_bytes=3000 * 20)
    fill(store, 1000, 1)
    assert store.get("TopicTest", 0, 100, 32, accepts=lambda code: False).next_offset == 900
    assert store.get("TopicTest", 0, 100, 850, accepts=lambda code: False).next_offset == 950
    store.close()


def test_a_filter_may_look_at_whole_records(folder: Path) -> None:
    store, _ = open_store(folder)
    fill(store, 20, 1)
    fetched = store.get("TopicTest", 0, 0, 32, matches=TestOf(lambda body: body in (b"3", b"7")))
    assert [each.body for each in split_records(b"".join(fetched.parts))] == [b"3", b"7", b"3", b"7"]
    assert (fetched.status, fetched.next_offset, fetched.count) == (GetStatus.FOUND, 20, 4)
    few = store.get("TopicTest", 0, 2, 3, matches=TestOf(lambda body: body in (b"3", b"4", b"7")))
    assert [each.body for each in split_records(b"".join(few.parts))] == [b"3", b"4", b"7"]
    assert len(few.parts) == 2, "neighbours in the log come as one piece"
    assert few.next_offset == 8, "what was not looked at comes next time"
    none = store.get("TopicTest", 0, 2, 3, matches=TestOf(lambda body: False))
    assert (none.status, none.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 20)
    store.close()


def test_messages_whose_file_is_gone_are_skipped_file_by_file(folder: Path) -> None:
    store, _ = open_store(folder, pull_bytes_max_memory=1 << 20)
    fill(store, 60, 4000)
    store.log.drop_first()  # and the queue has not followed yet
    fetched = store.get("TopicTest", 0, 0, 32)
    entries = store.entries("TopicTest", 0, 0, 60)
    gone = sum(1 for log_offset, _, _ in entries if store.message_at(log_offset) is None)
    assert 0 < gone < 32
    assert fetched.status is GetStatus.FOUND
    assert (fetched.count, fetched.next_offset) == (32, gone + 32)
    few = store.get("TopicTest", 0, 0, 32, accepts=lambda code: False)
    assert few.status is GetStatus.NO_MATCHED_MESSAGE
    while len(store.log.segments) > 1:
        store.log.drop_first()
    left = store.get("TopicTest", 0, 0, 32)
    assert left.status is GetStatus.FOUND
    assert left.min_offset == 0
    store.close()


def test_when_all_messages_looked_at_are_gone_the_consumer_moves_on(folder: Path) -> None:
    store, _ = open_store(folder)
    fill(store, 50)
    while len(store.log.segments) < 2:
        store.append(message(b"x" * 4000, queue_id=1))
    store.log.drop_first()
    fetched = store.get("TopicTest", 0, 10, 32)
    assert (fetched.status, fetched.next_offset) == (GetStatus.MESSAGE_WAS_REMOVING, 50)
    store.close()


def test_a_queue_file_that_is_gone_makes_the_consumer_go_to_the_next(folder: Path) -> None:
    store, _ = open_store(folder)
    fill(store, 250)
    store.close()
    store, _ = open_store(folder)
    (folder / "consumequeue/TopicTest/0/00000000000000002000").unlink()
    store.queue_table.files.forget(str(folder / "consumequeue/TopicTest/0/00000000000000002000"))
    fetched = store.get("TopicTest", 0, 120, 32)
    assert (fetched.status, fetched.next_offset) == (GetStatus.OFFSET_FOUND_NULL, 200)
    store.close()


def test_reads_by_time(folder: Path) -> None:
    store, _ = open_store(folder)
    for ms in (1000, 2000, 3000, 10_000):
        store.append(message(b"%d" % ms), ms)
    asked = {0: 0, 1000: 0, 1400: 0, 1600: 1, 2999: 2, 6000: 2, 7000: 3, 99_999: 3}
    assert {ms: store.offset_by_time("TopicTest", 0, ms) for ms in asked} == asked
    assert store.offset_by_time("Nobody", 0, 5) == 0
    assert store.earliest_ms("TopicTest", 0) == 1000
    assert store.earliest_ms("Nobody", 0) == -1
    store.close()


def test_offsets_that_are_no_message_give_none(folder: Path) -> None:
    store, _ = open_store(folder)
    where = store.append(message(b"\xda\xa3\x20\xa7" * 100))
    for offset in (-1, 1, 4, 84, 88, where.end - 3, where.end, where.end + 1000, 1 << 40):
        assert store.message_at(offset) is None
    assert store.message_at(0) is not None
    store.close()


def test_a_query_gives_the_newest_oldest_first_and_no_collisions(folder: Path) -> None:
    store, _ = open_store(folder)
    # "Aa" and "BB" have the same hash in Java.
    for number in range(40):
        keys = "Aa" if number % 2 else "BB other"
        store.append(message(b"%d" % number, keys=keys, uniq_key=f"ID{number}"), 1_000_000 + 1000 * number)
    found = query(store, "TopicTest", "BB", 0, 1 << 62, 5)
    assert [each.body for each in found.messages] == [b"30", b"32", b"34", b"36", b"38"]
    newest = found.messages[-1]
    assert (found.index_last_ms, found.index_last_offset) == (1_039_000, newest.log_offset + newest.size)
    assert [each.body for each in query(store, "TopicTest", "ID7", 0, 1 << 62, 5).messages] == [b"7"]
    found = query(store, "TopicTest", "Aa", 1_004_000, 1_009_000, 32)
    assert [each.body for each in found.messages] == [b"5", b"7", b"9"]
    assert query(store, "Other", "Aa", 0, 1 << 62, 5).messages == []
    assert len(bodies(store)) == 40
    store.close()


def test_the_place_of_a_lost_message_is_no_record(tmp_path: Path) -> None:
    store, _ = open_store(tmp_path)
    first = store.append(message(b"first"))
    queue = store.queue_table.get("TopicTest", 0)
    assert queue is not None
    queue.skip(1)
    third = store.append(message(b"third"))
    entries = store.entries("TopicTest", 0, 0, 10)
    assert [log_offset for log_offset, _, _ in entries] == [first.log_offset, NO_RECORD, third.log_offset]
    assert store.message_at(NO_RECORD) is None
    assert bodies(store) == [b"first", b"third"]
    store.close()


def test_a_damaged_message_is_not_found_so_that_nobody_stores_it_again(tmp_path: Path) -> None:
    store, _ = open_store(tmp_path)
    stored = store.append(message(b"body"))
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(89)
        file.write(b"!")
    assert store.message_at(stored.log_offset) is None
    store.close()
