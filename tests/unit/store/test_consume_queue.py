"""Laws of the consume queue: order, idempotence, files and tail read as one, and what a crash may leave."""

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rocketeer.store import file_cache
from rocketeer.store.consume_queue import WRITE_OUT_ENTRIES as DUE
from rocketeer.store.consume_queue import ConsumeQueue
from rocketeer.store.file_cache import FileCache, delete_paths, sync_paths
from rocketeer.store.queue_entry import BLANK, ENTRY, ENTRY_BYTES, rounded_file_bytes

PER_FILE = 10
FILE_BYTES = PER_FILE * ENTRY_BYTES


class Entry(NamedTuple):
    queue_offset: int
    log_offset: int
    size: int = 100
    tag_code: int = 7


CACHES: list[FileCache] = []


@pytest.fixture(autouse=True)
def _caches_closed() -> Iterator[None]:
    yield
    while CACHES:
        CACHES.pop().close()


def opened(folder: Path, *, file_bytes: int = FILE_BYTES) -> ConsumeQueue:
    CACHES.append(FileCache())
    return ConsumeQueue(folder / "Topic" / "0", "Topic", 0, file_bytes, CACHES[-1])


def reloaded(folder: Path) -> ConsumeQueue:
    queue = opened(folder)
    assert queue.load() == []
    return queue


def filled(folder: Path, count: int, *, start: int = 0) -> ConsumeQueue:
    queue = opened(folder)
    for offset in range(start, start + count):
        assert queue.append(Entry(offset, offset * 100))
    return queue


def log_offsets(raw: bytes) -> list[int]:
    return [log_offset for log_offset, _, _ in ENTRY.iter_unpack(raw)]


def file_names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder / "Topic" / "0"))


def test_an_entry_reads_back_before_and_after_it_is_written_out(tmp_path: Path) -> None:
    queue = opened(tmp_path)
    queue.append(Entry(0, 4711, 99, -5))
    assert queue.read(0, 1) == ENTRY.pack(4711, 99, -5)
    queue.write_out()
    assert queue.read(0, 1) == ENTRY.pack(4711, 99, -5)
    assert queue.pending_bytes == 0
    assert queue.entry(0) == (4711, 99, -5)
    assert queue.max_log_offset == 4810


def test_no_file_exists_before_the_first_write_out(tmp_path: Path) -> None:
    filled(tmp_path, 5)
    assert not (tmp_path / "Topic").exists()


def test_reads_go_over_file_borders_and_into_the_tail(tmp_path: Path) -> None:
    queue = filled(tmp_path, 24)
    queue.write_out()
    for offset in range(24, 37):
        queue.append(Entry(offset, offset * 100))
    assert log_offsets(queue.read(3, 100)) == [offset * 100 for offset in range(3, 37)]
    assert log_offsets(queue.read(8, 4)) == [800, 900, 1000, 1100]
    assert log_offsets(queue.read(22, 4)) == [2200, 2300, 2400, 2500]
    assert queue.read(37, 5) == b""
    assert queue.read(99, 5) == b""


def test_nothing_is_read_at_or_beyond_the_end(tmp_path: Path) -> None:
    queue = filled(tmp_path, 4)
    queue.write_out()
    for offset in (4, 5, PER_FILE - 1, PER_FILE, 3 * PER_FILE):
        assert queue.read(offset, 3) == b""


def test_files_are_whole_sparse_and_named_by_byte_offset(tmp_path: Path) -> None:
    filled(tmp_path, 12).write_out()
    assert file_names(tmp_path) == [f"{0:020d}", f"{200:020d}"]
    assert {(tmp_path / "Topic" / "0" / name).stat().st_size for name in file_names(tmp_path)} == {FILE_BYTES}


def test_a_long_tail_is_written_out_by_itself_so_memory_is_bounded(tmp_path: Path) -> None:
    queue = opened(tmp_path, file_bytes=20_000_000)
    for offset in range(3 * DUE):
        queue.append(Entry(offset, offset * 100))
        assert queue.pending_bytes <= (DUE + 1) * ENTRY_BYTES


def test_appending_what_is_there_changes_nothing(tmp_path: Path) -> None:
    queue = filled(tmp_path, 15)
    queue.write_out()
    assert not queue.append(Entry(14, 999_999))
    assert not queue.append(Entry(0, 999_999))
    assert log_offsets(queue.read(0, 99)) == [offset * 100 for offset in range(15)]


def test_a_queue_that_starts_in_the_middle_is_blank_before_as_rocketmqs(tmp_path: Path) -> None:
    queue = filled(tmp_path, 2, start=23)
    assert (queue.min_offset, queue.max_offset) == (23, 25)
    queue.write_out()
    raw = (tmp_path / "Topic" / "0" / f"{400:020d}").read_bytes()
    blank = bytes.fromhex("00000000000000007fffffff0000000000000000")
    assert blank == BLANK
    assert raw == blank * 3 + ENTRY.pack(2300, 100, 7) + ENTRY.pack(2400, 100, 7) + bytes(5 * ENTRY_BYTES)
    assert queue.read(22, 1) == b""
    again = reloaded(tmp_path)
    assert (again.min_offset, again.max_offset) == (23, 25)


def test_blanks_are_never_taken_for_messages_at_log_offset_zero(tmp_path: Path) -> None:
    queue = opened(tmp_path)
    queue.append(Entry(5, 0))
    queue.append(Entry(6, 100))
    queue.write_out()
    again = reloaded(tmp_path)
    again.raise_min(0)
    assert again.min_offset == 5


def test_a_gap_is_filled_with_blanks_and_offsets_stay_right(tmp_path: Path) -> None:
    queue = filled(tmp_path, 3)
    assert queue.append(Entry(7, 700))
    assert queue.read(3, 4) == BLANK * 4
    assert queue.entry(7) == (700, 100, 7)
    queue.write_out()
    assert reloaded(tmp_path).read(0, 99) == queue.read(0, 99)
    queue.raise_min(300)
    assert queue.min_offset == 7


def test_a_gap_of_more_than_a_file_is_damage_and_costs_no_queue(tmp_path: Path) -> None:
    queue = filled(tmp_path, 13)
    queue.write_out()
    assert not queue.append(Entry(1_000_003, 9_000))
    assert (queue.min_offset, queue.max_offset) == (0, 13)
    assert log_offsets(queue.read(0, 99)) == [offset * 100 for offset in range(13)]


def test_the_place_of_a_lost_message_stays_blank(tmp_path: Path) -> None:
    queue = filled(tmp_path, 13)
    queue.write_out()
    assert queue.append(Entry(13, 1_300))
    for offset in (4, 13, 14, 17):  # in a file, in the tail, the next, beyond a gap
        queue.skip(offset)
    assert queue.max_offset == 18
    queue.write_out()
    again = reloaded(tmp_path)
    assert again.max_offset == 18
    blank = [offset for offset in range(18) if again.read(offset, 1) == BLANK]
    assert blank == [4, 13, 14, 15, 16, 17]


def test_min_follows_the_log_and_whole_files_below_it_go(tmp_path: Path) -> None:
    queue = filled(tmp_path, 35)
    queue.write_out()
    assert queue.raise_min(0) == []
    paths = queue.raise_min(2250)  # in the middle of message 22
    assert queue.min_offset == 23
    assert [os.path.basename(path) for path in paths] == [f"{0:020d}", f"{200:020d}"]
    assert delete_paths(paths) == 2
    assert queue.read(22, 5) == b""
    assert log_offsets(queue.read(23, 99)) == [offset * 100 for offset in range(23, 35)]
    again = reloaded(tmp_path)
    assert (again.min_offset, again.max_offset) == (20, 35)
    again.raise_min(2250)
    assert again.min_offset == 23


def test_the_last_file_stays_when_all_its_messages_are_gone(tmp_path: Path) -> None:
    queue = filled(tmp_path, 20)
    queue.write_out()
    delete_paths(queue.raise_min(1 << 40))
    assert (queue.min_offset, queue.max_offset) == (20, 20)
    assert file_names(tmp_path) == [f"{200:020d}"]
    assert queue.append(Entry(20, 1 << 40))
    assert (queue.min_offset, queue.max_offset) == (20, 21)
    queue.write_out()
    assert reloaded(tmp_path).max_offset == 21


def test_files_on_disk_are_kept_while_newer_entries_are_only_in_memory(tmp_path: Path) -> None:
    queue = filled(tmp_path, 10)
    queue.write_out()
    for offset in range(10, 15):
        queue.append(Entry(offset, offset * 100))
    assert queue.raise_min(1200) == []
    assert reloaded(tmp_path).max_offset == 10


@pytest.mark.parametrize("keep", [0, 1, 9, 10, 11, 20, 24, 25, 29, 30])
def test_cutting_to_the_log_leaves_what_ends_at_or_below(tmp_path: Path, keep: int) -> None:
    queue = filled(tmp_path, 25)
    queue.write_out()
    for offset in range(25, 30):
        queue.append(Entry(offset, offset * 100))
    assert queue.truncate_to_log(keep * 100 + 50) == 30 - keep
    assert (queue.min_offset, queue.max_offset) == (0, keep)
    assert log_offsets(queue.read(0, 99)) == [offset * 100 for offset in range(keep)]
    for offset in range(keep, keep + 2):  # other messages came in their place
        assert queue.append(Entry(offset, offset * 100 + 5))
    queue.write_out()
    again = reloaded(tmp_path)
    assert again.max_offset == keep + 2
    assert again.read(0, 99) == queue.read(0, 99)


def test_old_bytes_behind_the_cut_never_come_back(tmp_path: Path) -> None:
    filled(tmp_path, 25).write_out()
    queue = reloaded(tmp_path)
    queue.truncate_to_log(1450)
    queue.write_out()
    assert reloaded(tmp_path).max_offset == 14


def test_zeros_between_old_bytes_behind_the_checkpoint_are_cut_away(tmp_path: Path) -> None:
    """A power cut may lose one page and keep the next."""
    queue = opened(tmp_path, file_bytes=4000)
    for offset in range(150):
        queue.append(Entry(offset, offset * 100))
    queue.write_out()
    path = tmp_path / "Topic" / "0" / f"{0:020d}"
    raw = bytearray(path.read_bytes())
    raw[90 * ENTRY_BYTES : 110 * ENTRY_BYTES] = bytes(20 * ENTRY_BYTES)
    path.write_bytes(raw)
    again = opened(tmp_path, file_bytes=4000)
    again.load()
    again.truncate_to_log(80 * 100)
    assert again.max_offset == 80
    assert path.read_bytes()[80 * ENTRY_BYTES :] == bytes(4000 - 80 * ENTRY_BYTES)


@pytest.mark.parametrize("size", [0, 1, 59, 60, 61, 199, 200])
def test_a_file_cut_at_any_byte_keeps_its_whole_entries(tmp_path: Path, size: int) -> None:
    filled(tmp_path, 20).write_out()
    os.truncate(tmp_path / "Topic" / "0" / f"{200:020d}", size)
    queue = reloaded(tmp_path)
    assert queue.max_offset == 10 + size // ENTRY_BYTES
    queue.append(Entry(queue.max_offset, 77_000))
    queue.write_out()
    assert {(tmp_path / "Topic" / "0" / name).stat().st_size for name in file_names(tmp_path)} == {FILE_BYTES}


def test_an_empty_file_made_ahead_is_no_damage(tmp_path: Path) -> None:
    filled(tmp_path, 10).write_out()
    (tmp_path / "Topic" / "0" / f"{200:020d}").write_bytes(b"")
    assert reloaded(tmp_path).max_offset == 10


def test_what_follows_a_hole_is_dropped_and_reported(tmp_path: Path) -> None:
    filled(tmp_path, 35).write_out()
    (tmp_path / "Topic" / "0" / f"{200:020d}").unlink()
    queue = opened(tmp_path)
    assert queue.load() == ["a hole before entry 20"]
    assert (queue.min_offset, queue.max_offset) == (0, 10)
    assert file_names(tmp_path) == [f"{0:020d}"]


def test_a_file_that_lost_its_end_is_a_hole(tmp_path: Path) -> None:
    filled(tmp_path, 35).write_out()
    os.truncate(tmp_path / "Topic" / "0" / f"{200:020d}", 5 * ENTRY_BYTES)
    queue = opened(tmp_path)
    assert queue.load() == ["a hole before entry 20"]
    assert queue.max_offset == 15


def test_other_names_are_ignored_with_a_log_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    filled(tmp_path, 3).write_out()
    (tmp_path / "Topic" / "0" / "notes.txt").write_text("hello")
    assert reloaded(tmp_path).max_offset == 3
    assert "notes.txt" in caplog.text


def test_files_of_another_configured_size_are_reported(tmp_path: Path) -> None:
    filled(tmp_path, 25).write_out()
    queue = opened(tmp_path, file_bytes=17 * ENTRY_BYTES)
    assert queue.load() != []


def test_loading_nothing_gives_an_empty_queue(tmp_path: Path) -> None:
    queue = reloaded(tmp_path)
    assert (queue.min_offset, queue.max_offset, queue.max_log_offset) == (0, 0, 0)
    assert queue.offset_by_time(5, lambda offset, size: 5) == 0
    assert queue.truncate_to_log(0) == 0
    assert queue.raise_min(100) == []


def test_a_removed_queue_starts_again_at_zero(tmp_path: Path) -> None:
    queue = filled(tmp_path, 25)
    queue.write_out()
    queue.remove()
    assert not (tmp_path / "Topic" / "0").exists()
    assert queue.append(Entry(0, 5))
    queue.write_out()
    assert reloaded(tmp_path).max_offset == 1


def test_times_find_the_exact_or_the_nearer_entry(tmp_path: Path) -> None:
    """The rules recorded from RocketMQ's 29: exact, nearer side, first before all, last after all."""
    queue = filled(tmp_path, 15)
    queue.write_out()
    times = [10, 20, 30, 40, 40, 40, 50, 60, 70, 80, 90, 100, 200, 300, 300]

    def at(ms: int) -> int:
        return queue.offset_by_time(ms, lambda offset, size: times[offset // 100])

    assert [at(ms) for ms in (0, 10, 14, 15, 16, 40, 44, 46)] == [0, 0, 0, 0, 1, 3, 5, 6]
    assert [at(ms) for ms in (149, 150, 151, 299, 300, 99_999)] == [11, 11, 12, 13, 13, 14]
    queue.raise_min(300)
    assert at(0) == 3


def test_times_pass_over_messages_that_are_gone_from_the_log(tmp_path: Path) -> None:
    queue = filled(tmp_path, 10)
    assert queue.offset_by_time(0, lambda offset, size: -1 if offset < 400 else offset) == 4


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = opened(tmp_path, file_bytes=20_000_000)

    def no_space(fd: int, data: bytes, at: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(file_cache, "write_at", no_space)
    for offset in range(2 * DUE):
        assert queue.append(Entry(offset, offset * 100))
    with pytest.raises(OSError, match="No space"):
        queue.write_out()
    monkeypatch.undo()
    queue.write_out()
    assert log_offsets(queue.read(0, 2 * DUE)) == [offset * 100 for offset in range(2 * DUE)]


def test_addresses_of_the_extension_are_kept_as_tag_codes(tmp_path: Path) -> None:
    queue = opened(tmp_path)
    queue.append(Entry(0, 0, 100, -(1 << 63) + 40))
    queue.write_out()
    entry = reloaded(tmp_path).entry(0)
    assert entry is not None
    assert entry.tag_code == -(1 << 63) + 40


def test_thousands_of_queues_live_with_few_descriptors(tmp_path: Path) -> None:
    cache = FileCache(open_max=16)
    CACHES.append(cache)
    queues = [ConsumeQueue(tmp_path / str(n), "T", n, FILE_BYTES, cache) for n in range(600)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(in_use + 32, soft), hard))
    try:
        for queue in queues:
            for offset in range(3):
                queue.append(Entry(offset, offset * 100 + queue.queue_id))
            queue.write_out()
        assert len(cache) <= 16
        for queue in queues:
            assert log_offsets(queue.read(0, 9)) == [n * 100 + queue.queue_id for n in range(3)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert cache.take_unsynced() is None, "so many are synced together"
    queues[7].append(Entry(3, 307))
    queues[7].write_out()
    paths = cache.take_unsynced()
    assert paths == [str(tmp_path / "7" / f"{0:020d}")]
    sync_paths(paths)
    assert cache.take_unsynced() == []


def test_file_size_is_rounded_up_to_whole_entries() -> None:
    assert rounded_file_bytes(6_000_000) == 6_000_000
    assert rounded_file_bytes(20_001) == 20_020
    assert rounded_file_bytes(1) == 20
