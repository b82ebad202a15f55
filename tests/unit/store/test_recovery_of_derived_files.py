"""Damage to what is derived from the log (queues, index, checkpoint): nothing may be missing afterwards."""

import os
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketeer.store import summary
from rocketeer.store.checkpoint import Checkpoint
from rocketeer.store.checkpointing import Checkpointer
from support.clock import ManualClock
from support.recovered import COUNT, HOW, check_whole, fill, stopped
from support.stores import (
    SEGMENT_BYTES,
    checkpoint_now,
    kill,
    make_store,
    message,
    open_store,
    query,
    read_queue,
)


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
    assert report.quarantined == ()
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


def test_a_single_message_is_found_again_by_its_key(tmp_path: Path) -> None:
    store, _ = open_store(tmp_path)
    store.append(message(b"only", keys="key"))
    store.close()
    shutil.rmtree(tmp_path / "index")
    store, _ = open_store(tmp_path)
    assert [each.body for each in query(store, "TopicTest", "key", 0, 1 << 62, 5).messages] == [b"only"]
    store.close()


@pytest.mark.parametrize("byte", [0, 2, 4, 6], ids="byte{}".format)
def test_an_entry_that_seems_to_lie_beyond_the_checkpoint_is_found_again(tmp_path: Path, byte: int) -> None:
    """Also while no summary says how long the queues are, as between the deletion of a topic and the next checkpoint."""
    clock = ManualClock()
    store = make_store(tmp_path / "first", clock)
    store.open()
    store.append(message(b"rare", "Rare", 0))
    fill(store)
    checkpoint_now(store, clock)
    folder = kill(store, tmp_path / "copy")
    store.close()
    summary.forget(folder / "checkpoint")
    with (folder / "consumequeue/Rare/0/00000000000000000000").open("r+b") as file:
        raw = bytearray(file.read(20))
        raw[byte] ^= 0x40
        file.seek(0)
        file.write(raw)
    store, _ = open_store(folder)
    assert [each.body for each in read_queue(store, "Rare", 0)] == [b"rare"]
    store.append(message(b"next", "Rare", 0))
    assert [each.body for each in read_queue(store, "Rare", 0)] == [b"rare", b"next"]
    store.close()


def test_a_recovery_that_dies_has_not_forgotten_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it deletes the queues of a topic: only the summary says that the others are not filled yet."""
    clock = ManualClock()
    store = make_store(tmp_path / "first", clock)
    store.open()
    fill(store)
    checkpoint_now(store, clock)
    noted = (tmp_path / "first/checkpoint").read_bytes()
    store.delete_topic("Topic0")
    assert summary.load(tmp_path / "first/checkpoint")[1] is None
    folder = kill(store, tmp_path / "copy")
    store.close()
    (folder / "checkpoint").write_bytes(noted)  # what forgets it is not synced

    def die(self: Checkpointer) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(Checkpointer, "start", die)
        with pytest.raises(MemoryError):
            open_store(folder)
    assert not (folder / "consumequeue/Topic0").exists()
    assert summary.load(folder / "checkpoint")[1] is not None
    store, _ = open_store(folder)
    assert {topic for topic, _ in store.queues()} == {"Topic1"}
    store.close()


def test_names_that_an_earlier_life_gave_are_synced_after_a_crash(tmp_path: Path) -> None:
    """It may have died before it did so itself, and what lies in an old folder is no news to the next life."""
    folder = stopped(tmp_path, "died late")
    queues = folder / "consumequeue"
    wanted = {str(path) for path in (queues, *queues.rglob("*")) if path.is_dir()}
    assert len(wanted) > 6
    opened: set[str] = set()
    listens = [True]

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and listens[0]:
            opened.add(str(arguments[0]))

    sys.addaudithook(note)  # it stays, so it must be able to do nothing
    try:
        store, _ = open_store(folder)
    finally:
        listens[0] = False
    assert wanted <= opened
    store.close()
