"""The laws of planning: what a batch takes, what is lost, how ranges become tasks."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.model.queue import MessageQueue
from rocketeer.spark.source.offsets import from_json, to_json
from rocketeer.spark.source.planning import (
    QueueRange,
    clip,
    group_small,
    must_wait,
    share,
    share_bytes,
    split,
)

queues = st.builds(
    MessageQueue, st.sampled_from(["A", "B", "C-1"]), st.sampled_from(["a", "b"]), st.integers(0, 30)
)
backlogs = st.dictionaries(queues, st.integers(0, 10**6), max_size=20)
places = st.dictionaries(queues, st.integers(0, 10**15), max_size=20)
ranges = st.dictionaries(queues, st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)), max_size=10).map(
    lambda found: [QueueRange(queue, begin, begin + size) for queue, (begin, size) in sorted(found.items())]
)


@settings(deadline=None)
@given(places)
def test_the_same_places_always_give_the_same_text(found: dict[MessageQueue, int]) -> None:
    backwards = dict(reversed(list(found.items())))
    assert json.dumps(to_json(found)) == json.dumps(to_json(backwards))
    assert from_json(json.loads(json.dumps(to_json(found)))) == found
    assert json.dumps(to_json(found)) == json.dumps(to_json(found), sort_keys=True)


@settings(deadline=None)
@given(backlogs, st.integers(1, 10**7))
def test_a_limit_is_never_passed_and_always_used_up(backlog: dict[MessageQueue, int], limit: int) -> None:
    shares = share(backlog, limit)
    assert sum(shares.values()) == min(limit, sum(backlog.values()))
    assert all(0 < count <= backlog[queue] for queue, count in shares.items())
    waiting = [queue for queue, count in backlog.items() if count]
    if limit >= len(waiting):
        assert set(shares) == set(waiting), "no queue starves"


@settings(deadline=None)
@given(backlogs, st.integers(1, 10**9), st.floats(1, 10**6))
def test_a_byte_limit_is_kept_unless_not_even_one_message_fits(
    backlog: dict[MessageQueue, int], limit: int, mean: float
) -> None:
    shares = share_bytes(backlog, dict.fromkeys(backlog, mean), limit)
    assert all(0 < count <= backlog[queue] for queue, count in shares.items())
    if any(backlog.values()):
        assert shares, "a stream moves on"
        assert sum(shares.values()) * mean <= max(limit, mean) * 1.0001


def test_a_batch_waits_for_its_minimum_but_not_for_ever() -> None:
    assert not must_wait(5, None, 0, 1000)
    assert not must_wait(5, 10, None, 1000), "the first batch begins at once"
    assert must_wait(5, 10, 999, 1000)
    assert not must_wait(5, 10, 1000, 1000)
    assert not must_wait(10, 10, 0, 1000)


@settings(deadline=None)
@given(ranges, st.none() | st.integers(1, 50), st.none() | st.integers(1000, 10**6))
def test_splitting_loses_and_doubles_nothing(
    whole: list[QueueRange], min_partitions: int | None, max_records: int | None
) -> None:
    pieces = split(whole, min_partitions, max_records)
    for piece in whole:
        mine = [part for part in pieces if part.queue == piece.queue]
        at = piece.begin
        for part in mine:
            assert part.begin == at, "in order, without hole or overlap"
            at = part.end
        assert at == piece.end or not piece.records
    assert all(part.records > 0 for part in pieces)
    if max_records is not None:
        assert all(part.records <= max_records for part in pieces)
    total = sum(piece.records for piece in whole)
    if min_partitions is not None:
        assert len(pieces) >= min(min_partitions, total)


@settings(deadline=None)
@given(ranges)
def test_small_ranges_share_tasks_within_one_broker(pieces: list[QueueRange]) -> None:
    tasks = group_small(pieces, None, small=1000)
    assert sorted(part for task in tasks for part in task) == sorted(pieces)
    for task in tasks:
        assert len({part.queue.broker_name for part in task}) == 1
        assert len(task) == 1 or sum(part.records for part in task) <= 1000


QUEUE = MessageQueue("Orders", "broker-a", 3)


def test_what_retention_deleted_is_told_and_left_out() -> None:
    kept, loss = clip(QueueRange(QUEUE, 5, 20), 8, 30)
    assert kept == QueueRange(QUEUE, 8, 20)
    assert loss is not None
    assert "3 messages [5, 8) of queue 3 of topic 'Orders'" in str(loss)
    kept, loss = clip(QueueRange(QUEUE, 5, 20), 25, 30)
    assert kept is None
    assert loss is not None
    assert (loss.begin, loss.end) == (5, 20)


def test_offsets_that_went_back_are_told_and_the_new_messages_read() -> None:
    kept, loss = clip(QueueRange(QUEUE, 100, 5), 0, 5)
    assert kept == QueueRange(QUEUE, 0, 5)
    assert loss is not None
    assert "went back from 100 to 5" in str(loss)


def test_a_range_beyond_the_end_is_cut() -> None:
    kept, loss = clip(QueueRange(QUEUE, 10, 20), 0, 15)
    assert kept == QueueRange(QUEUE, 10, 15)
    assert loss is not None
    assert (loss.begin, loss.end) == (15, 20)


def test_nothing_is_lost_of_what_is_there() -> None:
    assert clip(QueueRange(QUEUE, 10, 20), 0, 20) == (QueueRange(QUEUE, 10, 20), None)
    assert clip(QueueRange(QUEUE, 10, 10), 15, 20) == (None, None)
