"""Units beside queue entries (enableConsumeQueueExt): written before what points to them, rebuilt, deleted with it."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketeer.model.offsets import QueueOffset
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.java_hash import tag_hash
from rocketeer.store.consume_queue_ext import ADDRESS_MIN, ExtUnit, is_address
from rocketeer.store.file_cache import FileCache
from rocketeer.store.message_store import GetStatus, MessageStore
from rocketeer.store.queue_entry import ENTRY
from support.stores import bodies, kill, message, open_store

FILE_BYTES = 4096


def extended(folder: Path, **changes: Any) -> MessageStore:
    store, _ = open_store(folder, queue_extension_enable=True, queue_extension_bytes=FILE_BYTES, **changes)
    return store


def units(store: MessageStore, queue_id: int = 0) -> list[ExtUnit | None]:
    queue = store.queue_table.get("TopicTest", queue_id)
    raw = queue.read(queue.min_offset, 1 << 20)
    return [queue.unit(code) for _, _, code in ENTRY.iter_unpack(raw)]


def bits_by_body(store: MessageStore) -> Callable[[DispatchEntry], bytes]:
    """A message's bits are its body, twice: easy to recognise."""

    def bits(entry: DispatchEntry) -> bytes:
        found = store.message_at(entry.log_offset)
        assert found is not None
        return found.body * 2

    return bits


def test_every_entry_points_to_its_unit_over_file_borders(tmp_path: Path) -> None:
    store = extended(tmp_path)
    assert store.extension is not None
    store.extension.set_filter_bits(bits_by_body(store))
    for number in range(500):
        store.append(message(b"%07d" % number, tags="TagA", queue_id=number % 2))
    for queue_id in (0, 1):
        found = units(store, queue_id)
        assert [unit and unit.filter_bits for unit in found] == [
            b"%07d" % n * 2 for n in range(queue_id, 500, 2)
        ]
        assert {unit and unit.tag_code for unit in found} == {tag_hash("TagA")}
        store.queue_table.get("TopicTest", queue_id).write_out()
        assert units(store, queue_id) == found, "the same from the files"
        names = sorted(os.listdir(tmp_path / "consumequeue_ext" / "TopicTest" / str(queue_id)))
        assert names == [f"{number * FILE_BYTES:020d}" for number in range(3)]
    first = (tmp_path / "consumequeue_ext" / "TopicTest" / "0" / f"{0:020d}").read_bytes()
    assert len(first) == FILE_BYTES
    per_file = (FILE_BYTES - 4) // 34
    assert first[per_file * 34 : per_file * 34 + 2] == b"\xff\xff", "the end of a file is marked"
    assert store.get("TopicTest", 0, 0, 32, accepts=lambda code: code == tag_hash("TagA")).count == 32
    assert store.entries("TopicTest", 0, 0, 1)[0][2] == tag_hash("TagA")
    assert (
        store.get("TopicTest", 0, 0, 32, accepts=lambda code: code == 1).status
        is GetStatus.NO_MATCHED_MESSAGE
    )
    store.close()


def test_units_go_on_where_they_ended(tmp_path: Path) -> None:
    store = extended(tmp_path)
    for number in range(10):
        store.append(message(b"%d" % number))
    store.close()
    store = extended(tmp_path)
    store.append(message(b"10"))
    codes = [code for _, _, code in ENTRY.iter_unpack(store.queue_table.get("TopicTest", 0).read(0, 20))]
    assert codes == [ADDRESS_MIN + 20 * number for number in range(11)]
    store.close()
    plain, _ = open_store(tmp_path)  # switched off again: what was written stays readable
    plain.append(message(b"11"))
    assert bodies(plain) == [b"%d" % number for number in range(12)]
    plain.close()
    store = extended(tmp_path)
    store.append(message(b"12"))
    raw = store.queue_table.get("TopicTest", 0).read(11, 2)
    (_, _, without), (_, _, code) = ENTRY.iter_unpack(raw)
    assert not is_address(without)
    assert code == ADDRESS_MIN + 20 * 11
    store.close()


def test_units_wait_with_their_entries_and_reach_their_file_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = extended(tmp_path)
    for number in range(300):  # over file borders
        store.append(message(b"%d" % number))
    found = units(store)
    queue = store.queue_table.get("TopicTest", 0)
    written: list[str] = []
    write = FileCache.write

    def full(self: FileCache, path: str, data: bytes, at: int, file_bytes: int) -> None:
        if len(written) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        write(self, path, data, at, file_bytes)

    monkeypatch.setattr(FileCache, "write", full)
    with pytest.raises(OSError, match="No space"):
        queue.write_out()
    assert "consumequeue_ext" in written[0]
    assert queue.pending_bytes == 300 * 20, "no entry is written before its unit is"
    assert units(store) == found
    monkeypatch.undo()
    queue.write_out()
    assert queue.pending_bytes == 0
    assert units(store) == found
    store.close()
    store = extended(tmp_path)
    assert units(store) == found
    store.close()


@pytest.mark.parametrize("written", [0, 4, 6, 10])
def test_units_of_entries_that_are_cut_make_room_for_the_next(tmp_path: Path, written: int) -> None:
    """Wherever they are: in the file, in memory, or some here and some there."""
    store = extended(tmp_path)
    assert store.extension is not None
    store.extension.set_filter_bits(bits_by_body(store))
    queue = store.queue_table.get_or_make("TopicTest", 0)
    ends = []
    for number in range(10):
        ends.append(store.append(message(b"%02d" % number)).end)
        if number + 1 == written:
            queue.write_out()
    before = units(store)
    assert queue.truncate_to_log(ends[5]) == 4
    assert units(store) == before[:6]
    new = store.append(message(b"new"))
    assert [code for _, _, code in ENTRY.iter_unpack(queue.read(QueueOffset(6), 1))] == [ADDRESS_MIN + 6 * 24]
    expected = [*before[:6], ExtUnit(new.tag_code, new.store_ms, b"new" * 2)]
    assert units(store) == expected
    queue.write_out()
    assert units(store) == expected
    store.close()


def test_an_entry_that_is_refused_leaves_no_unit(tmp_path: Path) -> None:
    store = extended(tmp_path)
    entry = store.append(message(b"0"))
    queue = store.queue_table.get("TopicTest", 0)
    pending = len(queue._units._tail)
    for offset in (0, 1 + queue._files.per_file + 1):
        assert not queue.append(entry._replace(queue_offset=offset))
    assert len(queue._units._tail) == pending
    store.close()


def test_a_process_that_dies_leaves_units_that_can_be_read_and_rebuilt(tmp_path: Path) -> None:
    store = extended(tmp_path / "a")
    assert store.extension is not None
    store.extension.set_filter_bits(bits_by_body(store))
    for number in range(700):
        store.append(message(b"%07d" % number))
    copy = kill(store, tmp_path / "b")
    store.close()
    again = extended(copy)
    found = units(again)
    assert len(found) == 700
    # What was dispatched again at recovery has no bits: no filter was known then, so filters look at the message.
    assert all(
        unit is not None and unit.filter_bits in (b"%07d" % n * 2, b"") for n, unit in enumerate(found)
    )
    again.append(message(b"new"))
    assert len(bodies(again)) == 701
    again.close()


def test_lost_unit_files_cost_nothing_but_speed(tmp_path: Path) -> None:
    store = extended(tmp_path)
    for number in range(300):
        store.append(message(b"%d" % number, tags="TagA"))
    store.close()
    for path in (tmp_path / "consumequeue_ext").rglob("0*"):
        if path.is_file():
            path.unlink()
    store = extended(tmp_path)
    assert len(bodies(store)) == 300
    assert store.get("TopicTest", 0, 0, 32, accepts=lambda code: code == tag_hash("TagA")).count == 32
    store.append(message(b"300"))
    assert len(bodies(store)) == 301
    store.close()


def test_units_go_with_their_messages(tmp_path: Path) -> None:
    store = extended(tmp_path, consume_queue_bytes=50 * 20)
    folder = tmp_path / "consumequeue_ext" / "TopicTest" / "0"
    for _ in range(1200):
        store.append(message(b"x" * 200))
    assert len(list(folder.iterdir())) > 4
    for _ in range(4):
        store.log.drop_first()
    for path in store.queue_table.raise_min(store.log.min_offset):
        os.unlink(path)
    left = sorted(path.name for path in folder.iterdir())
    assert left
    assert left[0] != f"{0:020d}"
    assert all(unit is not None for unit in units(store))
    store.delete_topic("TopicTest")
    assert not folder.exists()
    store.append(message(b"again"))
    assert bodies(store) == [b"again"]
    store.close()


def test_units_of_a_topic_that_is_deleted_are_put_aside_with_its_queues(tmp_path: Path) -> None:
    store = extended(tmp_path)
    for number in range(50):
        store.append(message(queue_id=number))
    store.queue_table.write_out()
    store.delete_topic("TopicTest")
    aside = list(store.queue_table.folders_to_delete)
    assert [len(list(folder.glob("*/*"))) for folder in aside] == [50, 50], "deleting files takes its time"
    deadline_s = time.monotonic() + 60
    while any(map(Path.exists, aside)):
        assert time.monotonic() < deadline_s
        store.tick()
        time.sleep(0.001)
    store.append(message(b"again"))
    assert [unit is not None for unit in units(store)] == [True]
    store.close()


@pytest.mark.parametrize("bits", [b"", b"\x01" * 14])
def test_a_test_may_skip_a_record_by_its_unit(tmp_path: Path, bits: bytes) -> None:
    """When the records would have to come from the disk; in memory looking at them is quicker."""

    class Wants:
        terms = 1

        seen = 0

        def may_match(self, unit: ExtUnit) -> bool:
            return not unit.filter_bits

        def matches(self, record: memoryview) -> bool:
            self.seen += 1
            return True

        def scan(self, *run: Any) -> Any:
            raise AssertionError("everything lies on the disk")

    store = extended(tmp_path, memory_ratio=0)
    assert store.extension is not None
    store.extension.set_filter_bits(lambda entry: bits)
    for _ in range(5):
        store.append(message(b"x"))
    wants = Wants()
    fetched = store.get("TopicTest", 0, 0, 32, matches=wants)
    if bits:
        assert (fetched.status, wants.seen) == (GetStatus.NO_MATCHED_MESSAGE, 0)
    else:
        assert (fetched.status, wants.seen) == (GetStatus.FOUND, 5)
    assert fetched.next_offset == 5
    store.close()
