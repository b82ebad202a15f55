"""The tables of idempotent producers against the obvious: dicts that remember everything."""

import time
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.broker.features.idempotence.sequences import PLACES_KEPT, Sequences
from rocketeer.store.known_ids import KnownIds
from rocketeer.store.snapshot_file import load_snapshot, save_snapshot
from support.resends import saved_ids, saved_sequences

# Few hashes, equal in their low bits: chains, wrap-around and repeats all the time.
HASHES = st.sampled_from(
    [*range(8), *(7 << 60 | low for low in range(8)), *(15 << 56 | low for low in (6, 7))]
)

SALT = b"sixteen bytes ok"


def copy_of(ids: KnownIds, capacity: int | None = None) -> KnownIds:
    copied = KnownIds(capacity or ids.capacity, SALT)
    copied.load(*saved_ids(ids))
    return copied


@given(st.lists(st.tuples(HASHES, st.booleans())), st.integers(1, 7))
@settings(max_examples=300, deadline=None)
def test_the_newest_ids_are_known_and_a_saved_table_is_the_same(
    steps: list[tuple[int, bool]], capacity: int
) -> None:
    ids = KnownIds(capacity, SALT)
    order: list[tuple[int, int]] = []
    for offset, (hashed, saved) in enumerate(steps):
        ids.add(hashed, offset)
        order = [*order, (hashed, offset)][-capacity:]
        known = dict(order)
        assert {each: ids.find(each) for each in range(8)} == {each: known.get(each) for each in range(8)}
        for each, _ in steps:
            assert ids.find(each) == known.get(each)
        if saved:
            ids = copy_of(ids)
    assert len(ids) == min(len(steps), capacity)


def test_a_table_with_less_room_keeps_the_newest() -> None:
    ids = KnownIds(10, SALT)
    for number in range(25):
        ids.add(number, 100 + number)
    small = copy_of(ids, 4)
    assert [small.find(number) for number in range(20, 25)] == [None, 121, 122, 123, 124]


def test_a_million_ids_take_less_than_a_hundred_bytes_each() -> None:
    ids = KnownIds(4_000_000, SALT)
    reserved = len(ids._slots) * 4 + len(ids._hashes) * 8 + len(ids._offsets) * 8
    assert reserved / ids.capacity < 30


LANES = st.sampled_from([("p", "T", 0), ("p", "T", 1), ("q", "T", 0)])


@given(st.lists(st.tuples(LANES, st.integers(0, 3), st.booleans())), st.integers(1, 4))
@settings(max_examples=300, deadline=None)
def test_a_sequence_knows_its_next_number_and_its_last_places(
    steps: list[tuple[tuple[str, str, int], int, bool]], window: int
) -> None:
    sequences = Sequences(window=window, sequences_max=100, idle_ms=1000)
    stored: dict[tuple[str, str, int], list[int]] = {}
    for offset, (key, back, saved) in enumerate(steps):
        numbers = stored.setdefault(key, [])
        sequence = max(len(numbers) - back, 0)
        sequences.add(key, sequence, offset, offset)
        if sequence == len(numbers):
            numbers.append(offset)
        assert sequences.expected(key) == len(numbers)
        for number in range(len(numbers) + 2):
            known = len(numbers) - window <= number < len(numbers)
            assert sequences.place(key, number) == (numbers[number] if known else None)
        if saved:
            again = Sequences(window=window, sequences_max=100, idle_ms=1000)
            again.load(saved_sequences(sequences))
            assert saved_sequences(again) == saved_sequences(sequences)
            sequences = again


def test_idle_sequences_go_and_the_one_used_longest_ago_makes_room() -> None:
    sequences = Sequences(window=4, sequences_max=2, idle_ms=1000)
    sequences.add(("a", "T", 0), 0, 10, 0)
    sequences.add(("b", "T", 0), 0, 20, 500)
    sequences.add(("a", "T", 0), 1, 30, 600)
    sequences.add(("c", "T", 0), 0, 40, 700)
    assert [sequences.expected((name, "T", 0)) for name in "abc"] == [2, 0, 1]
    assert sequences.expire(1600, 9) == 0
    assert sequences.expire(1601, 9) == 1
    assert sequences.expected(("a", "T", 0)) == 0


def test_a_broken_snapshot_is_no_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "config" / "table.bin"
    assert load_snapshot(path) is None
    save_snapshot(path, [b"abc", b"def"])
    assert bytes(load_snapshot(path) or b"") == b"abcdef"
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at])
        assert load_snapshot(path) is None
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert load_snapshot(path) is None


def test_sequences_that_end_together_are_forgotten_some_at_a_time_and_told_without_those_that_went() -> None:
    sequences = Sequences(window=4, sequences_max=10_000, idle_ms=1_000)
    for number in range(2_000):
        sequences.add((f"p{number}", "T", 0), 0, number, 0)
    told = sequences.dump_slices(500)
    assert len(next(told)) == 500
    assert sequences.expire(1_001, 700) == 700
    assert [saved.producer for saved in next(told)] == [f"p{number}" for number in range(700, 1_000)]
    assert [sequences.expire(1_001, 700) for _ in range(3)] == [700, 600, 0]
    assert len(sequences) == 0


def test_a_full_table_takes_new_sequences_as_quickly_as_an_empty_one() -> None:
    """Each used to look for the oldest one behind all that were forgotten before it: a batch took 47 to 207 ms."""
    sequences = Sequences(window=4, sequences_max=200_000, idle_ms=1000)
    for number in range(200_000):
        sequences.add((f"p{number}", "T", 0), 0, 1, 1)
    began_s = time.process_time()
    for number in range(200_000, 400_000):
        sequences.add((f"p{number}", "T", 0), 0, 1, 1)
    assert time.process_time() - began_s < 1.5
    assert 199_000 < len(sequences) <= 200_000
    assert sequences.expected(("p399999", "T", 0)) == 1
    assert sequences.expected(("p199000", "T", 0)) == 0
    assert len(saved_sequences(sequences)) == len(sequences)


def test_places_of_all_sequences_together_are_bounded_and_those_used_longest_ago_lose_all_but_their_last() -> (
    None
):
    """200,000 sequences with 2,000 places each took 3.2 GB, and a snapshot of them as much again."""
    sequences = Sequences(window=1_000, sequences_max=200_000, idle_ms=1000, places_max=10_000)
    for producer in range(40):
        for number in range(1_500):
            sequences.add((f"p{producer}", "T", 0), number, 10_000 * producer + number, 1)
            assert sequences.places_count <= 10_000
    key = ("p0", "T", 0)
    assert (sequences.expected(key), sequences.oldest_known(key)) == (1_500, 1_500 - PLACES_KEPT)
    assert sequences.place(key, 1_499) == 1_499
    assert sequences.place(key, 1_000) is None
    assert sequences.oldest_known(("p39", "T", 0)) == 500
    assert sequences.place(("p39", "T", 0), 500) == 390_500
    sequences.add(key, 1_500, 7, 1)
    assert sequences.place(key, 1_499) == 1_499
    again = Sequences(window=1_000, sequences_max=200_000, idle_ms=1000, places_max=5_000)
    again.load(saved_sequences(sequences))
    assert again.places_count <= 5_000
    assert [again.expected((f"p{producer}", "T", 0)) for producer in (0, 1, 39)] == [1_501, 1_500, 1_500]


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from([1, 1, 1, 30, 200]), st.integers(0, 20)), max_size=60
    )
)
@settings(max_examples=100, deadline=None)
def test_the_count_of_places_is_what_sequences_hold(steps: list[tuple[int, int, int]]) -> None:
    sequences = Sequences(window=50, sequences_max=6, idle_ms=10, places_max=6 * PLACES_KEPT)
    now_ms = 0
    for producer, messages, passed_ms in steps:
        now_ms += passed_ms
        sequences.expire(now_ms, 2)
        key = (f"p{producer}", "T", 0)
        for number in range(messages):
            gap = 3 if number == 40 else 0
            sequences.add(key, sequences.expected(key) + gap, number, now_ms)
        held = sum(len(known.places) for known in sequences._sequences.values())
        assert sequences.places_count == held <= 6 * PLACES_KEPT
