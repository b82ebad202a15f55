"""Opening a store again: after a clean stop, after a death, after all kinds of damage. The log decides."""

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketeer.clock import ManualClock
from rocketeer.errors import StoreError
from rocketeer.record.entry import DispatchEntry
from rocketeer.store import summary
from rocketeer.store.checkpoint import Checkpoint
from rocketeer.store.message_store import MessageStore
from support.stores import (
    SEGMENT_BYTES,
    bodies,
    checkpoint_now,
    derived_files,
    kill,
    make_store,
    message,
    open_store,
    read_queue,
)

COUNT = 150
FIRST_LOG = "commitlog/00000000000000000000"


def body_of(number: int) -> bytes:
    return b"%04d" % number * (1 + number * 7 % 800)


def fill(store: MessageStore, start: int = 0, count: int = COUNT) -> None:
    """Some topics and queues, over several log and queue files; each message can be asked for by its number."""
    for number in range(start, start + count):
        topic, queue_id = f"Topic{number % 2}", number % 3
        store.append(message(body_of(number), topic, queue_id, tags="T", keys=f"k{number}"))


def numbers(store: MessageStore) -> list[int]:
    """Numbers of all messages in all queues; every queue in order and without holes."""
    found = []
    for topic, queue_id in store.queues():
        messages = read_queue(store, topic, queue_id)
        low = store.min_queue_offset(topic, queue_id)
        assert [each.queue_offset for each in messages] == list(range(low, low + len(messages)))
        for each in messages:
            number = int(each.body[:4])
            assert each.body == body_of(number)
            found.append(number)
    return sorted(found)


def check_whole(store: MessageStore, count: int = COUNT) -> None:
    assert numbers(store) == list(range(count))
    for number in range(count):
        found = store.query(f"Topic{number % 2}", f"k{number}", 0, 1 << 62, 32).messages
        assert [each.body for each in found] == [body_of(number)], number


def stopped(folder: Path, how: str) -> Path:
    """A filled store that was closed, or whose process died before anything was written out, or in between."""
    clock = ManualClock()
    store = make_store(folder / "first", clock)
    store.open()
    fill(store, 0, COUNT // 2)
    if how == "died late":
        checkpoint_now(store, clock)
    fill(store, COUNT // 2, COUNT - COUNT // 2)
    if how == "closed":
        store.close()
        return folder / "first"
    copy = kill(store, folder / "copy")
    store.close()
    return copy


HOW = ["closed", "died", "died late"]


@pytest.mark.parametrize("how", HOW)
def test_everything_is_there_again(tmp_path: Path, how: str) -> None:
    folder = stopped(tmp_path, how)
    store, report = open_store(folder)
    assert report.clean is (how == "closed")
    assert report.torn_bytes == 0
    assert report.set_aside == ()
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
    store, _ = open_store(folder)
    store.close()
    assert derived_files(folder) == derived_files(tmp_path / "first")


def test_redone_messages_reach_the_dispatchers(tmp_path: Path) -> None:
    folder = stopped(tmp_path, "died")
    store = make_store(folder)
    seen: list[DispatchEntry] = []
    store.dispatchers.append(seen.append)
    report = store.open()
    assert len(seen) == report.redone_messages == COUNT
    assert [each.keys for each in seen] == [f"k{number}" for number in range(COUNT)]
    store.close()


def test_a_start_after_death_reads_from_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketeer.store.recovery.VERIFY_BYTES", 4096)
    folder = stopped(tmp_path, "died late")
    store, report = open_store(folder)
    assert report.redone_messages == COUNT - COUNT // 2
    assert report.scanned_from > store.log.max_offset // 4
    assert report.scanned_bytes < store.log.max_offset - report.scanned_from + 8192
    check_whole(store)
    store.close()


def test_a_clean_start_reads_only_the_end_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketeer.store.recovery.VERIFY_BYTES", 4096)
    store, report = open_store(stopped(tmp_path, "closed"))
    assert report.scanned_bytes <= 4096 + 2000
    check_whole(store)
    store.close()


# --- damage to what is derived: nothing may be missing afterwards ---------------------------------


def cut_queue_file(folder: Path) -> None:
    with (folder / "consumequeue/Topic0/2/00000000000000000000").open("r+b") as file:
        file.truncate(101)


def zero_end_of_queue_file(folder: Path) -> None:
    with (folder / "consumequeue/Topic1/1/00000000000000000000").open("r+b") as file:
        file.seek(200)
        file.write(bytes(1800))


def remove_queue(folder: Path) -> None:
    shutil.rmtree(folder / "consumequeue/Topic1/0", ignore_errors=True)


def remove_topic(folder: Path) -> None:
    shutil.rmtree(folder / "consumequeue/Topic1", ignore_errors=True)


def remove_all_queues(folder: Path) -> None:
    shutil.rmtree(folder / "consumequeue")


def point_queue_past_the_log(folder: Path) -> None:
    path = folder / "consumequeue/Topic0/0/00000000000000000000"
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = bytearray(path.read_bytes() if path.exists() else b"").ljust(2000, b"\0")
    used = next((at for at in range(0, 2000, 20) if raw[at : at + 20] == bytes(20)), 2000)
    for extra in range(5):
        if used + 20 <= 2000:
            struct.pack_into(">qiq", raw, used, (1 << 30) + 100 * extra, 100, 0)
            used += 20
    path.write_bytes(raw)


def remove_index(folder: Path) -> None:
    shutil.rmtree(folder / "index", ignore_errors=True)


def remove_newest_index_file(folder: Path) -> None:
    files = sorted((folder / "index").glob("2*")) if (folder / "index").exists() else []
    if files:
        files[-1].unlink()


def cut_index_file(folder: Path) -> None:
    for path in (folder / "index").glob("2*"):
        os.truncate(path, 1000)


def spoil_index_header(folder: Path) -> None:
    for path in (folder / "index").glob("2*"):
        with path.open("r+b") as file:
            file.seek(36)
            file.write(struct.pack(">i", 1 << 30))


def remove_checkpoint(folder: Path) -> None:
    (folder / "checkpoint").unlink()


def spoil_checkpoint(folder: Path) -> None:
    (folder / "checkpoint").write_bytes(os.urandom(4096))


def empty_checkpoint(folder: Path) -> None:
    (folder / "checkpoint").write_bytes(b"")


def remove_everything_derived(folder: Path) -> None:
    for path in list(folder.iterdir()):
        if path.name in ("consumequeue", "index"):
            shutil.rmtree(path)
        elif path.name in ("checkpoint", "lock"):
            path.unlink()


def add_empty_log_file(folder: Path) -> None:
    last = max((folder / "commitlog").iterdir())
    (folder / "commitlog" / f"{int(last.name) + SEGMENT_BYTES:020d}").touch()


def add_zero_log_file(folder: Path) -> None:
    last = max((folder / "commitlog").iterdir())
    (folder / "commitlog" / f"{int(last.name) + SEGMENT_BYTES:020d}").write_bytes(bytes(SEGMENT_BYTES))


def shorten_last_log_file(folder: Path) -> None:
    last = max((folder / "commitlog").iterdir())
    last.write_bytes(last.read_bytes().rstrip(b"\0"))


def leave_strange_files(folder: Path) -> None:
    (folder / "commitlog/notes.txt").write_text("mine")
    (folder / "consumequeue").mkdir(exist_ok=True)
    (folder / "consumequeue/notes.txt").write_text("mine")


def claim_a_checkpoint_ahead(folder: Path) -> None:
    summary.save(folder / "checkpoint", Checkpoint(1, 1, 1, 1 << 40, 1 << 40), summary.Summary(5, 5))


def claim_a_checkpoint_between_records(folder: Path) -> None:
    summary.save(folder / "checkpoint", Checkpoint(1, 1, 1, 1111, 1111), summary.Summary(5, 5))


DAMAGE: list[Callable[[Path], None]] = [
    cut_queue_file,
    zero_end_of_queue_file,
    remove_queue,
    remove_topic,
    remove_all_queues,
    point_queue_past_the_log,
    remove_index,
    remove_newest_index_file,
    cut_index_file,
    spoil_index_header,
    remove_checkpoint,
    spoil_checkpoint,
    empty_checkpoint,
    remove_everything_derived,
    add_empty_log_file,
    add_zero_log_file,
    shorten_last_log_file,
    leave_strange_files,
    claim_a_checkpoint_ahead,
    claim_a_checkpoint_between_records,
]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_what_is_derived_comes_back_from_the_log(
    tmp_path: Path, how: str, damage: Callable[[Path], None]
) -> None:
    folder = stopped(tmp_path, how)
    if damage in (cut_queue_file, zero_end_of_queue_file) and how == "died":
        pytest.skip("its queues were never written out")
    damage(folder)
    store, report = open_store(folder)
    assert report.set_aside == ()
    check_whole(store)
    fill(store, COUNT, 5)
    store.close()
    store, report = open_store(folder)
    assert report.actions == ()
    check_whole(store, COUNT + 5)
    store.close()


@pytest.mark.parametrize("how", HOW)
def test_a_cut_queue_and_a_lost_checkpoint_together(tmp_path: Path, how: str) -> None:
    folder = stopped(tmp_path, how)
    remove_checkpoint(folder)
    if how != "died":
        cut_queue_file(folder)
    remove_index(folder)
    store, _ = open_store(folder)
    check_whole(store)
    store.close()


def test_a_topic_deleted_on_purpose_does_not_come_back(tmp_path: Path) -> None:
    store, _ = open_store(tmp_path / "store")
    fill(store)
    store.delete_topic("Topic1")
    copy = kill(store, tmp_path / "copy")
    store.append(message(b"new", "Topic1", 2))
    assert store.max_queue_offset("Topic1", 2) == 1
    store.close()
    store, report = open_store(tmp_path / "store")
    assert report.actions == ()
    assert bodies(store, "Topic1", 2) == [b"new"]
    assert store.max_queue_offset("Topic1", 0) == 0
    store.close()
    store, _ = open_store(copy)
    assert numbers(store)[:2] == [0, 1], "what the log had after the last checkpoint is dispatched again"
    store.close()


def test_a_single_message_is_found_again_by_its_key(tmp_path: Path) -> None:
    store, _ = open_store(tmp_path)
    store.append(message(b"only", keys="key"))
    store.close()
    shutil.rmtree(tmp_path / "index")
    store, _ = open_store(tmp_path)
    assert [each.body for each in store.query("TopicTest", "key", 0, 1 << 62, 5).messages] == [b"only"]
    store.close()


# --- damage to the log ----------------------------------------------------------------------------


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
