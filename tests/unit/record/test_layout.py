"""Records: fixed sizes, the message's own accessors, splitting a pull's body, and the vectorised twin."""

import msgspec
import numpy as np
import pytest

from rocketeer.errors import BadBatch, BadRecord
from rocketeer.record.batch import BatchItem, encode_batch, iter_batch
from rocketeer.record.compression import compress
from rocketeer.record.flags import Compression
from rocketeer.record.hosts import encode_host
from rocketeer.record.layout import (
    BLANK,
    BLANK_MAGIC,
    HEAD,
    PendingMessage,
    decode_record,
    encode_pending,
    encode_record,
    without_place,
)
from rocketeer.record.vectorised import body_at, fixed_fields, record_offsets
from support.records import sent_body, split_records

HOST = encode_host("127.0.0.1", 10911)
HOST6 = encode_host("2001:db8::1", 10911)
PENDING = PendingMessage("T", 3, 7, 0, 1_000, HOST, b"body", b"KEYS\x01k1 k2\x02TAGS\x01t")


def log_of(*hosts: tuple[bytes, bytes]) -> bytes:
    log = b""
    for number, (born, store) in enumerate(hosts):
        pending = msgspec.structs.replace(PENDING, born_host=born, body=b"b" * number, reconsume_times=number)
        record = encode_pending(
            pending, queue_offset=number, log_offset=len(log), store_ms=2_000 + number, store_host=store
        )
        assert len(record) == without_place(pending, store).size
        log += record
    return log


ALL_HOSTS = [(HOST, HOST), (HOST6, HOST), (HOST, HOST6), (HOST6, HOST6)]


def test_the_size_counts_the_topics_bytes_not_its_letters() -> None:
    pending = msgspec.structs.replace(PENDING, topic="中文")
    record = encode_pending(pending, queue_offset=0, log_offset=0, store_ms=0, store_host=HOST)
    assert len(record) == without_place(pending, HOST).size
    assert decode_record(record).topic == "中文"


def test_a_stored_message_knows_its_properties_id_and_body() -> None:
    packed = msgspec.structs.replace(PENDING, body=compress(b"plain" * 9), sys_flag=Compression.ZLIB.sys_flag)
    message = decode_record(
        encode_pending(packed, queue_offset=0, log_offset=16, store_ms=0, store_host=HOST)
    )
    assert (message.tags, message.keys, message.uniq_key) == ("t", "k1 k2", None)
    assert message.properties_dict() == {"KEYS": "k1 k2", "TAGS": "t"}
    assert message.offset_msg_id == "7F00000100002A9F0000000000000010"
    assert sent_body(message) == b"plain" * 9


def test_records_in_a_row_are_split() -> None:
    log = log_of(*ALL_HOSTS)
    messages = list(split_records(memoryview(log)))
    assert [message.queue_offset for message in messages] == [0, 1, 2, 3]
    assert b"".join(map(encode_record, messages)) == log
    with pytest.raises(BadRecord):
        list(split_records(log[:-1]))
    assert list(split_records(b"")) == []


def test_a_record_is_decoded_without_a_byte_behind_it() -> None:
    log = log_of((HOST, HOST))
    assert decode_record(log + b"\xff" * 50) == decode_record(log)
    for cut in range(len(log)):
        with pytest.raises(BadRecord):
            decode_record(log[:cut])
    for at in (-1, len(log), len(log) + 5):
        with pytest.raises(BadRecord):
            decode_record(log, at)


def test_the_crc_check_can_be_left_out() -> None:
    log = bytearray(log_of((HOST, HOST), (HOST, HOST)))
    offset = int(record_offsets(log)[1])
    log[offset + HEAD.size] ^= 1
    with pytest.raises(BadRecord, match="crc"):
        decode_record(log, offset)
    message = decode_record(log, offset, check_crc=False)
    assert encode_record(message) == log[offset:]


def test_vectorised_fields_are_those_of_the_records() -> None:
    log = log_of(*ALL_HOSTS, *ALL_HOSTS)
    offsets = record_offsets(log)
    rows = fixed_fields(log, offsets)
    for row, begin, offset in zip(rows, body_at(rows, offsets), offsets, strict=True):
        message = decode_record(log, int(offset))
        for name in ("queue_id", "flag", "queue_offset", "log_offset", "size", "sys_flag", "born_ms"):
            assert row[name] == getattr(message, name)
        for name in ("store_ms", "reconsume_times", "prepared_offset"):
            assert row[name] == getattr(message, name)
        assert (row["body_crc"], row["body_bytes"]) == (message.body_crc, len(message.body))
        assert log[begin : begin + row["body_bytes"]] == message.body
        for name in ("born_host", "store_host"):
            host = getattr(message, name)
            assert bytes(row[name]) == (host if len(host) == 8 else bytes(8))


def test_the_walk_stops_at_filler_zeros_and_the_given_end() -> None:
    log = log_of(*ALL_HOSTS)
    whole = record_offsets(log).tolist()
    assert len(whole) == 4
    assert record_offsets(log + bytes(100)).tolist() == whole
    assert record_offsets(log + bytes(3)).tolist() == whole
    assert record_offsets(log + BLANK.pack(50, BLANK_MAGIC) + b"x" * 42).tolist() == whole
    assert record_offsets(log, whole[1], whole[3]).tolist() == whole[1:3]
    assert record_offsets(b"").tolist() == []
    for broken in (log[:-1], log + b"x" * 20, log + BLANK.pack(5, -626843481)):
        with pytest.raises(BadRecord):
            record_offsets(broken)


def test_vectorised_reads_stay_within_the_buffer() -> None:
    log = log_of((HOST, HOST), (HOST6, HOST6))
    assert len(fixed_fields(log, np.array([], dtype=np.int64))) == 0
    for outside in (-1, len(log) - 50, len(log) + 1):
        with pytest.raises(BadRecord):
            fixed_fields(log, np.array([0, outside], dtype=np.int64))
    with pytest.raises(BadRecord):
        fixed_fields(log[: int(record_offsets(log)[1]) + 90], record_offsets(log))


def test_a_batch_gives_back_its_items() -> None:
    items = [
        BatchItem(0, b"", b""),
        BatchItem(-7, b"body", b"a\x01b"),
        BatchItem(1, b"x" * 5000, b"p" * 32767),
    ]
    assert list(iter_batch(encode_batch(items))) == items
    assert list(iter_batch(b"")) == []
    with pytest.raises(BadBatch, match="at most 32767"):
        encode_batch([BatchItem(0, b"", b"p" * 32768)])


def test_a_batch_that_does_not_split_is_refused() -> None:
    whole = encode_batch([BatchItem(0, b"body", b"a\x01b")])
    for cut in range(1, len(whole)):
        with pytest.raises(BadBatch):
            list(iter_batch(whole[:cut]))
    for at, wrong in (
        (0, b"\xff\xff\xff\xff"),
        (16, b"\xff\xff\xff\xff"),
        (24, b"\xff\xff"),
        (24, b"\x00\x01"),
    ):
        with pytest.raises(BadBatch):
            list(iter_batch(whole[:at] + wrong + whole[at + len(wrong) :]))
