"""Laws of the index: what is found, how files follow each other, and what a death in the middle leaves."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from rocketeer.clock import ManualClock
from rocketeer.record.entry import DispatchEntry
from rocketeer.store.file_cache import delete_paths, sync_paths
from rocketeer.store.index import Index
from rocketeer.store.index_file import IndexFile
from support.index_reference import content_of, entry, reference_files

SLOTS, ENTRIES = 16, 40
START_MS = 1_700_000_000_000


def opened(folder: Path, *, slots: int = SLOTS, entries: int = ENTRIES) -> Index:
    return Index(folder / "index", slots, entries, ManualClock(START_MS))


def drain(index: Index) -> None:
    while index.flush_pending():
        pass
    assert index.pending_count == 0


def filled(folder: Path, messages: Sequence[DispatchEntry]) -> Index:
    index = opened(folder)
    for message in messages:
        index.add(message)
    drain(index)
    return index


def messages(count: int, start: int = 0) -> list[DispatchEntry]:
    return [
        entry(n * 100, keys=f"k{n} shared", uniq=f"U{n:06d}", store_ms=START_MS + n * 700)
        for n in range(start, start + count)
    ]


def contents(folder: Path) -> list[object]:
    return [content_of(path, SLOTS, ENTRIES) for path in sorted((folder / "index").glob("2*"))]


def expected(written: Sequence[DispatchEntry]) -> list[object]:
    return [file.content() for file in reference_files(written, SLOTS, ENTRIES)]


def everything(index: Index, key: str) -> list[int]:
    return index.query("T", key, 0, 1 << 60, 1000)


def test_keys_and_uniq_keys_are_found_newest_first_over_files(tmp_path: Path) -> None:
    index = filled(tmp_path, messages(50))
    assert len(os.listdir(tmp_path / "index")) == 4
    assert everything(index, "shared") == [n * 100 for n in reversed(range(50))]
    assert everything(index, "k7") == [700]
    assert everything(index, "U000049") == [4900]
    assert everything(index, "none") == []
    assert index.query("Other", "shared", 0, 1 << 60, 1000) == []
    assert index.query("T", "shared", 0, 1 << 60, 3) == [4900, 4800, 4700]


def test_messages_that_still_wait_are_found_too(tmp_path: Path) -> None:
    index = opened(tmp_path)
    index.add(entry(0, keys="k"))
    assert everything(index, "k") == [0]


def test_the_time_range_counts_whole_seconds_from_the_files_begin(tmp_path: Path) -> None:
    index = opened(tmp_path, entries=1000)
    for message in messages(10):
        index.add(message)
    begin = START_MS
    assert index.query("T", "shared", begin, begin + 999, 99) == [100, 0]
    assert index.query("T", "shared", begin + 2000, begin + 3000, 99) == [500, 400, 300]
    assert index.query("T", "shared", begin + 1, begin + 999, 99) == []
    assert index.query("T", "shared", begin - 9000, begin - 1, 99) == []
    assert index.query("T", "shared", begin + 6300, begin + 99_000, 99) == []
    assert index.query("T", "shared", begin + 6000, begin + 99_000, 99) == [900]


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
    assert contents(tmp_path) == expected(messages(12))


def test_a_clean_restart_goes_on_where_it_stopped(tmp_path: Path) -> None:
    filled(tmp_path, messages(20)).close()
    index = opened(tmp_path)
    assert index.load(clean=True) == []
    assert index.last_update == (START_MS + 19 * 700, 1900)
    for message in messages(25):
        index.add(message)
    drain(index)
    assert contents(tmp_path) == expected(messages(25))


def test_names_are_times_and_never_repeat(tmp_path: Path) -> None:
    filled(tmp_path, messages(60))
    names = sorted(os.listdir(tmp_path / "index"))
    assert len(names) == 5
    assert all(len(name) == 17 and name.isdigit() for name in names)
    assert [int(name) - int(names[0]) for name in names] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("safe", [0, 100, 900, 1300, 2500, 2600, 3900, 4000])
def test_after_a_crash_and_dispatching_again_it_is_as_if_nothing_happened(tmp_path: Path, safe: int) -> None:
    filled(tmp_path, messages(40)).close()
    index = opened(tmp_path)
    index.load(clean=False, safe_offset=safe)
    assert index.next_offset <= safe
    for message in messages(45):
        if message.log_offset >= safe:
            index.add(message)
    drain(index)
    index.close()
    assert contents(tmp_path) == expected(messages(45))


def snapshots_of_a_put(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Copies of the files before, between and after the steps of writing the second half of 20 messages."""
    index = filled(folder, messages(10))
    taken: list[Path] = []

    def copy() -> None:
        taken.append(folder / f"copy{len(taken)}")
        shutil.copytree(folder / "index", taken[-1] / "index")

    def then_copy(name: str) -> Callable[..., None]:
        real = getattr(IndexFile, name)

        def step(*args: object) -> None:
            real(*args)
            copy()

        return step

    copy()
    with monkeypatch.context() as patched:
        for name in ("_write_entries", "_set_header"):
            patched.setattr(IndexFile, name, then_copy(name))
        for message in messages(10, start=10):
            index.add(message)
        drain(index)
    copy()
    index.close()
    yield from taken
    # Death among the stores to the slots: some are old, some new.
    for half in (0, 1):
        mixed = folder / f"mixed{half}"
        shutil.copytree(taken[-1], mixed)
        for name in os.listdir(taken[-1] / "index"):
            older = next(copy / "index" / name for copy in taken if (copy / "index" / name).exists())
            raw, before = bytearray((mixed / "index" / name).read_bytes()), older.read_bytes()
            for slot in range(half, SLOTS, 2):
                raw[40 + 4 * slot : 44 + 4 * slot] = before[40 + 4 * slot : 44 + 4 * slot]
            (mixed / "index" / name).write_bytes(raw)
        yield mixed


@pytest.mark.parametrize("safe", [0, 500, 1000])
def test_death_at_any_step_of_a_put_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, safe: int
) -> None:
    count = 0
    for copy in snapshots_of_a_put(tmp_path, monkeypatch):
        count += 1
        index = opened(copy)
        index.load(clean=False, safe_offset=safe)
        for message in messages(20):
            if message.log_offset >= safe:
                index.add(message)
        drain(index)
        index.close()
        assert contents(copy) == expected(messages(20))
    assert count >= 8


def test_entries_lost_by_a_power_cut_behind_the_safe_offset_do_no_harm(tmp_path: Path) -> None:
    filled(tmp_path, messages(12)).close()
    (path,) = (tmp_path / "index").iterdir()
    raw = bytearray(path.read_bytes())
    at = 40 + 4 * SLOTS + 20 * 19  # the first entry of message 6
    raw[at : at + 40] = bytes(40)
    path.write_bytes(raw)
    index = opened(tmp_path)
    index.load(clean=False, safe_offset=600)
    for message in messages(12):
        if message.log_offset >= 600:
            index.add(message)
    drain(index)
    assert contents(tmp_path) == expected(messages(12))


def test_after_a_crash_of_a_java_broker_files_newer_than_its_checkpoint_are_made_again(
    tmp_path: Path,
) -> None:
    filled(tmp_path, messages(40)).close()
    index = opened(tmp_path)
    problems = index.load(clean=False, index_ms=START_MS + 20 * 700)
    assert len(problems) == 1
    assert index.next_offset == 1201  # the first file holds 39 keys: 13 messages
    assert everything(index, "shared") == [n * 100 for n in reversed(range(13))]


@pytest.mark.parametrize("break_it", ["short", "empty", "long", "count", "offsets"])
def test_a_broken_file_and_those_behind_it_are_dropped_and_reported(tmp_path: Path, break_it: str) -> None:
    filled(tmp_path, messages(40)).close()
    path = sorted((tmp_path / "index").iterdir())[1]
    size = path.stat().st_size
    raw = bytearray(path.read_bytes())
    if break_it in ("short", "empty", "long"):
        os.truncate(path, {"short": size - 1, "empty": 0, "long": size + 1}[break_it])
    elif break_it == "count":
        raw[36:40] = b"\x7f\xff\xff\xff"
        path.write_bytes(raw)
    else:
        raw[24:32] = bytes(8)
        path.write_bytes(raw)
    index = opened(tmp_path)
    assert len(index.load(clean=True)) == 1
    for message in messages(40):
        if message.log_offset >= index.next_offset:
            index.add(message)
    drain(index)
    assert everything(index, "shared") == [n * 100 for n in reversed(range(40))]


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


@pytest.mark.parametrize("end", [0, 100, 1200, 1300, 1301, 2600, 4000, 4500, 6000])
def test_cut_with_the_log_and_filled_again_it_is_whole(tmp_path: Path, end: int) -> None:
    index = filled(tmp_path, messages(40))
    for message in messages(10, start=40):
        index.add(message)
    index.cut_to_log(end)
    kept = [message for message in messages(50) if message.log_offset < end]
    assert everything(index, "shared") == [message.log_offset for message in reversed(kept)]
    for message in messages(50):
        if message.log_offset >= end:
            index.add(message)
    drain(index)
    assert contents(tmp_path) == expected(messages(50))


def test_an_index_removed_is_made_again_the_same(tmp_path: Path) -> None:
    index = filled(tmp_path, messages(50))
    before = contents(tmp_path)
    index.remove()
    assert os.listdir(tmp_path / "index") == []
    for message in messages(50):
        index.add(message)
    drain(index)
    assert contents(tmp_path) == before


def test_a_full_disk_keeps_messages_waiting_and_files_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = filled(tmp_path, messages(10))

    def no_space(fd: int, data: bytes, at: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    for message in messages(10, start=10):
        index.add(message)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", no_space)
        with pytest.raises(OSError, match="No space"):
            drain(index)
    assert index.pending_count == 10
    drain(index)
    assert contents(tmp_path) == expected(messages(20))


def test_a_full_disk_in_the_middle_of_a_slice_adds_no_key_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = filled(tmp_path, messages(10))
    real_rename = os.rename

    def no_space(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for message in messages(10, start=10):  # 30 keys: 9 fit into the first file
        index.add(message)
    monkeypatch.setattr(os, "rename", no_space)
    with pytest.raises(OSError, match="No space"):
        drain(index)
    monkeypatch.setattr(os, "rename", real_rename)
    drain(index)
    assert contents(tmp_path) == expected(messages(20))


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
    paths = index.take_unsynced()
    assert paths == sorted([str(tmp_path / "index"), *map(str, (tmp_path / "index").iterdir())])
    sync_paths(paths)
    assert index.take_unsynced() == []


def test_a_chain_that_points_forward_ends_the_walk(tmp_path: Path) -> None:
    filled(tmp_path, messages(5)).close()
    (path,) = (tmp_path / "index").iterdir()
    raw = bytearray(path.read_bytes())
    for number in range(1, 16):
        at = 40 + 4 * SLOTS + 20 * number + 16
        raw[at : at + 4] = (15).to_bytes(4, "big")
    path.write_bytes(raw)
    index = opened(tmp_path)
    index.load(clean=True)
    assert len(everything(index, "shared")) == 1
