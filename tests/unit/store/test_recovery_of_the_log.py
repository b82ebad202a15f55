"""Damage to the log itself: a torn end is cut off, what stands behind damage is set aside and not lost."""

import os
import shutil
import struct
from pathlib import Path

import pytest

from support.recovered import COUNT, HOW, check_whole, fill, numbers, stopped
from support.stores import SEGMENT_BYTES, kill, open_store

FIRST_LOG = "commitlog/00000000000000000000"


def last_record(folder: Path) -> tuple[Path, int, int]:
    """File, start and end of the log's last record."""
    store, _ = open_store(shutil.copytree(folder, folder.with_name("looking")))
    newest = max(
        (store.entries(*key, store.max_queue_offset(*key) - 1, 1)[0] for key in store.queues()),
        key=lambda entry: entry[0],
    )
    store.close()
    shutil.rmtree(folder.with_name("looking"))
    base = newest[0] // SEGMENT_BYTES * SEGMENT_BYTES
    return folder / f"commitlog/{base:020d}", newest[0] - base, newest[0] - base + newest[1]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kept", [0, 3, 7, 40, 87, 100, -30, -1])
def test_a_torn_last_record_is_cut_off_and_nothing_else(tmp_path: Path, how: str, kept: int) -> None:
    folder = stopped(tmp_path, how)
    path, start, end = last_record(folder)
    cut = (start if kept >= 0 else end) + kept
    with path.open("r+b") as file:
        file.seek(cut)
        file.write(bytes(end - cut))
    store, report = open_store(folder)
    torn = kept != -1  # a last byte that is lost from the properties cannot be told
    assert numbers(store) == list(range(COUNT - torn))
    assert report.set_aside == ()
    assert (report.torn_bytes > 0) is (torn and kept != 0)
    assert store.log.max_offset % SEGMENT_BYTES == (start if torn else end)
    fill(store, COUNT - torn, 10)
    copy = kill(store, tmp_path / "again")
    store.close()
    for each in (folder, copy):
        store, report = open_store(each)
        assert numbers(store) == list(range(COUNT - torn + 10))
        assert report.torn_bytes == 0
        store.close()


@pytest.mark.parametrize("how", HOW)
def test_garbage_behind_the_log_is_cut_off(tmp_path: Path, how: str) -> None:
    folder = stopped(tmp_path, how)
    path, _, end = last_record(folder)
    with path.open("r+b") as file:
        file.seek(end)
        file.write(os.urandom(500))
    store, report = open_store(folder)
    assert report.torn_bytes > 400
    check_whole(store)
    store.close()


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("place", ["body", "size", "magic", "zeros"])
def test_behind_damage_in_the_middle_bytes_are_set_aside_not_lost(
    tmp_path: Path, how: str, place: str
) -> None:
    folder = stopped(tmp_path, how)
    looking, _ = open_store(shutil.copytree(folder, tmp_path / "looking"))
    victim = looking.query("Topic0", "k40", 0, 1 << 62, 1).messages[0]
    end = looking.log.max_offset
    looking.close()
    files = sorted((folder / "commitlog").iterdir())
    whole = b"".join(path.read_bytes() for path in files)[:end]
    with files[victim.log_offset // SEGMENT_BYTES].open("r+b") as file:
        at = {"body": 90, "size": 1, "magic": 5, "zeros": 0}[place]
        file.seek(victim.log_offset % SEGMENT_BYTES + at)
        file.write(bytes(victim.size) if place == "zeros" else b"\xee")
    damaged = b"".join(path.read_bytes() for path in files)[:end]

    store, report = open_store(folder)
    assert numbers(store) == list(range(40))
    assert store.log.max_offset == victim.log_offset
    assert any("damaged" in action for action in report.actions)
    kept = b""
    for copy in report.set_aside:
        assert copy.path.parent == folder / "corrupt"
        assert copy.path.read_bytes() == damaged[copy.offset : copy.offset + copy.size]
        gap = damaged[victim.log_offset + len(kept) : copy.offset]
        assert not any(gap), "only zeros are not kept"
        kept += gap + copy.path.read_bytes()
    assert victim.log_offset + len(kept) == end
    assert whole[victim.log_offset + victim.size :] == kept[victim.size :]
    for number in range(60):
        found = store.query(f"Topic{number % 2}", f"k{number}", 0, 1 << 62, 32).messages
        assert len(found) == (number < 40)
    fill(store, 40, 30)
    copied = kill(store, tmp_path / "again")
    store.close()
    for each in (folder, copied):
        store, report = open_store(each)
        assert report.set_aside == ()
        check_whole(store, 70)
        store.close()


def test_two_accidents_at_one_place_keep_both_copies(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    for round_ in range(2):
        store, _ = open_store(folder)
        fill(store, 0 if round_ == 0 else 3, 10)
        store.close()
        with (folder / FIRST_LOG).open("r+b") as file:
            first = struct.unpack(">i", file.read(4))[0]
            file.seek(first + struct.unpack(">i", _at(file, first, 4))[0])
            third = file.tell()
            file.seek(third + struct.unpack(">i", _at(file, third, 4))[0] + 95)
            file.write(b"\xee\xee")
        store, report = open_store(folder)
        assert len(report.set_aside) == 1
        store.close()
    assert len(list((folder / "corrupt").iterdir())) == 2


def _at(file, at: int, size: int) -> bytes:  # type: ignore[no-untyped-def]
    here = file.tell()
    file.seek(at)
    raw: bytes = file.read(size)
    file.seek(here)
    return raw


def test_a_log_that_is_gone_takes_its_queues_along(tmp_path: Path) -> None:
    folder = stopped(tmp_path, "closed")
    shutil.rmtree(folder / "commitlog")
    store, report = open_store(folder)
    assert store.queues() == []
    assert any("no commit log" in action for action in report.actions)
    fill(store)
    check_whole(store)
    store.close()
