"""Laws of the index: what is found, how files follow each other, and when they get what memory has."""

import os
from pathlib import Path

import pytest

from rocketeer.store.file_cache import delete_paths, sync_paths
from rocketeer.store.index import WAITING_KEYS_MAX
from support.index_reference import entry
from support.indexes import (
    START_MS,
    contents,
    drain,
    everything,
    expected,
    filled,
    messages,
    opened,
    query,
    write_slots,
)


def test_keys_and_uniq_keys_are_found_newest_first_over_files(tmp_path: Path) -> None:
    index = filled(tmp_path, messages(50))
    assert len(os.listdir(tmp_path / "index")) == 4
    assert everything(index, "shared") == [n * 100 for n in reversed(range(50))]
    assert everything(index, "k7") == [700]
    assert everything(index, "U000049") == [4900]
    assert everything(index, "none") == []
    assert query(index, "Other", "shared", 0, 1 << 60, 1000) == []
    assert query(index, "T", "shared", 0, 1 << 60, 3) == [4900, 4800, 4700]


def test_messages_that_still_wait_are_found_too(tmp_path: Path) -> None:
    index = opened(tmp_path)
    index.add(entry(0, keys="k"))
    assert everything(index, "k") == [0]


def test_the_time_range_counts_whole_seconds_from_the_files_begin(tmp_path: Path) -> None:
    index = opened(tmp_path, entries=1000)
    for message in messages(10):
        index.add(message)
    begin = START_MS
    assert query(index, "T", "shared", begin, begin + 999, 99) == [100, 0]
    assert query(index, "T", "shared", begin + 2000, begin + 3000, 99) == [500, 400, 300]
    assert query(index, "T", "shared", begin + 1, begin + 999, 99) == []
    assert query(index, "T", "shared", begin - 9000, begin - 1, 99) == []
    assert query(index, "T", "shared", begin + 6300, begin + 99_000, 99) == []
    assert query(index, "T", "shared", begin + 6000, begin + 99_000, 99) == [900]


def test_keys_that_wait_are_bounded_however_many_come(tmp_path: Path) -> None:
    index = opened(tmp_path, slots=1_000, entries=WAITING_KEYS_MAX)
    many = 100_000
    for n in range(2 * WAITING_KEYS_MAX // many):
        hashes = (n % 7).to_bytes(4, "little") * many
        index.extend_columns(
            (hashes, n.to_bytes(8, "little") * many, START_MS.to_bytes(8, "little") * many), 1, n, n + 1
        )
        assert index.pending_keys <= WAITING_KEYS_MAX + many
    drain(index)
    assert index.pending_keys == 0
    assert index.next_offset == 2 * WAITING_KEYS_MAX // many


def test_nothing_is_made_before_the_first_key(tmp_path: Path) -> None:
    index = opened(tmp_path)
    assert not index.flush_pending()
    assert not (tmp_path / "index").exists()
    assert everything(index, "k") == []
    assert index.last_update == (0, 0)


def test_messages_without_keys_move_the_safe_offset_on(tmp_path: Path) -> None:
    index = opened(tmp_path)
    for n in range(3):
        index.add(entry(n * 100))
    assert index.safe_offset(300) == 0
    drain(index)
    assert index.safe_offset(300) == 300
    assert index.next_offset == 300


def test_a_rolled_back_message_is_not_indexed(tmp_path: Path) -> None:
    index = filled(tmp_path, [entry(0, uniq="u", sys_flag=4), entry(100, uniq="u", sys_flag=12)])
    assert everything(index, "u") == [0]


def test_dispatching_again_adds_nothing(tmp_path: Path) -> None:
    index = filled(tmp_path, messages(10))
    for message in messages(12):
        index.add(message)
    drain(index)
    assert everything(index, "shared") == [n * 100 for n in reversed(range(12))]
    write_slots(index)
    assert contents(tmp_path) == expected(messages(12))


def test_a_clean_restart_goes_on_where_it_stopped(tmp_path: Path) -> None:
    filled(tmp_path, messages(20)).close()
    index = opened(tmp_path)
    assert index.load(clean=True) == []
    assert index.last_update == (START_MS + 19 * 700, 1900)
    for message in messages(25):
        index.add(message)
    drain(index)
    write_slots(index)
    assert contents(tmp_path) == expected(messages(25))


def test_names_are_times_and_never_repeat(tmp_path: Path) -> None:
    filled(tmp_path, messages(60))
    names = sorted(os.listdir(tmp_path / "index"))
    assert len(names) == 5
    assert all(len(name) == 17 and name.isdigit() for name in names)
    assert [int(name) - int(names[0]) for name in names] == [0, 1, 2, 3, 4]


def test_other_names_and_half_made_files_do_not_matter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path, messages(5)).close()
    (tmp_path / "index" / "readme").write_text("x")
    (tmp_path / "index" / ".next").write_bytes(b"left by a dead process")
    index = opened(tmp_path)
    assert index.load(clean=True) == []
    assert "readme" in caplog.text
    assert sorted(os.listdir(tmp_path / "index"))[1:] == ["readme"]


def test_files_follow_the_logs_minimum_but_the_last_one_stays(tmp_path: Path) -> None:
    index = filled(tmp_path, messages(50))
    ends = [1200, 2500, 3800, 4900]
    assert index.delete_below(ends[0]) == []
    paths = index.delete_below(ends[1] + 1)
    assert len(paths) == 2
    assert delete_paths(paths) == 2
    assert everything(index, "shared")[-1] == 2600
    assert len(index.delete_below(1 << 60)) == 1
    assert everything(index, "shared")[0] == 4900


def test_an_index_removed_is_made_again_the_same(tmp_path: Path) -> None:
    index = filled(tmp_path, messages(50))
    write_slots(index)
    before = contents(tmp_path)
    index.remove()
    assert os.listdir(tmp_path / "index") == []
    for message in messages(50):
        index.add(message)
    drain(index)
    write_slots(index)
    assert contents(tmp_path) == before


def test_a_large_file_is_made_ready_in_steps_that_do_not_hold_the_loop(tmp_path: Path) -> None:
    index = opened(tmp_path, slots=500_000, entries=1_000)
    index.add(entry(0, keys="k"))
    turns = 0
    while index.flush_pending():
        turns += 1
    assert turns >= 4
    path = next((tmp_path / "index").glob("2*"))
    assert path.stat().st_blocks * 512 < path.stat().st_size + 1_000_000
    assert everything(index, "k") == [0]


def test_written_files_are_named_for_the_syncing_thread(tmp_path: Path) -> None:
    index = filled(tmp_path, messages(20))
    paths = write_slots(index)
    assert paths == sorted([str(tmp_path / "index"), *map(str, (tmp_path / "index").iterdir())])
    sync_paths(paths)
    assert index.take_unsynced() == ([], [])


def test_slots_reach_the_file_with_the_next_checkpoint_and_only_those_that_changed(tmp_path: Path) -> None:
    index = opened(tmp_path, slots=500_000, entries=1_000)
    for message in messages(20):
        index.add(message)
    drain(index)
    ((first,), _) = index.take_unsynced()
    assert 0 < sum(end - start for start, end in first.ranges) <= 41 * 4096
    first.write()
    index.add(entry(2000, keys="shared"))
    drain(index)
    ((second,), _) = index.take_unsynced()
    assert [end - start for start, end in second.ranges] == [4096]
    reopened = opened(tmp_path, slots=500_000, entries=1_000)
    assert reopened.load(clean=True) == []
    assert everything(reopened, "shared")[0] == 1900
    second.write()
    reopened = opened(tmp_path, slots=500_000, entries=1_000)
    assert reopened.load(clean=True) == []
    assert everything(reopened, "shared") == [n * 100 for n in reversed(range(21))]


def test_full_files_answer_before_and_after_their_slots_are_written(tmp_path: Path) -> None:
    index = filled(tmp_path, messages(50))
    all_of_them = [n * 100 for n in reversed(range(50))]
    assert everything(index, "shared") == all_of_them
    changed, _ = index.take_unsynced()
    assert len(changed) == 4
    assert everything(index, "shared") == all_of_them, "taken, and not written yet"
    index.write_again()
    assert len(index.take_unsynced()[0]) == 4, "the disk did not take them: all of it again"
    for slots in changed:
        slots.write()
    assert index.take_unsynced() == ([], [])
    assert everything(index, "shared") == all_of_them


def test_slots_that_change_while_they_are_written_lead_to_newer_entries(tmp_path: Path) -> None:
    index = filled(tmp_path, messages(5))
    changed, _ = index.take_unsynced()
    for message in messages(3, start=5):
        index.add(message)
    drain(index)
    for slots in changed:
        slots.write()
    reopened = opened(tmp_path)
    assert reopened.load(clean=True) == []
    assert everything(reopened, "shared") == [n * 100 for n in reversed(range(8))]


def test_small_files_that_fill_up_before_a_checkpoint_do_not_stay_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    index = filled(tmp_path, messages(400))
    assert len(list((tmp_path / "index").glob("2*"))) > 30
    assert len(os.listdir("/proc/self/fd")) < before + 20
    assert everything(index, "shared") == [n * 100 for n in reversed(range(400))]
    write_slots(index)
    assert contents(tmp_path) == expected(messages(400))
