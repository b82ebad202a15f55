"""What a returning member cuts is gone for good, and what is not confirmed is seen by nobody."""

import shutil
from collections.abc import Callable
from pathlib import Path

from rocketeer.answers import ANSWERS_AT_ONCE
from rocketeer.config import BrokerRole
from rocketeer.steps import finish
from rocketeer.store.confirmed import ConfirmedLog
from rocketeer.store.cutting import cut_store
from rocketeer.store.message_store import GetStatus
from support.clock import ManualClock
from support.stores import make_bounded_store, message, open_store, query, small_config


def test_what_was_cut_is_off_the_disk_and_queues_go_on_densely(tmp_path: Path) -> None:
    """RocketMQ issues 10666 (the cut was in memory only) and 7689 (queue offsets of the tail came twice)."""
    store, _ = open_store(tmp_path / "s")
    entries = [store.append(message(b"%02d" % number * 200, keys=f"k{number}")) for number in range(10)]
    store.close()
    cut = entries[6].log_offset
    assert cut_store(small_config(tmp_path / "s"), cut, tables=()) > 0
    raw = (tmp_path / "s" / "commitlog" / f"{0:020d}").read_bytes()
    assert not any(raw[cut:])
    shutil.copytree(
        tmp_path / "s", tmp_path / "crashed"
    )  # right after the cut, before anything was derived again
    for folder in ("s", "crashed"):
        again, report = open_store(tmp_path / folder)
        assert report.log_max == cut
        assert again.max_queue_offset("TopicTest", 0) == 6
        assert query(again, "TopicTest", "k7", 0, 1 << 62, 10).messages == []
        assert again.append(message(b"new")).queue_offset == 6
        again.close()


def test_nobody_reads_behind_what_is_confirmed_and_nobody_is_sent_back(tmp_path: Path) -> None:
    store, bound = make_bounded_store(tmp_path)
    store.open()
    entries = [store.append(message(b"%d" % number)) for number in range(50)]
    for confirmed in (0, 1, 2, 17, 49, 50):
        bound.advance(entries[confirmed].log_offset if confirmed < 50 else store.max_log_offset)
        assert store.max_queue_offset("TopicTest", 0) == confirmed
        found = store.get("TopicTest", 0, 0, 100)
        assert found.count == min(confirmed, 32)
        assert found.max_offset == confirmed
        if confirmed < 50:
            behind = store.get("TopicTest", 0, 50, 32)
            assert (behind.status, behind.next_offset) == (GetStatus.OFFSET_OVERFLOW_ONE, 50)
    store.close()


def test_queries_and_slaves_that_read_along_see_no_further_than_what_is_confirmed(tmp_path: Path) -> None:
    store, bound = make_bounded_store(tmp_path)
    store.open()
    first, second = store.append(message(b"1", keys="k")), store.append(message(b"2", keys="k"))
    sent = ConfirmedLog(store.log, bound)
    for confirmed, bodies in (
        (0, []),
        (first.end, [b"1"]),
        (second.end - 1, [b"1"]),
        (second.end, [b"1", b"2"]),
    ):
        bound.advance(confirmed)
        found = finish(store.lookup.querying("TopicTest", "k", 0, 1 << 62, 10))
        assert sorted(each.body for each in found.messages) == bodies
        places = [store.lookup.message_at(each.log_offset) for each in (first, second)]
        assert [each.body for each in places if each is not None] == bodies
        assert sent.max_offset == confirmed
        assert sent.read(confirmed, 1) is None
    store.close()


def test_arrivals_are_told_when_they_are_confirmed(tmp_path: Path) -> None:
    store, bound = make_bounded_store(tmp_path)
    told: list[tuple[str, int, int]] = []
    awaited = {("TopicTest", 0)}
    store.listeners.append((awaited, bound.listener(awaited, lambda *news: told.append(news))))
    store.open()
    first, second = store.append(message(b"1")), store.append(message(b"2"))
    assert told == []
    bound.advance(first.end)
    bound.advance(second.end)
    assert told == [("TopicTest", 0, 1), ("TopicTest", 0, 2)]
    store.close()


def test_arrivals_in_many_queues_are_told_some_at_a_time_each_once(tmp_path: Path) -> None:
    later: list[Callable[[], None]] = []
    store, bound = make_bounded_store(tmp_path, post=later.append, segment_bytes=1 << 20)
    told: list[tuple[str, int, int]] = []
    awaited = {("TopicTest", number) for number in range(500)}
    store.listeners.append((awaited, bound.listener(awaited, lambda *news: told.append(news))))
    store.open()
    first = [store.append(message(b"1", queue_id=number)) for number in range(500)]
    second = [store.append(message(b"2", queue_id=number)) for number in range(500)]
    later.clear()
    bound.advance(first[299].end)
    assert len(told) == ANSWERS_AT_ONCE
    while later:
        before = len(told)
        later.pop()()
        assert len(told) - before <= ANSWERS_AT_ONCE
    assert told == [("TopicTest", number, 1) for number in range(300)]
    told.clear()
    bound.advance(second[-1].end)
    while later:
        later.pop()()
    assert sorted({number for _, number, end in told if end == 2}) == list(range(500))
    assert len(told) == 500
    store.close()


def test_a_pull_that_cannot_be_answered_keeps_nobody_else_from_news(tmp_path: Path) -> None:
    later: list[Callable[[], None]] = []
    store, bound = make_bounded_store(tmp_path, post=later.append, segment_bytes=1 << 20)
    told: list[int] = []
    awaited = {("TopicTest", number) for number in range(200)}

    def arrived(topic: str, queue_id: int, end: int) -> None:
        if queue_id in (0, 70, 150):
            raise ValueError(queue_id)
        told.append(queue_id)

    store.listeners.append((awaited, bound.listener(awaited, arrived)))
    store.open()
    entries = [store.append(message(b"1", queue_id=number)) for number in range(200)]
    later.clear()
    for last in (9, 139, 199):
        bound.advance(entries[last].end)
        while later:
            later.pop()()
    assert told == [number for number in range(200) if number not in (0, 70, 150)]
    store.close()


def test_who_waits_for_more_of_a_queue_hears_of_it_before_another_queues_message_is_confirmed(
    tmp_path: Path,
) -> None:
    store, bound = make_bounded_store(tmp_path)
    told: list[tuple[int, int]] = []
    awaited = {("TopicTest", 0), ("TopicTest", 1)}
    store.listeners.append((awaited, bound.listener(awaited, lambda topic, *news: told.append(news))))
    store.open()
    first, second, third, other = [store.append(message(queue_id=number)) for number in (0, 0, 0, 1)]
    bound.advance(first.end)
    assert told == [(0, 1)]
    bound.advance(second.end)
    assert told == [(0, 1), (0, 2)]
    bound.advance(third.end)
    assert told == [(0, 1), (0, 2), (0, 3)]
    bound.advance(other.end)
    assert told == [(0, 1), (0, 2), (0, 3), (1, 1)]
    store.close()


def test_a_copied_part_with_a_message_and_the_end_of_its_topic_stops_nothing_although_somebody_waits(
    tmp_path: Path,
) -> None:
    leader, _ = open_store(tmp_path / "leader")
    leader.append(message(b"1"))
    leader.delete_topic("TopicTest")
    leader.append(message(b"2", topic="Other"))
    copied = bytes(leader.log.read(0, leader.max_log_offset) or b"")
    leader.close()
    follower, bound = make_bounded_store(tmp_path / "follower", broker_role=BrokerRole.SLAVE)
    told: list[tuple[str, int, int]] = []
    awaited = {("TopicTest", 0), ("Other", 0)}
    follower.listeners.append((awaited, bound.listener(awaited, lambda *news: told.append(news))))
    follower.open()
    follower.append_raw(0, memoryview(copied))
    bound.advance(follower.max_log_offset)
    assert told == [("Other", 0, 1)]
    follower.close()


def test_what_is_not_confirmed_takes_no_place_in_a_query_and_is_no_offset_of_a_time(tmp_path: Path) -> None:
    clock = ManualClock()
    store, bound = make_bounded_store(tmp_path, clock)
    store.open()
    times, entries = [], []
    for number in range(5):
        times.append(clock.now_ms())
        entries.append(store.append(message(b"%d" % number, keys="k")))
        clock.advance(ms=1_000)
    for confirmed in range(6):
        bound.advance(entries[confirmed - 1].end if confirmed else entries[0].log_offset)
        found = finish(store.lookup.querying("TopicTest", "k", 0, 1 << 62, 1))
        assert [each.body for each in found.messages] == ([b"%d" % (confirmed - 1)] if confirmed else [])
        offsets = [store.offset_by_time("TopicTest", 0, at_ms) for at_ms in times]
        assert offsets == [min(number, max(confirmed - 1, 0)) for number in range(5)]
    assert not store.lookup.is_damaged(entries[4].log_offset)
    store.close()
