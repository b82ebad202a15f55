"""Stores written by the real RocketMQ 4.9.8 open here and read as their manifests say; ours are laid out the same."""

import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketeer.config import StoreConfig
from rocketeer.record.hosts import encode_host
from rocketeer.record.java_hash import tag_hash
from rocketeer.record.layout import PendingMessage, StoredMessage
from rocketeer.store.message_store import GetStatus, MessageStore, RecoveryReport
from rocketeer.store.queue_entry import ENTRY
from support.clock import ManualClock
from support.records import sent_body, split_records
from support.stores import derived_files, query, read_queue

DATA = Path(__file__).parent / "data"
QUEUES = "consumequeue[topic][queue]=[index,phyOffset,size,tagsCode]"
INDEX_ENTRIES = "entries[i,keyHash,phyOffset,timeDiffSeconds,prevIndex]"
FOREVER = 1 << 62


def manifest(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / name / "manifest.json").read_bytes())
    return found


def restored(name: str, folder: Path) -> Path:
    """The recorded store with every file at its real size: recordings end at the last byte used."""
    sizes = json.loads((DATA / name / "files.json").read_bytes())
    for path, size in sizes.items():
        source, target = DATA / name / path, folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        raw = source.read_bytes() if source.exists() else b""
        target.write_bytes(raw.ljust(size["real_size"], b"\0"))
    if (DATA / name / "abort").exists():
        (folder / "abort").touch()
    return folder


def recorded_config(folder: Path) -> StoreConfig:
    """wire/conf/brokerA.conf.txt: what these stores were written with."""
    lines = (DATA / "wire/conf/brokerA.conf.txt").read_text().splitlines()
    keys = dict(line.split("=", 1) for line in lines if "=" in line)
    return StoreConfig(
        store_path=folder,
        segment_bytes=int(keys["mappedFileSizeCommitLog"]),
        consume_queue_bytes=int(keys["mappedFileSizeConsumeQueue"]),
        index_slots=int(keys["maxHashSlotNum"]),
        index_entries=int(keys["maxIndexNum"]),
        message_bytes_max=int(keys["maxMessageSize"]),
        delay_levels=keys["messageDelayLevel"],
        disk_warning_percent=100,
        disk_clean_percent=100,
    )


def opened(folder: Path) -> tuple[MessageStore, RecoveryReport]:
    store = MessageStore(
        recorded_config(folder),
        clock=ManualClock(1_794_730_300_000),
        store_host=encode_host("127.0.0.1", 10911),
        post=lambda job: job(),
    )
    return store, store.open()


@pytest.fixture(params=["store_full", "store_crashed"])
def name(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def folder(name: str, tmp_path: Path) -> Path:
    return restored(name, tmp_path / "store")


@pytest.fixture
def store(folder: Path) -> Iterator[MessageStore]:
    store, _ = opened(folder)
    yield store
    store.close()


def plain_body(message: dict[str, Any]) -> bytes:
    return bytes.fromhex(message["body_hex"] or "")


def stored_body(message: dict[str, Any]) -> bytes:
    return bytes.fromhex(message["stored_body_hex"]) if "stored_body_hex" in message else plain_body(message)


def check(found: StoredMessage | None, message: dict[str, Any]) -> None:
    assert found is not None
    assert found.topic == message["topic"]
    assert found.queue_id == message["queueId"]
    assert found.queue_offset == message["queueOffset"]
    assert found.log_offset == message["physicalOffset"]
    assert found.size == message["storeSize"]
    assert found.flag == message["flag"]
    assert found.sys_flag == message["sysFlag"]
    assert found.born_ms == message["bornTimestamp"]
    assert found.store_ms == message["storeTimestamp"]
    assert found.reconsume_times == message["reconsumeTimes"]
    assert found.prepared_offset == message["preparedTransactionOffset"]
    assert found.body_crc == message["bodyCRC"]
    assert found.body == stored_body(message)
    assert sent_body(found) == plain_body(message)
    assert found.properties_dict() == message["properties"]
    assert found.offset_msg_id == message["offsetMsgId"]


def test_every_message_reads_as_the_manifest_says(name: str, store: MessageStore) -> None:
    for message in manifest(name)["messages"]:
        check(store.message_at(message["physicalOffset"]), message)


def test_the_log_ends_where_the_recorded_one_does(name: str, store: MessageStore) -> None:
    last = manifest(name)["messages"][-1]
    assert store.log.min_offset == 0
    assert store.log.max_offset == last["physicalOffset"] + last["storeSize"]


def test_every_queue_pulls_as_the_manifest_says(name: str, store: MessageStore) -> None:
    messages = {message["physicalOffset"]: message for message in manifest(name)["messages"]}
    for topic, queues in manifest(name)[QUEUES].items():
        for queue_id, entries in queues.items():
            found = read_queue(store, topic, int(queue_id))
            assert [(each.log_offset, each.size) for each in found] == [
                (at, size) for _, at, size, _ in entries
            ]
            for each in found:
                check(each, messages[each.log_offset])


def test_a_clean_store_keeps_its_queue_files_as_they_are(tmp_path: Path) -> None:
    folder = restored("store_full", tmp_path / "store")
    before = derived_files(folder)
    store, report = opened(folder)
    assert report.clean
    assert report.actions == ()
    for topic, queues in manifest("store_full")[QUEUES].items():
        for queue_id, entries in queues.items():
            raw = store.queue_table.get(topic, int(queue_id)).read(0, 1000)
            assert [list(entry) for entry in ENTRY.iter_unpack(raw)] == [entry[1:] for entry in entries]
    store.close()
    assert derived_files(folder) == before


def test_tags_kept_in_rocketmqs_extension_files_filter_all_the_same(name: str, store: MessageStore) -> None:
    tagged = [message for message in manifest(name)["messages"] if message["tags"] == "TagB"]
    wanted = {message["physicalOffset"] for message in tagged if message["topic"] == "TopicTest"}
    assert wanted
    found = set()
    for queue_id in range(4):
        fetched = store.get("TopicTest", queue_id, 0, 32, accepts=lambda code: code == tag_hash("TagB"))
        raw = b"".join(fetched.parts)
        found |= {each.log_offset for each in split_records(raw)}
    assert found == wanted


def test_every_key_finds_its_messages(name: str, store: MessageStore) -> None:
    expected: dict[tuple[str, str], set[int]] = {}
    for message in manifest(name)["messages"]:
        if message["sysFlag"] & 0xC == 0xC:
            continue
        keys = (message["keys"] or "").split()
        uniq = message["properties"].get("UNIQ_KEY")
        for key in [*keys, *([uniq] if uniq else [])]:
            expected.setdefault((message["topic"], key), set()).add(message["physicalOffset"])
    assert len(expected) > 200
    for (topic, key), offsets in expected.items():
        found = query(store, topic, key, 0, FOREVER, 64).messages
        assert {each.log_offset for each in found} == offsets, (topic, key)


def test_after_a_crash_the_store_is_what_the_real_one_recovers(tmp_path: Path) -> None:
    recorded = manifest("store_crashed")
    store, report = opened(restored("store_crashed", tmp_path / "store"))
    assert not report.clean
    assert report.torn_bytes == 0
    assert report.quarantined == ()
    assert store.log.max_offset == recorded["maxPhyOffset_after_dispatch"]
    for topic, queues in recorded["queue_min_max_after_dispatch"].items():
        for queue_id, (low, high) in queues.items():
            assert store.min_queue_offset(topic, int(queue_id)) == low
            assert store.max_queue_offset(topic, int(queue_id)) == high
    (index,) = recorded["index"].values()
    assert store.index is not None
    assert store.index.last_update == (index["endTimestamp"], index["endPhyOffset"])
    store.close()


def test_queues_and_index_made_anew_from_the_log_are_the_recorded_ones(name: str, folder: Path) -> None:
    recorded = manifest(name)
    shutil.rmtree(folder / "consumequeue")
    shutil.rmtree(folder / "index")
    store, report = opened(folder)
    assert report.redone_messages == len(recorded["messages"])
    levels = {}
    for message in recorded["messages"]:
        if message["topic"] == "SCHEDULE_TOPIC_XXXX":
            delays = [1, 2, 3, 4, *(60 * n for n in range(1, 11)), 1200, 1800, 3600, 7200]
            level = min(int(message["properties"]["DELAY"]), 18)
            levels[message["physicalOffset"]] = message["storeTimestamp"] + 1000 * delays[level - 1]
        else:
            levels[message["physicalOffset"]] = tag_hash(message["tags"]) if message["tags"] else 0
    for topic, queues in recorded[QUEUES].items():
        for queue_id, entries in queues.items():
            expected = [(at, size, levels[at]) for _, at, size, _ in entries]
            assert store.entries(topic, int(queue_id), 0, 1000) == expected
    store.close()
    (made,) = (folder / "index").iterdir()
    (index,) = recorded["index"].values()
    assert _index_entries(made, index["indexCount"]) == index[INDEX_ENTRIES]


def _index_entries(path: Path, count: int) -> list[list[int]]:
    raw = path.read_bytes()[40 + 500 * 4 :]
    entry = struct.Struct(">iqii")
    return [[number, *entry.unpack_from(raw, 20 * number)] for number in range(1, count)]


def test_what_we_append_is_laid_out_as_recorded(tmp_path: Path) -> None:
    """The recorded messages, appended again at their recorded times, give the recorded log, byte for byte."""
    raw = (DATA / "store_full/commitlog/00000000000000000000").read_bytes()
    folder = tmp_path / "store"
    store, _ = opened(folder)
    original, _ = opened(restored("store_full", tmp_path / "original"))
    for recorded in manifest("store_full")["messages"]:
        found = original.message_at(recorded["physicalOffset"])
        assert found is not None
        where = store.append(
            PendingMessage(
                found.topic,
                found.queue_id,
                found.flag,
                found.sys_flag,
                found.born_ms,
                found.born_host,
                found.body,
                found.properties,
                found.reconsume_times,
                found.prepared_offset,
            ),
            found.store_ms,
        )
        assert (where.log_offset, where.queue_offset) == (found.log_offset, found.queue_offset)
    assert bytes(store.log.segments[0].map_in()[: len(raw)]) == raw
    store.close()
    original.close()
    for path, content in derived_files(tmp_path / "original").items():
        ours = (
            (folder / "consumequeue" / path).read_bytes()
            if (folder / "consumequeue" / path).exists()
            else b""
        )
        assert len(ours) in (0, len(content))
        theirs = [entry[:2] for entry in ENTRY.iter_unpack(content) if entry[1]]
        assert [entry[:2] for entry in ENTRY.iter_unpack(ours) if entry[1]] == theirs
    again, report = opened(folder)
    assert report.clean
    assert again.get("TopicTest", 0, 0, 32).status is GetStatus.FOUND
    again.close()
    assert (folder / "commitlog/00000000000000000000").stat().st_size == 1 << 20
