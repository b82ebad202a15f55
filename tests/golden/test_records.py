"""Every record, id, hash and property string recorded from RocketMQ 4.9.8 reads and writes the same here."""

import json
from datetime import UTC
from functools import cache
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketeer.record.batch import BatchItem, encode_batch, iter_batch
from rocketeer.record.compression import compress, decompress
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entry import DispatchEntry, entry_at
from rocketeer.record.flags import COMPRESSED
from rocketeer.record.hosts import decode_host, encode_host
from rocketeer.record.ids import UniqKeys, decode_uniq_key_time, offset_msg_id, parse_offset_msg_id
from rocketeer.record.java_hash import java_hash
from rocketeer.record.layout import StoredMessage, body_crc, decode_record, encode_record
from rocketeer.record.properties import decode_properties, encode_properties
from rocketeer.record.vectorised import fixed_fields, record_offsets
from support.clock import ManualClock
from support.records import sent_body, split_records

DATA = Path(__file__).parent / "data"
STORES = ("store_full", "store_crashed")


@cache
def golden() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DATA / "golden.json").read_text())
    return loaded


@cache
def manifest(store: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DATA / store / "manifest.json").read_text())
    return loaded


@cache
def log_of(store: str) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((DATA / store / "commitlog").iterdir()))


def levels_of_the_recording() -> DelayLevels:
    for row in (DATA / "wire" / "conf" / "brokerA.conf.txt").read_text().splitlines():
        key, _, value = row.partition("=")
        if key == "messageDelayLevel":
            return DelayLevels.parse(value)
    raise AssertionError("the recorded broker was given delay levels")


def java_host(text: str) -> tuple[str, int]:
    ip, _, port = text.removeprefix("/").rpartition(":")
    return str(ip_address(ip.strip("[]"))), int(port)


def assert_same(message: StoredMessage, expected: dict[str, Any]) -> None:
    assert message.topic == expected["topic"]
    assert message.queue_id == expected["queueId"]
    assert message.queue_offset == expected["queueOffset"]
    assert message.size == expected["storeSize"]
    assert message.flag == expected["flag"]
    assert message.sys_flag == expected["sysFlag"]
    assert message.born_ms == expected["bornTimestamp"]
    assert message.store_ms == expected["storeTimestamp"]
    assert decode_host(message.born_host) == java_host(expected["bornHost"])
    assert decode_host(message.store_host) == java_host(expected["storeHost"])
    assert message.reconsume_times == expected["reconsumeTimes"]
    assert message.prepared_offset == expected["preparedTransactionOffset"]
    assert message.body_crc == expected["bodyCRC"]
    assert message.properties_dict() == (expected["properties"] or {})


@pytest.mark.parametrize("store", STORES)
def test_every_record_of_the_log_reads_as_the_manifest_says(store: str) -> None:
    log = log_of(store)
    for expected in manifest(store)["messages"]:
        message = decode_record(log, expected["physicalOffset"])
        assert_same(message, expected)
        assert message.log_offset == expected["physicalOffset"]
        assert message.offset_msg_id == expected["offsetMsgId"]
        assert message.tags == expected["tags"]
        assert message.keys == expected["keys"]
        assert (message.uniq_key or message.offset_msg_id) == expected["msgId"]
        plain = expected["body_hex"] or ""  # an empty body reads as none in Java
        assert sent_body(message) == bytes.fromhex(plain)
        assert message.body == bytes.fromhex(expected.get("stored_body_hex") or plain)


@pytest.mark.parametrize("store", STORES)
def test_every_record_of_the_log_encodes_to_its_own_bytes(store: str) -> None:
    log = log_of(store)
    for expected in manifest(store)["messages"]:
        at = expected["physicalOffset"]
        assert encode_record(decode_record(log, at)) == log[at : at + expected["storeSize"]]


@pytest.mark.parametrize("store", STORES)
def test_walking_the_log_finds_exactly_the_manifests_messages(store: str) -> None:
    log = log_of(store)
    expected = manifest(store)["messages"]
    offsets = record_offsets(log)
    assert offsets.tolist() == [message["physicalOffset"] for message in expected]
    rows = fixed_fields(log, offsets)
    assert rows["log_offset"].tolist() == offsets.tolist()
    assert rows["store_ms"].tolist() == [message["storeTimestamp"] for message in expected]
    assert np.all(rows["size"] == [message["storeSize"] for message in expected])


@pytest.mark.parametrize("store", STORES)
def test_entries_made_from_the_log_are_those_of_the_recorded_consume_queues(store: str) -> None:
    log = log_of(store)
    levels = levels_of_the_recording()
    queues = manifest(store)["consumequeue[topic][queue]=[index,phyOffset,size,tagsCode]"]
    recorded = {
        (topic, int(queue), index): (offset, size, code)
        for topic, by_queue in queues.items()
        for queue, entries in by_queue.items()
        for index, offset, size, code in entries
    }
    checked = 0
    for message in manifest(store)["messages"]:
        entry = entry_at(log, message["physicalOffset"], levels, check_crc=True)
        assert isinstance(entry, DispatchEntry)
        place = (entry.topic, entry.queue_id, entry.queue_offset)
        if place not in recorded:
            continue  # prepared and rolled-back messages have no queue entry; a killed broker wrote fewer
        offset, size, code = recorded[place]
        assert (entry.log_offset, entry.size) == (offset, size)
        if code >= -(1 << 31):  # below lies an address in consumequeue_ext
            assert entry.tag_code == code, message
        checked += 1
    assert checked > 200


def test_a_tiny_store_reads_and_encodes_the_same() -> None:
    log = (DATA / "commitlog.bin").read_bytes()
    recorded = golden()["store(hashSlotNum=100,indexNum=400)"]
    messages = list(split_records(log))
    for message, expected in zip(messages, recorded["commitlog_decoded"], strict=True):
        assert_same(message, expected)
        assert message.body == bytes.fromhex(expected["body"])
        assert message.offset_msg_id == expected["msgId"]
    assert b"".join(map(encode_record, messages)) == log


def test_messages_encoded_by_the_java_client_read_and_encode_the_same() -> None:
    samples = golden()["MessageExt.encode"]
    assert any(sample["decoded"]["sysFlag"] for sample in samples), "IPv6 hosts are among them"
    for sample in samples:
        raw = bytes.fromhex(sample["hex"])
        message = decode_record(raw)
        assert_same(message, sample["decoded"])
        assert message.offset_msg_id == sample["decoded"]["msgId"]
        assert encode_record(message) == raw


def test_hashes_are_javas() -> None:
    for text, expected in golden()["String.hashCode"].items():
        assert java_hash(text) == expected


def test_properties_are_javas() -> None:
    sample = golden()["messageProperties2String"]
    assert encode_properties(sample["properties"]) == bytes.fromhex(sample["string_hex"])
    assert decode_properties(bytes.fromhex(sample["string_hex"])) == sample["properties"]


def test_offset_ids_are_javas() -> None:
    sample = golden()["messageId"]
    for ip, text in (("127.0.0.1", "127.0.0.1:10911"), ("2001:db8::1", "[2001:db8::1]:10911")):
        host = encode_host(ip, 10911)
        recorded = sample[f"{text}@123456789"]
        assert offset_msg_id(host, 123456789) == recorded
        assert parse_offset_msg_id(recorded) == (host, 123456789)


def test_unique_keys_of_java_clients_tell_when_they_were_made() -> None:
    seen = set()
    for message in manifest("store_full")["messages"]:
        key = message["properties"].get("UNIQ_KEY", "")
        if len(key) == 32 and key not in seen:  # the recording also sends some again, later
            made = decode_uniq_key_time(key, now_ms=message["bornTimestamp"] + 1000, tz=UTC)
            assert abs(made - message["bornTimestamp"]) < 1000
            seen.add(key)
    assert len(seen) > 100


def test_a_java_unique_key_with_an_ipv6_host_has_our_layout() -> None:
    sample = golden()["messageId"]["uniqKey sample"]
    made = decode_uniq_key_time(sample, now_ms=1794726448246, tz=UTC)
    keys = UniqKeys(
        str(IPv6Address(bytes.fromhex(sample[:32]))), int(sample[32:36], 16), ManualClock(made), tz=UTC
    )
    keys.reset(pid=int(sample[32:36], 16), instance=int(sample[36:44], 16))
    assert keys.next() == sample


def test_a_batch_is_laid_out_as_javas() -> None:
    raw = bytes.fromhex(golden()["batch encodeMessages([T/TagA/k/b1, T/TagB/k2/b2])"])
    items = list(iter_batch(raw))
    assert [item.body for item in items] == [b"b1", b"b2"]
    assert [decode_properties(item.properties) for item in items] == [
        {"KEYS": "k", "WAIT": "true", "TAGS": "TagA"},
        {"KEYS": "k2", "WAIT": "true", "TAGS": "TagB"},
    ]
    assert encode_batch(items) == raw
    assert encode_batch([BatchItem(0, b"b1", items[0].properties)]) == raw[:50]


def test_zlib_bodies_are_javas() -> None:
    packed = bytes.fromhex(golden()["UtilAll.compress level5 71*a"])
    assert compress(b"a" * 71, level=5) == packed
    assert decompress(packed, COMPRESSED) == b"a" * 71


def test_the_crc_is_javas() -> None:
    assert body_crc(b"hello world") == golden()["UtilAll.crc32('hello world')"]
