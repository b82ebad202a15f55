"""An audit finds every fault that is planted, says where, and finds nothing in a store that is well."""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketeer.audit import chain as audit_chain
from rocketeer.audit import entries as audit_entries
from rocketeer.audit import index as audit_index
from rocketeer.audit import log as audit_log
from rocketeer.audit import queues as audit_queues
from rocketeer.audit.report import AuditReport
from rocketeer.audit.store import AHEAD, NO_CHECKPOINT, NO_INDEX, audit_store, in_this_process
from rocketeer.record.layout import StoredMessage
from support.audited import SLOTS, Copy, write_store

CHUNKS = (64 << 20, 5_000)
"""A file as one chunk, and files of many."""


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audited") / "store"
    write_store(folder)
    return folder


@pytest.fixture
def copy(healthy: Path, tmp_path: Path) -> Copy:
    shutil.copytree(healthy, tmp_path / "store")
    return Copy(tmp_path / "store")


def look(folder: Path, chunk_bytes: int = 64 << 20, **given: bool) -> AuditReport:
    return audit_store(in_this_process, folder, chunk_bytes=chunk_bytes, **given)


@pytest.mark.parametrize("chunk_bytes", [64 << 20, 5_000, 300])
def test_nothing_is_wrong_with_a_healthy_store_however_it_is_cut_into_chunks(
    healthy: Path, chunk_bytes: int
) -> None:
    report = look(healthy, chunk_bytes)
    assert report.ok, report.table()
    assert report.exact
    assert report.facts["records"] == 900
    assert report.facts["keys"] == report.facts["index entries"] > 2000
    assert report.facts["queue entries"] + report.facts["transactions unseen"] == 900


# --- faults -------------------------------------------------------------------------------------


def has_body(record: StoredMessage) -> bool:
    return (
        len(record.body) > 20
        and record.topic == "Topic1"
        and record.sys_flag == 0
        and bool(record.tags and record.keys)
    )


def flip_body(copy: Copy) -> int:
    path, at, record = copy.pick(has_body)
    copy.flip(path, at + 88 + 5)
    return record.log_offset


def flip_head(place: int, bits: int = 0x01, *, is_there: bool = True) -> Callable[[Copy], int]:
    """`is_there`: the finding is about this record, not about the one that misses it."""

    def plant(copy: Copy) -> int:
        path, at, record = copy.pick(has_body)
        copy.flip(path, at + place, bits)
        return record.log_offset if is_there else 0

    return plant


def flip_property(name: bytes) -> Callable[[Copy], int]:
    def plant(copy: Copy) -> int:
        path, at, record = copy.pick(has_body)
        in_file = (
            at
            + record.size
            - len(record.properties)
            + record.properties.index(name + b"\x01")
            + len(name)
            + 1
        )
        copy.flip(path, in_file)
        return 0 if name == b"TAGS" else record.log_offset  # a wrong tag is found where the queue has another

    return plant


def flip_properties_length(copy: Copy) -> int:
    path, at, record = copy.pick(has_body)
    copy.flip(path, at + record.size - len(record.properties) - 1)
    return record.log_offset


def wipe_record(copy: Copy) -> int:
    path, at, record = copy.pick(has_body)
    copy.write(path, at, bytes(record.size))
    return record.log_offset


def wild_size(copy: Copy) -> int:
    path, at, record = copy.pick(has_body)
    copy.write(path, at, struct.pack(">i", 0x7FFFFFF0))
    return record.log_offset


def wrong_filler(copy: Copy) -> int:
    path = copy.segments()[0]
    at = max(place + record.size for file, place, record in copy.records() if file == path)
    copy.write(path, at, struct.pack(">i", 16))
    return at


def no_filler(copy: Copy) -> int:
    path = copy.segments()[0]
    at = max(place + record.size for file, place, record in copy.records() if file == path)
    copy.write(path, at, bytes(8))
    return at


def lost_segment(copy: Copy) -> int:
    copy.segments()[2].unlink()
    return int(copy.segments()[1].name) + copy.segments()[1].stat().st_size


def garbage_at_the_end(copy: Copy) -> int:
    path = copy.segments()[-1]
    at = max(place + record.size for file, place, record in copy.records() if file == path)
    copy.write(path, at, b"garbage!" * 4)
    return int(path.name) + at


def hole_in_offsets(copy: Copy) -> int:
    path, at, record = copy.pick(has_body)
    copy.put_queue_offset(path, at, record.queue_offset + 7)
    return record.log_offset


def cut_queue(copy: Copy) -> int:
    path = copy.queue_file()
    entries = 20 * 30
    path.write_bytes(path.read_bytes()[:entries])
    return 30


def emptied_queue_end(copy: Copy) -> int:
    path = copy.queue_file()
    raw = bytearray(path.read_bytes())
    raw[20 * 40 :] = bytes(len(raw) - 20 * 40)
    path.write_bytes(raw)
    return 40


def lost_queue(copy: Copy) -> int:
    shutil.rmtree(copy.folder / "consumequeue" / "Topic1" / "1")
    return 0


def wrong_tag_code(copy: Copy) -> int:
    copy.flip(copy.queue_file(), 20 * 12 + 19)
    return 12


def wrong_due_time(copy: Copy) -> int:
    copy.flip(copy.queue_file("SCHEDULE_TOPIC_XXXX", 2), 20 * 3 + 19)
    return 2


def wrong_entry_offset(copy: Copy) -> int:
    copy.flip(copy.queue_file(), 20 * 12 + 7)
    return 12


def wrong_entry_size(copy: Copy) -> int:
    copy.flip(copy.queue_file(), 20 * 12 + 11)
    return 12


def entry_too_many(copy: Copy) -> int:
    path = copy.queue_file()
    raw = path.read_bytes()
    used = max(at for at in range(0, len(raw), 20) if raw[at + 8 : at + 12] != bytes(4)) // 20 + 1
    copy.write(path, 20 * used, struct.pack(">qiq", 10, 100, 0))
    return used


def index_entry_wiped(copy: Copy) -> int:
    copy.write(copy.index_file(), copy.index_entry_at(17), bytes(20))
    return 0


def index_entry_of_another_key(copy: Copy) -> int:
    copy.flip(copy.index_file(), copy.index_entry_at(17) + 3)
    return 0


def index_entry_elsewhere(copy: Copy) -> int:
    copy.flip(copy.index_file(), copy.index_entry_at(17) + 8, 0x10)
    return 0


def index_entry_before_the_end_lost(copy: Copy) -> int:
    copy.index_header(next_entry=150)
    return 0


def index_slot_lost(copy: Copy) -> int:
    path = copy.index_file()
    slot = next(at for at in range(40, 40 + 4 * SLOTS, 4) if copy.read(path, at, 4) != bytes(4))
    copy.write(path, slot, bytes(4))
    return 0


def index_time_wrong(copy: Copy) -> int:
    copy.flip(copy.index_file(2), copy.index_entry_at(17) + 12 + 2)
    return 0


def index_file_lost(copy: Copy) -> int:
    copy.index_file(3).unlink()
    return 0


def all_index_files_lost(copy: Copy) -> int:
    shutil.rmtree(copy.folder / "index")
    return 0


def index_count_wrong(copy: Copy) -> int:
    copy.index_header(used_slots=3)
    return 0


def checkpoint_ahead(copy: Copy) -> int:
    copy.write(copy.folder / "checkpoint", 0, struct.pack(">q", 1 << 50))
    return 0


def checkpoint_lost(copy: Copy) -> int:
    (copy.folder / "checkpoint").unlink()
    return 0


FAULTS: list[tuple[str, Callable[[Copy], int], str]] = [
    ("a byte of a body", flip_body, audit_log.CRC),
    ("the stored checksum", flip_head(11), audit_log.CRC),
    ("the size", flip_head(3), audit_log.DAMAGE),
    ("the magic", flip_head(5), audit_log.DAMAGE),
    ("the queue id", flip_head(15, is_there=False), audit_queues.HOLE),
    ("the queue offset", flip_head(27), audit_queues.HOLE),
    ("the log offset", flip_head(35), audit_log.PLACE),
    ("the system flag's transaction bits", flip_head(39, 0x04, is_there=False), audit_entries.NOWHERE),
    ("the system flag's host bits", flip_head(39, 0x10), audit_log.DAMAGE),
    ("the store time", flip_head(61), audit_index.BAD_TIME),
    ("the body's length", flip_head(87), audit_log.DAMAGE),
    ("a tag", flip_property(b"TAGS"), audit_queues.WRONG_TAG),
    ("a key", flip_property(b"KEYS"), audit_index.NO_KEY),
    ("a message id", flip_property(b"UNIQ_KEY"), audit_index.NO_KEY),
    ("the properties' length", flip_properties_length, audit_log.DAMAGE),
    ("a record of zeros", wipe_record, audit_log.DAMAGE),
    ("a size beyond the file", wild_size, audit_log.DAMAGE),
    ("a filler that is too short", wrong_filler, audit_log.FILLER),
    ("no filler", no_filler, audit_chain.NO_FILLER),
    ("a file of the log lost", lost_segment, audit_chain.NO_FILE),
    ("garbage behind the log", garbage_at_the_end, audit_chain.TORN),
    ("a hole in queue offsets", hole_in_offsets, audit_queues.HOLE),
    ("a cut queue", cut_queue, audit_queues.NO_ENTRY),
    ("a queue whose end is zeros", emptied_queue_end, audit_queues.NO_ENTRY),
    ("a lost queue", lost_queue, audit_queues.NO_ENTRY),
    ("a wrong tag code", wrong_tag_code, audit_queues.WRONG_TAG),
    ("a wrong time of delivery", wrong_due_time, audit_queues.WRONG_TAG),
    ("an entry with a wrong offset", wrong_entry_offset, audit_queues.WRONG_ENTRY),
    ("an entry with a wrong size", wrong_entry_size, audit_queues.WRONG_ENTRY),
    ("an entry too many", entry_too_many, audit_entries.NOWHERE),
    ("an index entry of zeros", index_entry_wiped, audit_index.NO_KEY),
    ("an index entry of another key", index_entry_of_another_key, audit_index.NOWHERE),
    ("an index entry that points elsewhere", index_entry_elsewhere, audit_index.NOWHERE),
    ("index entries cut off", index_entry_before_the_end_lost, audit_index.NO_KEY),
    ("a slot of the index lost", index_slot_lost, audit_index.LOST_WAY),
    ("a time in the index", index_time_wrong, audit_index.BAD_TIME),
    ("an index file lost", index_file_lost, audit_index.NO_KEY),
    ("all index files lost", all_index_files_lost, NO_INDEX),
    ("a count in the index header", index_count_wrong, audit_index.BAD_HEADER),
    ("a checkpoint ahead of the log", checkpoint_ahead, AHEAD),
    ("a lost checkpoint", checkpoint_lost, NO_CHECKPOINT),
]


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
@pytest.mark.parametrize(
    ("plant", "kind"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
def test_every_planted_fault_is_found(
    copy: Copy, plant: Callable[[Copy], int], kind: str, chunk_bytes: int
) -> None:
    where = plant(copy)
    report = look(copy.folder, chunk_bytes)
    assert not report.ok
    assert kind in report.findings.counts, report.table()
    if where:
        places = [finding.offset for finding in report.findings.kept if finding.kind == kind]
        assert where in places, report.table()
    assert sum(report.findings.counts.values()) < 1000, report.table(
        20
    )  # the fault, not everything behind it
