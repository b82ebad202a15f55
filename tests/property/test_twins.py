"""Compiled functions and their plain twins give the same answers, whatever they are fed."""

import ctypes
import errno
import mmap
import os
import struct
import sys
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketeer.compiled import COMPILED
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.protocol.frame import FRAME_BYTES_MAX, pack_frame
from rocketeer.protocol.frames_plain import split_frames
from rocketeer.protocol.reply_template import ReplyTemplate
from rocketeer.record import indexed_properties_plain
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.java_hash import index_hash
from rocketeer.record.layout import HEAD, MAGIC
from rocketeer.record.properties import decode_properties
from rocketeer.store import id_table_plain, index_loops_plain, kernel_plain, queue_entries_plain
from rocketeer.store.hash_columns import hash_keys, positive
from rocketeer.store.index_layout import ENTRY, SLOT

if COMPILED or TYPE_CHECKING:
    from rocketeer.engine import _replies
    from rocketeer.protocol import _frames
    from rocketeer.record import _indexed_properties
    from rocketeer.store import _id_table, _index_loops, _kernel, _queue_entries

pytestmark = pytest.mark.skipif(not COMPILED, reason="without compiled modules there is nothing to compare")

names = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "WAIT", "DELAY", "u", "", "größe", "KEYSx", "xTAGS"])
values = st.one_of(st.sampled_from(["", "true", "TRUE", "false", "3"]), st.text(max_size=12))
pieces = st.one_of(st.builds("{}\x01{}".format, names, values), st.text(alphabet="aT\x01", max_size=6))
texts = st.one_of(
    st.lists(pieces, max_size=8).map("\x02".join), st.text(alphabet="TAGSKEYW\x01\x02é", max_size=40)
)
i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None, max_examples=400)
@given(raw=st.one_of(texts.map(str.encode), st.binary(max_size=60)))
def test_indexed_properties_are_what_reading_all_properties_gives(raw: bytes) -> None:
    indexed = _indexed_properties.find_indexed_properties(raw)
    assert indexed == indexed_properties_plain.find_indexed_properties(raw)
    read = decode_properties(raw)
    assert indexed == (read.get("TAGS"), read.get("KEYS", ""), read.get("UNIQ_KEY"), read.get("DELAY", ""))


frames = st.builds(pack_frame, st.integers(0, 1), st.binary(max_size=20), st.binary(max_size=20))


@settings(deadline=None, max_examples=300)
@given(
    data=st.lists(st.one_of(frames, frames, st.binary(max_size=12)), max_size=5).map(b"".join),
    cut=st.integers(0, 12),
    limit=st.sampled_from([32, FRAME_BYTES_MAX]),
)
def test_frames(data: bytes, cut: int, limit: int) -> None:
    data = data[: max(0, len(data) - cut)]
    assert _frames.split_frames(data, limit) == split_frames(data, limit)


sizes_and_gaps = st.lists(st.tuples(st.integers(-3, 150), st.integers(0, 20), i64), max_size=8)
damage = st.sampled_from([None, None, "size", "magic", "queue id", "queue offset", "log offset", "window"])


@settings(deadline=None, max_examples=300)
@given(
    rows=sizes_and_gaps,
    first=st.integers(0, 40),
    queue_offset=st.integers(0, 9),
    damage=damage,
    extra=st.integers(0, 1),
)
def test_records_that_entries_point_to(
    rows: list[tuple[int, int, int]], first: int, queue_offset: int, damage: str | None, extra: int
) -> None:
    log, entries, records = bytearray(), b"", b""
    for place, (size, gap, tag_code) in enumerate(rows):
        log += bytes(gap)
        at = first + len(log)
        entries += queue_entries_plain._pack_entry(at, size, tag_code)
        wrong = {damage: 1} if place == len(rows) // 2 else {}
        record = bytearray(max(size, HEAD.size))
        record[:36] = struct.pack(
            ">ii4xi4xqq",
            size + wrong.get("size", 0),
            MAGIC - wrong.get("magic", 0),
            3 + wrong.get("queue id", 0),
            queue_offset + place + wrong.get("queue offset", 0),
            at + wrong.get("log offset", 0),
        )
        log += record
        records += record
    window = memoryview(log)[: len(log) - (damage == "window")]
    for total in (len(records), len(records) + extra, -1):
        answers = [
            twin.gather_records(window, entries, first, total, queue_offset, 3)
            for twin in (_queue_entries, queue_entries_plain)
        ]
        assert answers[0] == answers[1]
        holds = {
            twin.entries_hold(window, entries, first, queue_offset, 3)
            for twin in (_queue_entries, queue_entries_plain)
        }
        assert holds == {not rows or (damage is None and min(size for size, _, _ in rows) >= HEAD.size)}
        if holds == {True}:
            assert answers[0] == (records if total == len(records) else None)
    if rows:
        assert _queue_entries.run_bounds(entries) == queue_entries_plain.run_bounds(entries)


def test_no_entries_have_no_bounds() -> None:
    for twin in (_queue_entries, queue_entries_plain):
        with pytest.raises(ValueError, match="no entries"):
            twin.run_bounds(b"")


def tail_of(twin: Any) -> Any:
    class Tail(twin.QueueTail):  # type: ignore[misc]
        def __init__(self) -> None:
            self.max_offset, self._due, self._tail, self.written = 0, 3, bytearray(), 0
            self._ends = twin.QueueEnds()

        def _move_to(self, offset: int) -> bool:
            if offset < self.max_offset:
                return False
            self.max_offset = offset
            return True

        def _write_out_due(self) -> None:
            self.written += 1
            self._due = self.max_offset + 3

    return Tail()


@settings(deadline=None, max_examples=100)
@given(puts=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2**62), st.integers(0, 2**31 - 1), i64)))
def test_tails_of_queues(puts: list[tuple[int, int, int, int]]) -> None:
    compiled, plain = tail_of(_queue_entries), tail_of(queue_entries_plain)
    for put in puts:
        assert compiled.put(*put) == plain.put(*put)
    for name in ("max_offset", "_due", "_tail", "written"):
        assert getattr(compiled, name) == getattr(plain, name)
    assert compiled._ends.total == plain._ends.total


words = st.text(alphabet=st.sampled_from("abk0 é世😀\ud800"), max_size=12)
entries = st.lists(
    st.builds(
        DispatchEntry, st.integers(0, 2**62), st.just(100), st.sampled_from(["T", "Größe", "😀"]), st.just(0),
        st.just(0), st.just(0), st.integers(0, 2**62), words, st.none() | words, st.sampled_from([0, 4, 8, 12]),
        st.just(0),
    ),
    max_size=30,
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(entries=entries)
def test_key_columns(entries: list[DispatchEntry]) -> None:
    assert _index_loops.key_columns(entries) == index_loops_plain.key_columns(entries)


@settings(deadline=None, max_examples=300)
@given(topic=st.sampled_from(["T", "Größe", "😀"]), key=words.filter(lambda text: text and " " not in text))
@example(topic="T", key="a" * 70_000 + "😀" * 40_000)  # more than fits into the tables at once
def test_the_three_hashes_of_a_key(topic: str, key: str) -> None:
    entry = DispatchEntry(LogOffset(7), 1, topic, 0, QueueOffset(0), 0, 9, key, None, 0, 0)
    (compiled,) = struct.unpack("i", _index_loops.key_columns([entry])[0])
    assert (
        compiled == index_hash(f"{topic}#{key}") == positive(hash_keys([f"{topic}#{key}"], np.uint32(0)))[0]
    )


batches = st.lists(
    st.tuples(st.integers(0, 30) | st.integers(0, 2**31 - 1), st.integers(0, 2**62), st.integers(0, 2**62)),
)


@settings(deadline=None, max_examples=200)
@given(
    slots=st.lists(st.integers(-3, 60), min_size=1, max_size=9), rows=batches, first=st.integers(1, 50),
    begins_ms=st.tuples(st.integers(-1, 2**61), st.integers(-1, 2**61)),
)  # fmt: skip
def test_index_entries_and_their_slots(
    slots: list[int], rows: list[tuple[int, int, int]], first: int, begins_ms: tuple[int, int]
) -> None:
    hashes, log_offsets, store_ms = (
        np.array([row[place] for row in rows], kind)
        for place, kind in enumerate((np.int32, np.int64, np.int64))
    )
    answers = []
    for twin in (_index_loops, index_loops_plain):
        table, changed = np.array(slots, SLOT).view(np.uint8), np.zeros(2, np.uint8)
        linked = twin.link_entries(table, hashes, log_offsets, store_ms, first, *begins_ms)
        twin.fill_slots(table, hashes, first, changed, 4090)
        answers.append((linked, table.tobytes(), changed.tobytes()))
    assert answers[0] == answers[1]


@settings(deadline=None, max_examples=200)
@given(
    rows=st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 5), st.just(0), st.integers(0, 1))),
    in_order=st.booleans(), before=st.integers(-1, 2), log_offset=st.integers(0, 6), slots=st.integers(1, 5),
)  # fmt: skip
def test_newest_entries_of_slots(
    rows: list[tuple[int, int, int, int]], in_order: bool, before: int, log_offset: int, slots: int
) -> None:
    rows = sorted(rows, key=lambda row: row[1]) if in_order else rows
    raw = np.array(rows, ENTRY).view(np.uint8)
    answers = []
    for twin in (_index_loops, index_loops_plain):
        table = np.zeros(slots, np.int32)
        answers.append((twin.newest_in_slots(raw, 7, before, log_offset, table), table.tolist()))
    assert answers[0] == answers[1]


@settings(deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            i32, st.integers(0, 70_000), st.integers(0, 2**62), st.lists(st.integers(0, 2**62), min_size=1)
        ),
        max_size=20,
    )
)
def test_replies_are_the_template_again_and_again(rows: list[tuple[int, int, int, list[int]]]) -> None:
    fields: dict[str, Any] = {"msgId": b"7F%016X", "queueId": int, "queueOffset": int}
    fixed = {"MSG_REGION": "50% off", "TRACE_ON": "true"}
    pieces = ReplyTemplate(10, fields, fixed=fixed).pieces
    template = ReplyTemplate(10, {"msgId": bytes, "queueId": int, "queueOffset": int}, fixed=fixed)
    expected = b"".join(
        template.frame(opaque, b",".join(b"7F%016X" % at for at in log_offsets), queue_id, queue_offset)
        for opaque, queue_id, queue_offset, log_offsets in rows
    )
    assert _replies.ReplyFormat(pieces, b"7F").frames(rows) == expected


@settings(deadline=None, max_examples=200)
@given(salt=st.binary(min_size=1, max_size=64), text=st.binary(max_size=600))
def test_hashes_of_ids(salt: bytes, text: bytes) -> None:
    assert _id_table.IdTable(1, salt).hash_of(text) == id_table_plain.IdTable(1, salt).hash_of(text)


@settings(deadline=None, max_examples=200)
@given(
    hashes=st.lists(st.sampled_from([*range(6), 1 << 63, (1 << 63) + 5, (1 << 64) - 1]), max_size=30),
    capacity=st.integers(1, 7),
)
def test_tables_of_ids(hashes: list[int], capacity: int) -> None:
    compiled, plain = (module.IdTable(capacity, b"s") for module in (_id_table, id_table_plain))
    for at, hashed in enumerate(hashes):
        compiled.add(hashed, at)
        plain.add(hashed, at)
        assert [compiled.find(each) for each in hashes] == [plain.find(each) for each in hashes]
        for part in ("_slots", "_hashes", "_offsets"):
            assert bytes(getattr(compiled, part)) == bytes(getattr(plain, part))


def test_a_salt_is_no_longer_than_the_hash_takes() -> None:
    for module in (_id_table, id_table_plain):
        module.IdTable(1, bytes(64))
        for salt in (b"", bytes(65)):
            with pytest.raises(AssertionError):
                module.IdTable(1, salt)


def test_what_can_be_read() -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(4 * mmap.PAGESIZE)
        mapping = mmap.mmap(file.fileno(), 4 * mmap.PAGESIZE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        file.truncate(2 * mmap.PAGESIZE)  # to look behind it would kill the process
        page = mmap.PAGESIZE
        for start, end in (
            (0, 1),
            (5, page),
            (page - 1, 2 * page),
            (page, 3 * page),
            (3 * page + 7, 4 * page),
            (9, 9),
        ):
            expected = sys.platform == "linux" and end <= 2 * page
            assert (
                _kernel.can_read(address, start, end)
                == kernel_plain.can_read(address, start, end)
                == expected
            )


@settings(deadline=None)
@given(
    before=st.binary(max_size=50),
    data=st.binary(max_size=50),
    at=st.integers(0, 60),
    kind=st.sampled_from([bytes, bytearray, memoryview]),
)
def test_what_is_written_at_a_place(
    before: bytes, data: bytes, at: int, kind: Callable[[bytes], bytes | bytearray | memoryview]
) -> None:
    expected = before.ljust(at, b"\0")[:at] + data + before[at + len(data) :] if data else before
    for write_at in (_kernel.write_at, kernel_plain.write_at):
        with tempfile.TemporaryFile() as file:
            file.write(before)
            file.flush()
            write_at(file.fileno(), kind(data), at)
            assert os.pread(file.fileno(), 200, 0) == expected


def test_what_cannot_be_written_says_why() -> None:
    for module in (_kernel, kernel_plain):
        with open("/dev/full", "rb") as file, pytest.raises(OSError, match="Bad file descriptor") as refused:
            module.write_at(file.fileno(), b"x", 0)
        assert refused.value.errno == errno.EBADF
        with (
            open("/dev/full", "wb", buffering=0) as file,
            pytest.raises(OSError, match="No space") as refused,
        ):
            module.write_at(file.fileno(), b"x", 0)
        assert refused.value.errno == errno.ENOSPC
