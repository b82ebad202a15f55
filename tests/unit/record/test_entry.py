"""Dispatch entries: made from log bytes, and what lies where no record does."""

import mmap
from pathlib import Path

import msgspec
import pytest

from rocketeer.errors import BadRecord, ConfigError
from rocketeer.record.delay_levels import DEFAULT_DELAY_LEVELS, DelayLevels
from rocketeer.record.entry import Blank, DispatchEntry, entry_at
from rocketeer.record.hosts import encode_host
from rocketeer.record.java_hash import java_hash
from rocketeer.record.layout import BLANK, BLANK_MAGIC, MAGIC, PendingMessage, encode_pending

LEVELS = DelayLevels.parse(DEFAULT_DELAY_LEVELS)
HOST = encode_host("127.0.0.1", 10911)
HOST6 = encode_host("2001:db8::1", 10911)
PENDING = PendingMessage(
    topic="T",
    queue_id=3,
    flag=7,
    sys_flag=0,
    born_ms=1_000,
    born_host=HOST,
    body=b"body",
    properties=b"KEYS\x01k1 k2\x02UNIQ_KEY\x01ID\x02TAGS\x01TagA",
)


def stored(pending: PendingMessage = PENDING, store_host: bytes = HOST) -> bytes:
    return encode_pending(pending, queue_offset=42, log_offset=4096, store_ms=2_000, store_host=store_host)


@pytest.mark.parametrize("born", [HOST, HOST6])
@pytest.mark.parametrize("store", [HOST, HOST6])
def test_an_entry_holds_what_the_record_says(born: bytes, store: bytes) -> None:
    record = stored(msgspec.structs.replace(PENDING, born_host=born, prepared_offset=9), store)
    entry = entry_at(record, 0, LEVELS, check_crc=True)
    bits = (0x10 if born is HOST6 else 0) | (0x20 if store is HOST6 else 0)
    assert entry == DispatchEntry(
        log_offset=4096,
        size=len(record),
        topic="T",
        queue_id=3,
        queue_offset=42,
        tag_code=java_hash("TagA"),
        store_ms=2_000,
        keys="k1 k2",
        uniq_key="ID",
        sys_flag=bits,
        prepared_offset=9,
        properties=PENDING.properties,
    )


def test_host_bits_follow_the_hosts_whatever_the_client_sent() -> None:
    entry = entry_at(stored(msgspec.structs.replace(PENDING, sys_flag=0x331)), 0, LEVELS, check_crc=True)
    assert isinstance(entry, DispatchEntry)
    assert entry.sys_flag == 0x301


@pytest.mark.parametrize("properties", [b"", b"TAGS\x01\x02KEYS\x01", b"MYTAGS\x01a\x02x\x01TAGS\x01a"])
def test_without_tags_and_keys_the_code_is_0(properties: bytes) -> None:
    entry = entry_at(
        stored(msgspec.structs.replace(PENDING, properties=properties)), 0, LEVELS, check_crc=True
    )
    assert isinstance(entry, DispatchEntry)
    assert (entry.tag_code, entry.keys, entry.uniq_key) == (0, "", None)


@pytest.mark.parametrize(
    ("level", "due"), [(b"1", 3_000), (b"3", 12_000), (b"18", 7_202_000), (b"99", 7_202_000)]
)
def test_a_delayed_message_is_coded_by_when_it_is_due(level: bytes, due: int) -> None:
    delayed = msgspec.structs.replace(
        PENDING, topic="SCHEDULE_TOPIC_XXXX", properties=b"TAGS\x01TagA\x02DELAY\x01" + level
    )
    entry = entry_at(stored(delayed), 0, LEVELS, check_crc=True)
    assert isinstance(entry, DispatchEntry)
    assert entry.tag_code == due


@pytest.mark.parametrize("level", [b"0", b"-1", b"x", b"", b"9999999999", "²".encode()])
def test_a_level_that_is_none_leaves_the_tag(level: bytes) -> None:
    odd = msgspec.structs.replace(
        PENDING, topic="SCHEDULE_TOPIC_XXXX", properties=b"DELAY\x01" + level + b"\x02TAGS\x01TagA"
    )
    entry = entry_at(stored(odd), 0, LEVELS, check_crc=True)
    assert isinstance(entry, DispatchEntry)
    assert entry.tag_code == java_hash("TagA")


def test_a_level_elsewhere_changes_nothing() -> None:
    entry = entry_at(
        stored(msgspec.structs.replace(PENDING, properties=b"DELAY\x013")), 0, LEVELS, check_crc=True
    )
    assert isinstance(entry, DispatchEntry)
    assert entry.tag_code == 0


def test_every_kind_of_buffer_gives_the_same(tmp_path: Path) -> None:
    record = stored()
    path = tmp_path / "log"
    path.write_bytes(bytes(64) + record + bytes(64))
    expected = entry_at(record, 0, LEVELS, check_crc=True)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        assert entry_at(mapped, 64, LEVELS, check_crc=True) == expected
        with memoryview(mapped) as view:
            assert entry_at(view, 64, LEVELS, check_crc=True) == expected
    assert entry_at(bytearray(record), 0, LEVELS, check_crc=False) == expected


@pytest.mark.parametrize("zeros", [0, 1, 7, 8, 87, 88, 500])
def test_zeros_and_the_end_are_nothing_written(zeros: int) -> None:
    assert entry_at(bytes(zeros), 0, LEVELS, check_crc=True) is None


@pytest.mark.parametrize("rest", [8, 50, 200])
def test_the_filler_tells_its_size(rest: int) -> None:
    filler = BLANK.pack(rest, BLANK_MAGIC) + bytes(rest - 8)
    assert entry_at(filler, 0, LEVELS, check_crc=True) == Blank(rest)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (BLANK.pack(7, BLANK_MAGIC), "blank record"),
        (BLANK.pack(100, 12345) + bytes(100), "magic"),
        (b"\1" * 8, "magic"),
        (BLANK.pack(100, MAGIC), "bytes are left"),
        (stored()[:-1], "bytes left"),
        (stored(store_host=HOST6)[:95], "IPv6"),
        (stored()[:88] + b"bodx" + stored()[92:], "crc"),
        (stored()[:84] + b"\xff" * 4 + stored()[88:], "body length"),
        (stored()[:92] + b"\xff" + stored()[93:], "topic length"),
        (stored()[:92] + b"\x02" + stored()[93:], "properties length"),
        (stored()[:93] + b"\xff" + stored()[94:], "UTF-8"),
    ],
)
def test_anything_else_is_a_bad_record_with_its_place(broken: bytes, reason: str) -> None:
    with pytest.raises(BadRecord, match=reason) as caught:
        entry_at(b"xx" + broken, 2, LEVELS, check_crc=True)
    assert caught.value.at == 2


def test_without_the_check_a_wrong_crc_passes() -> None:
    record = stored()
    assert entry_at(record[:88] + b"bodx" + record[92:], 0, LEVELS, check_crc=False) is not None


def test_delay_levels_read_the_references_table() -> None:
    assert LEVELS.max_level == 18
    assert [LEVELS.delay_ms(level) for level in (0, 1, 5, 18, 19)] == [0, 1_000, 60_000, 7_200_000, 7_200_000]
    assert LEVELS.deliver_ms(2, 10) == 5_010
    assert DelayLevels.parse(" 1d  2h ").delays_ms == (86_400_000, 7_200_000)


@pytest.mark.parametrize("text", ["", "1", "s", "1x", "1s 5", "-1s", "1.5s", "²s"])
def test_a_wrong_table_of_levels_names_the_key(text: str) -> None:
    with pytest.raises(ConfigError, match="messageDelayLevel"):
        DelayLevels.parse(text)
