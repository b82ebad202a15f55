"""Backups of stores: what comes back is what was there; what is damaged is refused; what is unchanged stays."""

import os
import shutil
import time
from pathlib import Path

import pytest

from rocketeer.audit.store import audit_store
from rocketeer.backup.manifest import read_manifest
from rocketeer.backup.restoring import check, restore
from rocketeer.backup.saving import RACY_NS, Saved, save
from rocketeer.backup.source import Source, end_of_log
from rocketeer.errors import BackupError
from rocketeer.store.message_store import MessageStore
from support.clock import ManualClock
from support.recovered import COUNT, check_whole, fill, numbers
from support.stores import checkpoint_now, make_store


def in_turn(tasks, task):  # type: ignore[no-untyped-def]
    return [task(each) for each in tasks]


def age(store: Path) -> None:
    """Let new files be old enough for their times to tell whether they are changed later."""
    now_ns = time.time_ns()
    for path in store.rglob("*"):
        mtime_ns = path.stat().st_mtime_ns
        if path.is_file() and mtime_ns > now_ns - RACY_NS:
            os.utime(path, ns=(mtime_ns, mtime_ns - 2 * RACY_NS))


def contents_of(folder: Path, *, without: tuple[str, ...] = ("lock",)) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in without
    }


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of several files of each kind, closed."""
    opened = make_store(tmp_path / "store")
    opened.open()
    fill(opened)
    opened.close()
    return tmp_path / "store"


@pytest.fixture
def running(tmp_path: Path) -> tuple[MessageStore, ManualClock]:
    clock = ManualClock()
    opened = make_store(tmp_path / "store", clock)
    opened.open()
    fill(opened, 0, 100)
    return opened, clock


def saved(store: Path, to: Path) -> Saved:
    return save(Source(store), to)


def test_a_stopped_store_comes_back_byte_for_byte(store: Path, tmp_path: Path) -> None:
    saved(store, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "again")
    assert contents_of(tmp_path / "again") == contents_of(store)
    assert audit_store(in_turn, tmp_path / "again", exact=True).ok
    again = make_store(tmp_path / "again")
    assert again.open().clean
    check_whole(again)
    again.close()


def test_a_running_store_comes_back_with_all_it_had(
    running: tuple[MessageStore, ManualClock], tmp_path: Path
) -> None:
    store, clock = running
    checkpoint_now(store, clock)
    fill(store, 100, 50)  # behind the checkpoint: queues and index have them in memory only
    saved(tmp_path / "store", tmp_path / "backup")
    store.close()
    restore(tmp_path / "backup", tmp_path / "again")
    assert audit_store(in_turn, tmp_path / "again").ok
    again = make_store(tmp_path / "again")
    assert again.open().after_crash
    assert numbers(again) == list(range(COUNT))
    again.close()


def test_what_is_appended_behind_the_end_that_was_found_does_not_tear_the_copy(
    running: tuple[MessageStore, ManualClock], tmp_path: Path
) -> None:
    store, _ = running
    grown = False

    def grow(name: str, done: int) -> None:  # in the middle of the copy of the log
        nonlocal grown
        if name.startswith("commitlog/") and not grown:
            grown = True
            fill(store, 100, 50)

    save(Source(tmp_path / "store"), tmp_path / "backup", grow)
    store.close()
    assert grown
    restore(tmp_path / "backup", tmp_path / "again")
    again = make_store(tmp_path / "again")
    report = again.open()
    assert (report.torn_bytes, report.quarantined) == (0, ())
    assert numbers(again) == list(range(100))
    again.close()


def test_files_that_retention_deletes_meanwhile_are_no_error(
    running: tuple[MessageStore, ManualClock], tmp_path: Path
) -> None:
    store, _ = running
    first = sorted((tmp_path / "store" / "commitlog").iterdir())[0]
    save(Source(tmp_path / "store"), tmp_path / "backup", lambda name, done: first.unlink(missing_ok=True))
    manifest = read_manifest(tmp_path / "backup")
    assert manifest is not None
    assert manifest.log_begin == store.config.segment_bytes
    store.close()


def test_a_second_run_copies_only_what_changed(store: Path, tmp_path: Path) -> None:
    age(store)
    first = saved(store, tmp_path / "backup")
    assert first.kept_files == 0
    again = saved(store, tmp_path / "backup")
    assert (again.copied_files, again.kept_files) == (0, first.copied_files)

    opened = make_store(store)
    opened.open()
    fill(opened, COUNT, 10)
    opened.close()
    age(store)
    segments = sorted((store / "commitlog").iterdir())
    third = saved(store, tmp_path / "backup")
    assert third.kept_files >= len(segments) - 2
    assert third.copied_bytes < first.copied_bytes / 2
    restore(tmp_path / "backup", tmp_path / "again")
    assert contents_of(tmp_path / "again") == contents_of(store)


def test_a_file_changed_without_a_new_size_is_copied_again(store: Path, tmp_path: Path) -> None:
    age(store)
    saved(store, tmp_path / "backup")
    segment = sorted((store / "commitlog").iterdir())[0]
    with segment.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff")
    assert saved(store, tmp_path / "backup").copied_files == 1


def test_a_file_written_just_before_it_was_read_is_never_taken_for_unchanged(
    store: Path, tmp_path: Path
) -> None:
    saved(store, tmp_path / "backup")
    assert saved(store, tmp_path / "backup").kept_files == 0


def test_contents_of_deleted_files_leave_the_backup(store: Path, tmp_path: Path) -> None:
    saved(store, tmp_path / "backup")
    sorted((store / "commitlog").iterdir())[0].unlink()
    second = saved(store, tmp_path / "backup")
    kept = {path.name for path in (tmp_path / "backup" / "contents").rglob("*") if path.is_file()}
    assert kept == {file.digest for file in second.manifest.files.values()}


@pytest.mark.parametrize("how", ["flipped", "cut", "missing"])
def test_a_damaged_backup_is_refused_and_nothing_is_restored(store: Path, tmp_path: Path, how: str) -> None:
    made = saved(store, tmp_path / "backup").manifest
    (segment,) = [file for name, file in made.files.items() if name == "commitlog/" + "0" * 20]
    path = tmp_path / "backup" / "contents" / segment.digest[:2] / segment.digest
    raw = bytearray(path.read_bytes())
    raw[200] ^= 1
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(raw if how == "flipped" else raw[:1000])
    with pytest.raises(BackupError, match=segment.digest):
        check(tmp_path / "backup")
    with pytest.raises(BackupError, match="damaged"):
        restore(tmp_path / "backup", tmp_path / "again")
    assert not (tmp_path / "again").exists()
    assert not (tmp_path / "again.restoring").exists()


def test_a_content_that_went_missing_is_copied_again(store: Path, tmp_path: Path) -> None:
    age(store)
    made = saved(store, tmp_path / "backup").manifest
    digest = made.files["commitlog/" + "0" * 20].digest
    (tmp_path / "backup" / "contents" / digest[:2] / digest).unlink()
    assert saved(store, tmp_path / "backup").copied_files == 1
    check(tmp_path / "backup")


def test_a_damaged_manifest_is_refused(store: Path, tmp_path: Path) -> None:
    saved(store, tmp_path / "backup")
    path = tmp_path / "backup" / "manifest.json"
    path.write_text(path.read_text().replace('"log_end": ', '"log_end": 1'))
    with pytest.raises(BackupError, match="checksum"):
        restore(tmp_path / "backup", tmp_path / "again")


def test_a_backup_is_restored_into_an_empty_folder_only(store: Path, tmp_path: Path) -> None:
    saved(store, tmp_path / "backup")
    (tmp_path / "empty").mkdir()
    restore(tmp_path / "backup", tmp_path / "empty")
    with pytest.raises(BackupError, match="not empty"):
        restore(tmp_path / "backup", tmp_path / "empty")


def test_a_backup_goes_to_a_folder_of_its_own(store: Path, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="in the store"):
        saved(store, store / "backup")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(BackupError, match="not a backup"):
        saved(store, tmp_path / "other")
    with pytest.raises(BackupError, match="no folder"):
        saved(tmp_path / "nowhere", tmp_path / "backup")
    with pytest.raises(BackupError, match=r"no manifest\.json"):
        restore(tmp_path / "other", tmp_path / "again")


def test_the_store_of_another_broker_below_it_is_left_out(store: Path, tmp_path: Path) -> None:
    shutil.copytree(store, store / "broker-b")
    assert not [name for name in saved(store, tmp_path / "backup").manifest.files if "broker-b" in name]


def test_a_log_that_lies_elsewhere_is_found_by_its_folder(store: Path, tmp_path: Path) -> None:
    (store / "commitlog").rename(tmp_path / "log")
    save(Source(store, tmp_path / "log"), tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "again")
    assert contents_of(tmp_path / "again" / "commitlog") == contents_of(tmp_path / "log")


def test_records_behind_damage_in_the_last_file_are_copied_too(store: Path, tmp_path: Path) -> None:
    source = Source(store)
    segments = source.segments()
    end = end_of_log(segments)
    last = segments[(end - 1 - segments[0].base) // segments[0].size]
    with last.path.open("r+b") as file:
        file.write(b"\xee" * 16)  # the first record of the file is none any more
    assert end_of_log(segments) == end


def test_a_store_without_messages_has_a_backup(tmp_path: Path) -> None:
    opened = make_store(tmp_path / "store")
    opened.open()
    opened.close()
    saved(tmp_path / "store", tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "again")
    again = make_store(tmp_path / "again")
    again.open()
    assert again.max_log_offset == 0
    again.close()
