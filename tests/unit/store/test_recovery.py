"""Opening a store again: after a clean stop, after a death, after a Java broker. The log decides."""

import shutil
import struct
from pathlib import Path

import pytest

from rocketeer.config import BrokerRole
from rocketeer.errors import StoreError
from rocketeer.store.checkpoint import read_checkpoint
from rocketeer.store.message_store import MessageStore
from support.clock import ManualClock
from support.recovered import COUNT, HOW, check_whole, fill, numbers, stopped
from support.stores import (
    SEGMENT_BYTES,
    bodies,
    checkpoint_now,
    derived_files,
    kill,
    make_store,
    message,
    open_store,
    query,
)


@pytest.mark.parametrize("how", HOW)
def test_everything_is_there_again(tmp_path: Path, how: str) -> None:
    folder = stopped(tmp_path, how)
    store, report = open_store(folder)
    assert report.clean is (how == "closed")
    assert report.torn_bytes == 0
    assert report.quarantined == ()
    check_whole(store)
    fill(store, COUNT, 20)
    check_whole(store, COUNT + 20)
    store.close()
    assert not (folder / "abort").exists()
    store, report = open_store(folder)
    assert report.clean
    assert report.actions == ()
    assert report.redone_messages == 0
    check_whole(store, COUNT + 20)
    store.close()


@pytest.mark.parametrize("how", ["died", "died late"])
def test_recovered_queues_have_the_bytes_of_undisturbed_ones(tmp_path: Path, how: str) -> None:
    folder = stopped(tmp_path, how)
    store, report = open_store(folder)
    store.close()
    assert how == "died late" or report.redone_messages == COUNT
    assert derived_files(folder) == derived_files(tmp_path / "first")


@pytest.mark.parametrize("how", ["closed", "died"])
def test_a_start_reads_only_what_the_checkpoint_does_not_speak_for(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketeer.store.checkpointing.VERIFY_BYTES", 4096)
    clock = ManualClock()
    store = make_store(tmp_path / "store", clock)
    store.open()
    for start in range(0, COUNT, 10):
        fill(store, start, 10)
        if start < COUNT - 10:
            checkpoint_now(store, clock)
            noted = store.log.max_offset
    folder = kill(store, tmp_path / "copy")
    store.close()
    store, report = open_store(tmp_path / "store" if how == "closed" else folder)
    assert report.redone_messages == (0 if how == "closed" else 10)
    assert report.scanned_from == (store.log.max_offset if how == "closed" else noted)
    ten = store.log.max_offset // (COUNT // 10)
    assert report.scanned_bytes < 6 * ten, "a few times ten messages, not all"
    check_whole(store)
    store.close()


def test_a_replay_passes_over_damage_in_an_old_record_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, _ = open_store(tmp_path / "store")
    fill(store)
    victim = query(store, "Topic0", "k40", 0, 1 << 62, 1).messages[0]
    path = tmp_path / "store" / "commitlog" / f"{victim.log_offset // SEGMENT_BYTES * SEGMENT_BYTES:020d}"
    with path.open("r+b") as file:
        file.seek(victim.log_offset % SEGMENT_BYTES + 1)
        file.write(b"\xee")
    seen = [entry.keys for entry in store.scan(0)]
    assert seen == [f"k{number}" for number in range(COUNT) if number != 40]
    assert f"log damaged at={victim.log_offset}" in caplog.text
    store.close()


@pytest.mark.parametrize("how", ["closed", "died", "died late", "rebuilt"])
@pytest.mark.parametrize("again", [0, 3, 40])
def test_a_topic_deleted_on_purpose_does_not_come_back_and_a_new_one_of_its_name_stays(
    tmp_path: Path, how: str, again: int
) -> None:
    clock = ManualClock()
    store = make_store(tmp_path / "store", clock)
    store.open()
    fill(store)
    if how == "died late":
        checkpoint_now(store, clock)
    store.delete_topic("Topic1")
    for number in range(again):
        store.append(message(b"new %d" % number, "Topic1", 2))
    copy = kill(store, tmp_path / "copy")
    store.close()
    folder = tmp_path / "store" if how in ("closed", "rebuilt") else copy
    if how == "rebuilt":
        shutil.rmtree(folder / "consumequeue")
    for _ in range(2):
        store, _ = open_store(folder)
        assert bodies(store, "Topic1", 2) == [b"new %d" % number for number in range(again)]
        assert store.max_queue_offset("Topic1", 2) == again
        assert store.max_queue_offset("Topic1", 0) == 0
        assert numbers_of(store, "Topic0") == list(range(0, COUNT, 2))
        store.close()


def numbers_of(store: MessageStore, topic: str) -> list[int]:
    return sorted(int(body[:4]) for queue in range(3) for body in bodies(store, topic, queue))


def test_a_slave_deletes_a_topic_where_its_master_did(tmp_path: Path) -> None:
    master, _ = open_store(tmp_path / "master")
    for number in range(5):
        master.append(message(b"old %d" % number))
    master.delete_topic("TopicTest")
    master.append(message(b"new"))
    slave, _ = open_store(tmp_path / "slave", broker_role=BrokerRole.SLAVE)
    view = master.log.read(0, master.log.max_offset)
    assert view is not None
    slave.log.refuse(None)
    slave.append_raw(0, bytes(view))
    assert bodies(slave) == [b"new"]
    master.close()
    slave.close()


# --- what only a person can decide: a clear error, nothing touched --------------------------------


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("how", ["closed", "died"])
@pytest.mark.parametrize("change", ["larger", "smaller", "missing"])
def test_files_of_another_size_or_missing_ones_are_an_error(tmp_path: Path, how: str, change: str) -> None:
    folder = stopped(tmp_path, how)
    size = {"larger": 2 * SEGMENT_BYTES, "smaller": SEGMENT_BYTES // 2, "missing": SEGMENT_BYTES}[change]
    if change == "missing":
        (folder / "commitlog" / f"{SEGMENT_BYTES:020d}").unlink()
    before = snapshot(folder)
    for _ in range(2):
        with pytest.raises(StoreError, match="mappedFileSizeCommitLog"):
            open_store(folder, segment_bytes=size)
    after = snapshot(folder)
    after.pop("lock"), before.pop("lock", None)
    assert after == before
    if change != "missing":
        store, _ = open_store(folder)
        check_whole(store)
        store.close()


# --- stores of a Java broker: no checkpoint of ours -------------------------------------------------


def test_after_a_java_brokers_crash_the_store_times_decide(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)
    store = make_store(tmp_path / "store", clock)
    store.open()
    for number in range(COUNT):
        clock.advance(ms=1000)
        fill(store, number, 1)
    bases = [segment.base for segment in store.log.segments]
    firsts = [store.message_at(base) for base in bases]
    store.close()
    folder = tmp_path / "store"
    (folder / "abort").touch()
    third = firsts[2]
    assert third is not None
    times = struct.pack(">qqq", third.store_ms + 3_000, third.store_ms + 9_000, clock.now_ms())
    (folder / "checkpoint").write_bytes(times.ljust(4096, b"\0"))
    store, report = open_store(folder)
    assert report.scanned_from == bases[2]
    check_whole(store)
    store.close()


def test_after_a_java_brokers_clean_stop_only_the_last_file_is_read(tmp_path: Path) -> None:
    folder = stopped(tmp_path, "closed")
    raw = (folder / "checkpoint").read_bytes()
    (folder / "checkpoint").write_bytes(raw[:24].ljust(4096, b"\0"))
    store, report = open_store(folder)
    assert report.scanned_from == store.log.segments[-1].base
    assert report.actions == ()
    check_whole(store)
    store.close()


# --- stores of our versions before the checkpoint knew a boundary -----------------------------------


def without_newer_part(folder: Path) -> None:
    raw = bytearray((folder / "checkpoint").read_bytes())
    assert any(raw[192:216])
    raw[192:] = bytes(len(raw) - 192)
    (folder / "checkpoint").write_bytes(raw)


@pytest.mark.parametrize("how", HOW)
def test_a_store_of_an_older_version_opens_and_is_read_from_a_files_start(tmp_path: Path, how: str) -> None:
    folder = stopped(tmp_path, how)
    without_newer_part(folder)
    store, report = open_store(folder)
    assert report.quarantined == ()
    check_whole(store)
    fill(store, COUNT, 10)
    store.close()
    assert read_checkpoint(folder / "checkpoint").verify_from is not None
    store, _ = open_store(folder)
    check_whole(store, COUNT + 10)
    store.close()


def test_an_older_checkpoint_that_was_ahead_of_the_disk_costs_only_what_the_disk_lost(tmp_path: Path) -> None:
    clock = ManualClock()
    store = make_store(tmp_path / "store", clock)
    store.open()
    fill(store, 0, 40)
    last = query(store, "Topic1", "k39", 0, 1 << 62, 1).messages[0]
    checkpoint_now(store, clock)
    folder = kill(store, tmp_path / "copy")
    store.close()
    without_newer_part(folder)
    with (folder / "commitlog" / f"{last.log_offset // SEGMENT_BYTES * SEGMENT_BYTES:020d}").open(
        "r+b"
    ) as file:
        file.seek(last.log_offset % SEGMENT_BYTES)
        file.write(bytes(last.size))
    store, _ = open_store(folder)
    assert numbers(store) == list(range(39))
    fill(store, 39, 5)
    assert numbers(store) == list(range(44))
    store.close()


def test_an_index_file_made_after_the_checkpoint_is_no_reason_to_read_more_of_the_log(tmp_path: Path) -> None:
    clock = ManualClock()
    store = make_store(tmp_path / "store", clock)
    store.open()
    fill(store, 0, COUNT // 2)
    checkpoint_now(store, clock)
    noted = store.log.max_offset
    assert noted % SEGMENT_BYTES, "in the middle of a file"
    while len(list((tmp_path / "store" / "index").iterdir())) < 3:
        fill(store, COUNT // 2, 10)
        query(store, "Topic0", "k0", 0, 1 << 62, 1)  # what waits for the index is in its files then
    folder = kill(store, tmp_path / "copy")
    store.close()
    store, report = open_store(folder)
    assert report.scanned_from == noted
    assert not any("index" in action for action in report.actions), report.actions
    assert [each.body[:4] for each in query(store, "Topic1", "k75", 0, 1 << 62, 1).messages] == [b"0075"]
    assert [each.body[:4] for each in query(store, "Topic1", "k1", 0, 1 << 62, 1).messages] == [b"0001"]
    store.close()


@pytest.mark.parametrize("how", HOW)
def test_a_walk_in_small_windows_sees_all_records(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of the log is a gigabyte, and what is ready behind its end need not be looked at."""
    folder = stopped(tmp_path, how)
    monkeypatch.setattr("rocketeer.store.log_scan._WINDOW_BYTES", 20_000)
    monkeypatch.setattr("rocketeer.store.log_scan.RECORD_BYTES_MAX", 4_000)
    store, report = open_store(folder)
    assert report.torn_bytes == 0
    assert report.actions == () or how == "died late", report.actions
    check_whole(store)
    assert [entry.keys for entry in store.scan(0)] == [f"k{number}" for number in range(COUNT)]
    store.close()
