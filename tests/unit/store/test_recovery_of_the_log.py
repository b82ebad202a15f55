"""Damage to the log itself: a torn end is cut off; damage costs the message it hits, reading goes on at known places."""

import os
import shutil
import struct
import zlib
from pathlib import Path

import pytest

from rocketeer.model.offsets import LogOffset
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.layout import MAGIC_BYTES, RECORD_BYTES_MAX
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.log_scan import LogScan
from support.clock import ManualClock
from support.recovered import COUNT, HOW, body_of, check_whole, fill, places, stopped
from support.stores import SEGMENT_BYTES, bodies, checkpoint_now, kill, make_store, message, open_store, query

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
    assert sorted(places(store)) == list(range(COUNT - torn))
    if how == "closed":  # it was on disk once, and is damaged: its place is not used again
        assert bool(report.quarantined) is (torn and kept != 0)
        assert store.log.max_offset % SEGMENT_BYTES == end
        first_new = COUNT
    else:
        assert report.quarantined == ()
        assert (report.torn_bytes > 0) is (torn and kept != 0)
        assert store.log.max_offset % SEGMENT_BYTES == (start if torn else end)
        first_new = COUNT - torn
    fill(store, first_new, 10)
    copy = kill(store, tmp_path / "again")
    store.close()
    for each in (folder, copy):
        store, report = open_store(each)
        expected = [*range(COUNT - torn), *range(first_new, first_new + 10)]
        assert places(store) == {number: number // 6 for number in expected}
        assert report.torn_bytes == 0
        assert report.quarantined == ()
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
def test_damage_costs_the_message_it_hits_and_no_other(tmp_path: Path, how: str, place: str) -> None:
    """Where the place of the next message is known: from its own queue entry, or else the next file."""
    if how == "died" and place == "zeros":
        pytest.skip("zeros in what was never synced are a hole: see the test of a power failure")
    folder = stopped(tmp_path, how)
    looking, _ = open_store(shutil.copytree(folder, tmp_path / "looking"))
    victim = query(looking, "Topic0", "k40", 0, 1 << 62, 1).messages[0]
    places_before, end = places(looking), looking.log.max_offset
    next_file = {
        number
        for number in range(COUNT)
        if query(looking, f"Topic{number % 2}", f"k{number}", 0, 1 << 62, 1).messages[0].log_offset
        >= looking.log.next_segment_offset(victim.log_offset)
    }
    looking.close()
    path = folder / "commitlog" / f"{victim.log_offset // SEGMENT_BYTES * SEGMENT_BYTES:020d}"
    with path.open("r+b") as file:
        at = {"body": 90, "size": 1, "magic": 5, "zeros": 0}[place]
        file.seek(victim.log_offset % SEGMENT_BYTES + at)
        file.write(bytes(victim.size) if place == "zeros" else b"\xee")
    damaged = path.read_bytes()

    store, report = open_store(folder)
    # A process that died at once had no queue entry in any file.
    kept = {*range(40), *next_file} if how == "died" else {*range(COUNT)} - {40}
    assert places(store) == {number: places_before[number] for number in kept}
    assert store.log.max_offset == end, "nothing of the log is used twice"
    assert any("damaged" in action for action in report.actions)
    for copy in report.quarantined:
        assert copy.path.parent == folder / "corrupt"
        assert copy.path.read_bytes() == damaged[copy.offset : copy.offset + copy.size]
    for number in range(60):
        found = query(store, f"Topic{number % 2}", f"k{number}", 0, 1 << 62, 32).messages
        assert len(found) == (number in kept)
    fill(store, COUNT, 30)
    copied = kill(store, tmp_path / "again")
    store.close()
    rebuilt = shutil.copytree(folder, tmp_path / "rebuilt")
    shutil.rmtree(rebuilt / "consumequeue")
    for each in (folder, copied, rebuilt):
        store, report = open_store(each)
        assert report.quarantined == ()
        expected = {number: places_before[number] for number in kept}
        assert places(store) == expected | {number: number // 6 for number in range(COUNT, COUNT + 30)}
        store.close()


def test_without_a_known_place_behind_damage_the_log_goes_on_in_the_next_file(tmp_path: Path) -> None:
    store, _ = open_store(tmp_path / "store")
    fill(store, 0, 20)
    folder = kill(store, tmp_path / "copy")  # no queue entry has reached a file
    victim = query(store, "Topic0", "k10", 0, 1 << 62, 1).messages[0]
    end = store.log.max_offset
    store.close()
    with (folder / FIRST_LOG).open("r+b") as file:
        file.seek(victim.log_offset + 90)
        file.write(b"\xee")
    store, report = open_store(folder)
    assert sorted(places(store)) == list(range(10))
    (copy,) = report.quarantined
    assert (copy.offset, copy.size) == (victim.log_offset, end - victim.log_offset)
    assert store.log.max_offset == SEGMENT_BYTES
    fill(store, 10, 10)
    store.close()
    store, report = open_store(folder)
    assert report.actions == ()
    assert sorted(places(store)) == list(range(20))
    store.close()


def forged(log_offset: int, size: int) -> bytes:
    """What looks like a whole record at that place of the log."""
    head = struct.pack(
        ">iiiiiqqiq8sq8siqi",
        size, -626843481, zlib.crc32(bytes(size - 94)) & 0x7FFFFFFF, 0, 0, 0, log_offset, 0, 1, bytes(8), 1, bytes(8),
        0, 0, size - 94,
    )  # fmt: skip
    return head + bytes(size - 94) + b"\x03Foo" + b"\0\0"


@pytest.mark.parametrize("how", ["closed", "died"])
def test_a_record_forged_in_a_body_is_never_a_place_to_start(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("recovery", "checkpointing"):  # the check begins in the middle of the forger's message
        monkeypatch.setattr(f"rocketeer.store.{module}.VERIFY_BYTES", 8_000, raising=False)
    clock = ManualClock()
    store = make_store(tmp_path / "store", clock)
    store.open()
    fill(store, 0, 4)
    at = store.log.max_offset + 88
    body = b"".join(forged(at + place, 250) for place in range(0, 15_000, 250))
    store.append(message(body, "Forger"))
    for number in range(4, 10):  # of others
        store.append(message(body_of(number), f"Topic{number % 2}", number % 3, keys=f"k{number}"))
    if how == "died":
        checkpoint_now(store, clock)
    folder = kill(store, tmp_path / "copy")
    store.close()
    store, report = open_store(folder if how == "died" else tmp_path / "store")
    assert report.quarantined == ()
    assert report.torn_bytes == 0
    assert bodies(store, "Forger") == [body]
    for number in range(10):
        found = query(store, f"Topic{number % 2}", f"k{number}", 0, 1 << 62, 32).messages
        assert [each.body for each in found] == [body_of(number)]
    store.close()


@pytest.mark.parametrize("bit", [0, 1, 2, 5, 8, 16, 30, 40, 62])
@pytest.mark.parametrize("number", [6, 60, COUNT - 1])
def test_a_flipped_bit_in_a_queue_offset_costs_that_message_and_no_queue(
    tmp_path: Path, bit: int, number: int
) -> None:
    folder = stopped(tmp_path, "died")  # everything is dispatched again
    looking, _ = open_store(shutil.copytree(folder, tmp_path / "looking"))
    victim = query(looking, f"Topic{number % 2}", f"k{number}", 0, 1 << 62, 1).messages[0]
    looking.close()
    with (folder / "commitlog" / f"{victim.log_offset // SEGMENT_BYTES * SEGMENT_BYTES:020d}").open(
        "r+b"
    ) as file:
        file.seek(victim.log_offset % SEGMENT_BYTES + 20)
        file.write(struct.pack(">q", victim.queue_offset ^ 1 << bit))
    store, _ = open_store(folder)
    found = places(store)
    assert {each: place for each, place in found.items() if each != number} == {
        each: each // 6 for each in range(COUNT) if each != number
    }
    fill(store, COUNT, 12)
    store.close()
    store, _ = open_store(folder)
    after = {each: place for each, place in places(store).items() if each >= COUNT}
    assert sorted(after) == list(range(COUNT, COUNT + 12))
    if number < COUNT - 6:  # the last of a queue has nobody behind it who could tell that it is wrong
        assert after == {each: each // 6 for each in range(COUNT, COUNT + 12)}
    store.close()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_power_failure_leaves_a_whole_beginning_of_the_log(tmp_path: Path, place: int) -> None:
    """Sectors that were not synced vanish in any order: behind the first hole nothing counts."""
    clock = ManualClock()
    store = make_store(tmp_path / "store", clock)
    store.open()
    fill(store, 0, 30)
    checkpoint_now(store, clock)
    fill(store, 30, 60)
    store.queue_table.write_out()  # the queues' pages happened to arrive
    victim = query(store, "Topic0", "k40", 0, 1 << 62, 1).messages[0]
    folder = kill(store, tmp_path / "copy")
    store.close()
    with (folder / FIRST_LOG).open("r+b") as file:
        file.seek((victim.log_offset // 512 + place) * 512)
        file.write(bytes(512))
    store, report = open_store(folder)
    found = places(store)
    last = max(found)
    assert 37 <= last <= 40
    assert found == {number: number // 6 for number in range(last + 1)}
    assert report.quarantined
    fill(store, last + 1, 30)
    store.close()
    store, report = open_store(folder)
    assert places(store) == {number: number // 6 for number in range(last + 31)}
    store.close()


def test_the_largest_record_that_can_be_may_run_into_a_hole(tmp_path: Path) -> None:
    """A frame brings at most RECORD_BYTES_MAX: what says so and was not written to its end is a hole."""
    log = CommitLog(tmp_path, 20 << 20)
    for size, is_hole in ((RECORD_BYTES_MAX, True), (RECORD_BYTES_MAX + 1, False)):
        with (tmp_path / f"{0:020d}").open("wb") as file:
            file.write(struct.pack(">i", size) + MAGIC_BYTES + b"x" * (8192 - 8))
            file.truncate(20 << 20)
        log.load()
        assert LogScan(log, DelayLevels.parse("1s"), LogOffset(0)).stands_at_hole(LogOffset(0)) is is_hole
        log.close()


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
        assert len(report.quarantined) == 1
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
