"""The index after death, power cuts, broken files, a full disk and a cut log: mended, it says what the log says."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rocketeer.store import index_file
from rocketeer.store.index_file import IndexFile
from support.indexes import (
    SLOTS,
    START_MS,
    contents,
    drain,
    everything,
    expected,
    filled,
    messages,
    opened,
    write_slots,
)


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
    copy()
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
    write_slots(index)
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


def test_a_full_disk_keeps_messages_waiting_and_files_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = filled(tmp_path, messages(10))

    def no_space(fd: int, data: bytes, at: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for message in messages(10, start=10):
        index.add(message)
    with monkeypatch.context() as patched:
        patched.setattr(index_file, "write_at", no_space)
        with pytest.raises(OSError, match="No space"):
            drain(index)
    assert index.pending_count == 10
    drain(index)
    write_slots(index)
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
    write_slots(index)
    assert contents(tmp_path) == expected(messages(20))


def test_slots_that_no_checkpoint_wrote_are_found_again_after_death(tmp_path: Path) -> None:
    filled(tmp_path, messages(30))  # three files, and nobody wrote a slot of them
    index = opened(tmp_path)
    index.load(clean=False, safe_offset=0)
    for message in messages(30):
        if message.log_offset >= index.next_offset:
            index.add(message)
    drain(index)
    write_slots(index)
    assert contents(tmp_path) == expected(messages(30))


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
    write_slots(index)
    assert contents(tmp_path) == expected(messages(50))
