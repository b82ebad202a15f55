"""Laws of the record codecs over all values, and over any bytes at all."""

import contextlib
import re

from hypothesis import given
from hypothesis import strategies as st

from rocketeer.errors import BadBatch, BadMessageId, BadRecord, BodyTooLarge
from rocketeer.record.batch import BatchItem, encode_batch, iter_batch
from rocketeer.record.compression import BadCompression, compress, decompress
from rocketeer.record.delay_levels import DEFAULT_DELAY_LEVELS, DelayLevels
from rocketeer.record.entry import DispatchEntry, entry_at
from rocketeer.record.flags import Compression
from rocketeer.record.ids import offset_msg_id, parse_offset_msg_id
from rocketeer.record.java_hash import java_hash, tag_hash
from rocketeer.record.layout import (
    HEAD,
    MAGIC,
    PendingMessage,
    StoredMessage,
    body_crc,
    decode_record,
    encode_pending,
    encode_record,
    without_place,
)
from rocketeer.record.properties import decode_properties, encode_properties, find_property
from rocketeer.record.vectorised import fixed_fields, record_offsets
from support.records import split_records

LEVELS = DelayLevels.parse(DEFAULT_DELAY_LEVELS)
i32 = st.integers(-(1 << 31), (1 << 31) - 1)
i64 = st.integers(-(1 << 63), (1 << 63) - 1)
text = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=20
)
names = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "DELAY", "WAIT"]) | text
property_dicts = st.dictionaries(names, text, max_size=6)
# Pieces that look like properties, so that odd mixtures of them come up often.
odd_properties = st.lists(
    st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"\x01", b"\x02", b"a", b"\xff", b"1"]), max_size=14
).map(b"".join)
hosts = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
topics = st.sampled_from(["T", "SCHEDULE_TOPIC_XXXX", "a" * 127]) | text.filter(
    lambda t: len(t.encode()) <= 127
)
pendings = st.builds(
    PendingMessage,
    topic=topics,
    queue_id=i32,
    flag=i32,
    sys_flag=i32,
    born_ms=i64,
    born_host=hosts,
    body=st.binary(max_size=200),
    properties=property_dicts.map(encode_properties) | odd_properties,
    reconsume_times=i32,
    prepared_offset=i64,
)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    pending = draw(pendings)
    host = draw(hosts)
    record = encode_pending(
        pending, queue_offset=draw(i64), log_offset=draw(i64), store_ms=draw(i64), store_host=host
    )
    assert len(record) == without_place(pending, host).size
    return record


@given(records())
def test_a_decoded_record_encodes_to_the_same_bytes(record: bytes) -> None:
    message = decode_record(record)
    assert message.size == len(record)
    assert encode_record(message) == record


@given(pendings, hosts, i64, i64, i64)
def test_a_stored_message_holds_what_was_appended(
    pending: PendingMessage, store_host: bytes, queue_offset: int, log_offset: int, store_ms: int
) -> None:
    message = decode_record(
        encode_pending(
            pending,
            queue_offset=queue_offset,
            log_offset=log_offset,
            store_ms=store_ms,
            store_host=store_host,
        )
    )
    bits = (len(pending.born_host) == 20) * 0x10 | (len(store_host) == 20) * 0x20
    assert message == StoredMessage(
        topic=pending.topic,
        queue_id=pending.queue_id,
        queue_offset=queue_offset,
        log_offset=log_offset,
        size=message.size,
        flag=pending.flag,
        sys_flag=pending.sys_flag & ~0x30 | bits,
        born_ms=pending.born_ms,
        born_host=pending.born_host,
        store_ms=store_ms,
        store_host=store_host,
        reconsume_times=pending.reconsume_times,
        prepared_offset=pending.prepared_offset,
        body_crc=body_crc(pending.body),
        body=pending.body,
        properties=pending.properties,
    )


@given(records())
def test_the_quick_entry_agrees_with_the_whole_record(record: bytes) -> None:
    message = decode_record(record)
    found = message.properties_dict()
    tag_code = java_hash(found["TAGS"]) if "TAGS" in found else 0
    level = found.get("DELAY", "")
    if message.topic == "SCHEDULE_TOPIC_XXXX" and re.fullmatch("[0-9]{1,9}", level) and int(level):
        tag_code = LEVELS.deliver_ms(int(level), message.store_ms)
    assert entry_at(record, 0, LEVELS, check_crc=True) == DispatchEntry(
        log_offset=message.log_offset,
        size=message.size,
        topic=message.topic,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        tag_code=tag_code,
        store_ms=message.store_ms,
        keys=found.get("KEYS", ""),
        uniq_key=found.get("UNIQ_KEY"),
        sys_flag=message.sys_flag,
        prepared_offset=message.prepared_offset,
        properties=message.properties,
    )


def read_every_way(raw: bytes, at: int, *, check_crc: bool) -> None:
    """Each reader gives a value or BadRecord, any other exception fails; none reads past the record."""
    message: StoredMessage | None = None
    with contextlib.suppress(BadRecord):
        message = decode_record(raw, at, check_crc)
    if message is not None:
        assert 0 <= at <= at + message.size <= len(raw)
        assert decode_record(raw[: at + message.size], at, check_crc) == message
    try:
        entry = entry_at(raw, max(at, 0), LEVELS, check_crc=check_crc)
    except BadRecord:
        assert message is None
    else:
        assert isinstance(entry, DispatchEntry) == (message is not None and at >= 0)
    for reader in (lambda: list(split_records(raw)), lambda: fixed_fields(raw, record_offsets(raw))):
        with contextlib.suppress(BadRecord):
            reader()


@given(st.binary(max_size=300), st.integers(-5, 300), st.booleans())
def test_random_bytes_are_a_bad_record_and_nothing_worse(raw: bytes, at: int, check_crc: bool) -> None:
    read_every_way(raw, at, check_crc=check_crc)


@given(i32, st.binary(max_size=200), st.booleans())
def test_random_bytes_behind_a_right_magic_are_no_worse(size: int, rest: bytes, check_crc: bool) -> None:
    head = size.to_bytes(4, "big", signed=True) + MAGIC.to_bytes(4, "big", signed=True)
    read_every_way(head + rest, 0, check_crc=check_crc)
    read_every_way(len(head + rest).to_bytes(4, "big") + head[4:] + rest, 0, check_crc=check_crc)


@given(records(), st.data())
def test_a_mutated_record_is_a_record_or_a_bad_one(record: bytes, data: st.DataObject) -> None:
    mutated = bytearray(record)
    for _ in range(data.draw(st.integers(1, 4))):
        # Mostly in the lengths and flags, where it hurts.
        at = data.draw(
            st.sampled_from([0, 2, 3, 36, 39, 84, 86, 87, HEAD.size]) | st.integers(0, len(record) - 1)
        )
        mutated[min(at, len(record) - 1)] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, 3))
    read_every_way(bytes(mutated[: len(mutated) - cut]), 0, check_crc=data.draw(st.booleans()))


@given(property_dicts)
def test_properties_come_back(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)) == properties
    assert decode_properties(encode_properties(properties) + b"\x02") == properties


@given(odd_properties | st.binary(max_size=60), st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"a"]))
def test_finding_one_property_agrees_with_decoding_all(raw: bytes, name: bytes) -> None:
    found = find_property(raw, name)
    decoded = decode_properties(raw).get(name.decode())
    assert (None if found is None else found.decode("utf-8", "replace")) == decoded


@given(st.text(max_size=40))
def test_the_hash_is_the_polynomial_over_utf16_units(value: str) -> None:
    units = value.encode("utf-16-be", "surrogatepass")
    expected = 0
    for at in range(0, len(units), 2):
        expected = expected * 31 + int.from_bytes(units[at : at + 2], "big")
    expected = (expected + (1 << 31)) % (1 << 32) - (1 << 31)
    assert java_hash(value) == tag_hash(value) == expected


@given(hosts, st.integers(0, (1 << 63) - 1))
def test_offset_ids_come_back(host: bytes, offset: int) -> None:
    assert parse_offset_msg_id(offset_msg_id(host, offset)) == (host, offset)


@given(st.text(max_size=60) | st.text("0123456789ABCDEFabcdef ", min_size=30, max_size=58))
def test_any_text_is_an_offset_id_or_a_typed_error(value: str) -> None:
    try:
        host, offset = parse_offset_msg_id(value)
    except BadMessageId:
        return
    assert offset_msg_id(host, offset) == value.upper()


items = st.builds(BatchItem, i32, st.binary(max_size=50), st.binary(max_size=50))


@given(st.lists(items, max_size=5))
def test_a_batch_comes_back(batch: list[BatchItem]) -> None:
    assert list(iter_batch(encode_batch(batch))) == batch


@given(st.lists(items, min_size=1, max_size=3).map(encode_batch), st.data())
def test_a_mutated_batch_splits_or_is_refused(raw: bytes, data: st.DataObject) -> None:
    mutated = bytearray(raw)
    mutated[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        split = list(iter_batch(bytes(mutated)))
    except BadBatch:
        return
    assert sum(22 + len(item.body) + len(item.properties) for item in split) == len(raw)


@given(st.binary(max_size=500), st.sampled_from(Compression), st.integers(1, 9))
def test_packed_bodies_come_back(body: bytes, kind: Compression, level: int) -> None:
    assert decompress(compress(body, kind, level), kind.sys_flag) == body


@given(st.binary(max_size=100), i32)
def test_any_body_under_any_flag_opens_or_is_a_typed_error(body: bytes, sys_flag: int) -> None:
    with contextlib.suppress(BadCompression, BodyTooLarge):
        decompress(body, sys_flag, limit_bytes=10_000)


@given(st.binary(min_size=1, max_size=300), st.sampled_from(Compression), st.data())
def test_a_mutated_packed_body_opens_or_is_a_typed_error(
    body: bytes, kind: Compression, data: st.DataObject
) -> None:
    packed = bytearray(compress(body, kind))
    packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BadCompression, BodyTooLarge):
        assert len(decompress(bytes(packed), kind.sys_flag, limit_bytes=10_000)) <= 10_000
