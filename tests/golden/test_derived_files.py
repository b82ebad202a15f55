"""Queues, index and checkpoint recorded from RocketMQ 4.9.8: read here, and made again from its log."""

import json
import os
import shutil
import struct
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entry import DispatchEntry, entry_at
from rocketeer.record.flags import TX_PREPARED
from rocketeer.store.checkpoint import Checkpoint, read_checkpoint
from rocketeer.store.consume_queue import ConsumeQueue
from rocketeer.store.consume_queue_ext import ConsumeQueueExt, is_address
from rocketeer.store.file_cache import FileCache
from rocketeer.store.index import Index
from rocketeer.store.queue_entry import ENTRY, ENTRY_BYTES
from rocketeer.store.table_file import load_table, looks_whole
from support.clock import ManualClock
from support.index_reference import content_of
from support.indexes import query

DATA = Path(__file__).parent / "data"
STORES = ("store", "store_full", "store_crashed")
FORMS = {"store": (100, 400), "store_full": (500, 2000), "store_crashed": (500, 2000)}  # slots, entries
RECORDED = "consumequeue[topic][queue]=[index,phyOffset,size,tagsCode]"


@cache
def entries_of(store: str) -> tuple[DispatchEntry, ...]:
    """Every message of the recorded log, as recovery would dispatch it."""
    conf = (DATA / "wire" / "conf" / "brokerA.conf.txt").read_text().splitlines()
    levels = DelayLevels.parse(
        next(row.partition("=")[2] for row in conf if row.startswith("messageDelayLevel"))
    )
    raw = (DATA / store / "commitlog" / f"{0:020d}").read_bytes()
    found: list[DispatchEntry] = []
    at = 0
    while at < len(raw) and isinstance(entry := entry_at(raw, at, levels, check_crc=True), DispatchEntry):
        found.append(entry)
        at += entry.size
    return tuple(found)


@cache
def manifest(store: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DATA / store / "manifest.json").read_text())
    return loaded


def real_sizes(store: str) -> dict[str, int]:
    path = DATA / store / "files.json"
    if not path.exists():
        return {}
    return {name: size["real_size"] for name, size in json.loads(path.read_text()).items()}


def whole_copy(store: str, target: Path) -> Path:
    """The recorded store as it was: files were cut at their last byte that is not zero."""
    shutil.copytree(DATA / store, target)
    for name, size in real_sizes(store).items():
        os.truncate(target / name, size)
    return target


def queue_folders(store: Path) -> list[Path]:
    return sorted((store / "consumequeue").glob("*/*"))


def loaded_queue(folder: Path) -> ConsumeQueue:
    queue = ConsumeQueue(folder, folder.parent.name, int(folder.name), 20_000, FileCache())
    assert queue.load() == []
    return queue


@pytest.mark.parametrize("store", ["store_full", "store_crashed"])
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "cut"])
def test_every_recorded_queue_reads_as_its_manifest_says(store: str, whole: bool, tmp_path: Path) -> None:
    if whole:
        whole_copy(store, tmp_path / "s")
    else:
        shutil.copytree(DATA / store, tmp_path / "s")
    for topic, queues in manifest(store)[RECORDED].items():
        for queue_id, expected in queues.items():
            queue = loaded_queue(tmp_path / "s" / "consumequeue" / topic / queue_id)
            assert queue.max_offset == len(expected)
            read = list(ENTRY.iter_unpack(queue.read(0, 10_000)))
            assert [[n, *entry] for n, entry in enumerate(read)] == expected


@pytest.mark.parametrize("store", STORES)
def test_queues_made_again_from_the_log_are_the_recorded_ones(store: str, tmp_path: Path) -> None:
    cache_ = FileCache()
    queues: dict[tuple[str, int], ConsumeQueue] = {}
    for entry in entries_of(store):
        key = (entry.topic, entry.queue_id)
        if key not in queues:
            folder = tmp_path / entry.topic / str(entry.queue_id)
            queues[key] = ConsumeQueue(folder, *key, 20_000, cache_)
        if not entry.sys_flag & TX_PREPARED:
            assert queues[key].append(entry)
    recorded_store = whole_copy(store, tmp_path / "recorded")
    for folder in queue_folders(recorded_store):
        ours = queues[folder.parent.name, int(folder.name)]
        recorded = (folder / f"{0:020d}").read_bytes().rstrip(b"\0")
        count = -(-len(recorded) // ENTRY_BYTES)
        extension = ConsumeQueueExt(
            recorded_store / "consumequeue_ext" / folder.parent.name / folder.name, 20_480, cache_
        )
        plain = [
            (log_offset, size, unit.tag_code if (unit := extension.read(code)) is not None else code)
            for log_offset, size, code in ENTRY.iter_unpack(recorded.ljust(count * ENTRY_BYTES, b"\0"))
        ]
        # The process died before its last messages were dispatched; we dispatch all of the log.
        assert ours.max_offset >= count if store == "store_crashed" else ours.max_offset == count
        assert list(ENTRY.iter_unpack(ours.read(0, count))) == plain
        ours.write_out()
    cache_.close()


def test_the_tiny_store_comes_out_with_the_same_bytes(tmp_path: Path) -> None:
    for folder in queue_folders(DATA / "store"):
        recorded = (folder / f"{0:020d}").read_bytes()
        queue = ConsumeQueue(tmp_path / folder.parent.name / folder.name, "", 0, len(recorded), FileCache())
        for entry in entries_of("store"):
            if (entry.topic, str(entry.queue_id)) == (folder.parent.name, folder.name):
                queue.append(entry)
        queue.write_out()
        assert (tmp_path / folder.parent.name / folder.name / f"{0:020d}").read_bytes() == recorded


def test_every_address_of_the_extension_leads_to_its_messages_tag_and_time(tmp_path: Path) -> None:
    recorded_store = whole_copy("store_full", tmp_path / "recorded")
    cache_ = FileCache()
    by_place = {entry.log_offset: entry for entry in entries_of("store_full")}
    seen = 0
    for topic, queues in manifest("store_full")[RECORDED].items():
        for queue_id, rows in queues.items():
            extension = ConsumeQueueExt(
                recorded_store / "consumequeue_ext" / topic / queue_id, 20_480, cache_
            )
            for _, log_offset, _, code in rows:
                if is_address(code):
                    unit = extension.read(code)
                    assert unit is not None
                    entry = by_place[log_offset]
                    assert (unit.tag_code, unit.store_ms) == (entry.tag_code, entry.store_ms)
                    seen += 1
            assert extension.read(-(1 << 63) + 20_000) is None
            assert extension.read(-(1 << 63) + 99_999_999) is None
            assert extension.read(2598919) is None
    assert seen > 200


def recorded_index(store: str) -> Path:
    (path,) = (DATA / store / "index").iterdir()
    return path


@pytest.mark.parametrize("store", STORES)
def test_an_index_made_again_from_the_log_has_the_recorded_content(store: str, tmp_path: Path) -> None:
    slots, entries = FORMS[store]
    recorded = content_of(recorded_index(store), slots, entries)
    end_offset = struct.unpack_from(">q", recorded[0], 24)[0]
    index = Index(tmp_path / "index", slots, entries, ManualClock())
    for entry in entries_of(store):
        if entry.log_offset <= end_offset:
            index.add(entry)
    while index.pending_count:
        index.flush_pending(17)
    index.close()
    (path,) = (tmp_path / "index").iterdir()
    assert content_of(path, slots, entries) == recorded
    assert path.read_bytes() == recorded_index(store).read_bytes()


def test_the_recorded_index_answers_queries(tmp_path: Path) -> None:
    golden = json.loads((DATA / "golden.json").read_text())["store(hashSlotNum=100,indexNum=400)"]
    assert (DATA / "indexfile.bin").read_bytes() == recorded_index("store").read_bytes()
    shutil.copytree(DATA / "store" / "index", tmp_path / "index")
    index = Index(tmp_path / "index", 100, 400, ManualClock())
    assert index.load(clean=True) == []
    for key, count in golden["index_query_counts"].items():
        assert len(query(index, "TopicTest", key, 0, 1 << 62, 32)) == count
    last = golden["puts"][-1]
    assert index.last_update == (last["storeTimestamp"], last["wroteOffset"])
    index.close()


@pytest.mark.parametrize("safe", [0, 194, 10_400, 37_071, 70_694, 70_966])
def test_a_recorded_index_mended_and_filled_again_has_the_recorded_content(safe: int, tmp_path: Path) -> None:
    slots, entries = FORMS["store_full"]
    shutil.copytree(DATA / "store_full" / "index", tmp_path / "index")
    index = Index(tmp_path / "index", slots, entries, ManualClock())
    index.load(clean=False, safe_offset=safe)
    for entry in entries_of("store_full"):
        if entry.log_offset >= safe:
            index.add(entry)
    while index.pending_count:
        index.flush_pending()
    index.close()
    (path,) = (tmp_path / "index").iterdir()
    assert path.read_bytes() == recorded_index("store_full").read_bytes()


def test_offsets_by_time_are_the_recorded_answers() -> None:
    rows = map(json.loads, (DATA / "wire" / "pull_raw.jsonl").read_text().splitlines())
    asked: dict[int, dict[str, str]] = {}
    answered: dict[int, int] = {}
    for row in rows:
        header = row["header"]
        if row["dir"] == "request" and header["code"] == 29:
            asked[header["opaque"]] = header["extFields"]
        elif row.get("request_code") == 29 and header["opaque"] in asked:
            answered[header["opaque"]] = int(header["extFields"]["offset"])
    assert len(answered) == 3
    queue = ConsumeQueue("unused", "TopicTest", 0, 20_000, FileCache())
    times = {entry.log_offset: entry.store_ms for entry in entries_of("store_full")}
    for entry in entries_of("store_full"):
        # The last message of this queue was sent after the recording.
        if (entry.topic, entry.queue_id) == ("TopicTest", 0) and entry.queue_offset < 15:
            queue.append(entry)
    for opaque, offset in answered.items():
        ms = int(asked[opaque]["timestamp"])
        assert queue.offset_by_time(ms, lambda log_offset, size: times[log_offset]) == offset


@pytest.mark.parametrize("store", STORES)
def test_recorded_checkpoints_are_read(store: str) -> None:
    raw = (DATA / store / "checkpoint").read_bytes()
    checkpoint = read_checkpoint(DATA / store / "checkpoint")
    assert checkpoint == Checkpoint(*struct.unpack_from(">qqq", raw))
    assert checkpoint.physic_ms > 0
    assert checkpoint.dispatched_offset is None


def test_recorded_tables_look_whole() -> None:
    tables = [*(DATA / "broker_store_config").glob("*.json"), *DATA.glob("store*/config/*.json")]
    assert len(tables) > 12
    for path in tables:
        assert load_table(path) == path.read_text()
        assert looks_whole(path.read_text())


def test_recorded_sizes_are_the_ones_these_tests_use() -> None:
    assert real_sizes("store_full")[f"consumequeue/TopicTest/0/{0:020d}"] == 20_000
    assert real_sizes("store_full")[f"consumequeue_ext/TopicTest/0/{0:020d}"] == 20_480
    assert os.path.getsize(recorded_index("store_full")) == 40 + 500 * 4 + 2000 * 20
