"""Trace lines: RocketMQ's are read, and written again they are the same bytes."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketeer.record.trace import (
    ConsumeCode,
    MessageKind,
    TraceEvent,
    TraceKind,
    decode_trace,
    encode_event,
    search_keys,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "data" / "wire" / "trace.stored.jsonl"
RECORDED = [
    line
    for line in map(json.loads, GOLDEN.read_text().splitlines())
    if line["topic"] == "RMQ_SYS_TRACE_TOPIC"
]


@pytest.mark.parametrize("line", RECORDED, ids=lambda line: str(line["queueOffset"]))
def test_recorded_traces_are_read_and_written_as_they_were(line: dict[str, str]) -> None:
    body = bytes.fromhex(line["body_hex"])
    events = decode_trace(body)
    assert "".join(map(encode_event, events)).encode() == body
    assert set(search_keys(events).split()) == set(line["keys"].split())


def test_recorded_traces_tell_a_life() -> None:
    events = [event for line in RECORDED for event in decode_trace(bytes.fromhex(line["body_hex"]))]
    assert {event.kind for event in events} == set(TraceKind)
    sent = next(event for event in events if event.kind is TraceKind.PUB)
    assert (sent.topic, sent.tags, sent.keys, sent.group) == ("TraceTopic", "TagA", "trk1", "PG_trace")
    assert (sent.store_host, sent.body_bytes, sent.success) == ("127.0.0.1:10911", 8, True)
    before, after = (
        next(event for event in events if event.kind is kind and event.message_id == sent.message_id)
        for kind in (TraceKind.SUB_BEFORE, TraceKind.SUB_AFTER)
    )
    assert before.request_id == after.request_id
    assert (after.success, after.code, after.group) == (True, ConsumeCode.SUCCESS, "CG_trace")
    ended = next(event for event in events if event.kind is TraceKind.END_TRANSACTION)
    assert (ended.transaction_state, ended.from_check) == ("COMMIT_MESSAGE", False)
    assert ended.message_kind == MessageKind.TRANSACTION_COMMIT


def test_lines_of_older_clients_are_read() -> None:
    pub = "Pub\x01{}\x01R\x01G\x01T\x01id\x01null\x01k\x011.2.3.4:5\x018\x019\x010"
    older, old, new = decode_trace(
        "\x02".join(
            [
                pub.format(1) + "\x01false",
                pub.format(2) + "\x01offsetid\x01true",
                pub.format(3) + "\x01offsetid\x01true\x01client",
            ]
        ).encode()
    )
    assert (older.success, older.offset_message_id) == (False, None)
    assert (old.success, old.offset_message_id, old.tags) == (True, "offsetid", None)
    assert new.client_host == "client"
    (short,) = decode_trace(b"SubAfter\x01r\x01id\x014\x01true\x01k")
    assert (short.cost_ms, short.time_ms, short.group) == (4, 0, None)


@pytest.mark.parametrize(
    "body",
    [b"", b"\x02\x02", b"Pub", b"Pub\x01x\x02", b"Other\x011\x02", b"\xff\xfe", b"SubAfter\x01\x01\x01"],
)
def test_what_is_no_trace_is_left_out(body: bytes) -> None:
    assert decode_trace(body) == []


@given(st.binary(max_size=300))
def test_any_bytes_can_be_read(body: bytes) -> None:
    decode_trace(b"Pub\x01" + body)


@pytest.mark.parametrize("number", ["9" * 5_000, "9" * 20, str(1 << 31), "-" + "9" * 30, "x", ""])
@pytest.mark.parametrize("place", [1, 9, 10, 11])
def test_a_line_with_a_number_that_nobody_can_keep_is_left_out(number: str, place: int) -> None:
    """A table of 32-bit numbers and times: one such line ended a job, whenever it ran."""
    fields = ["Pub", "1700000000000", "r", "g", "T", "ID", "t", "k", "host:1", "3", "5", "0", "OID", "true"]
    assert [event.message_id for event in decode_trace("\x01".join(fields).encode() + b"\x02")] == ["ID"]
    fields[place] = str(1 << 60) if place == 1 and number == str(1 << 31) else number
    assert decode_trace("\x01".join(fields).encode() + b"\x02") == []


def test_messages_are_found_by_id_and_by_each_key() -> None:
    events = [TraceEvent(TraceKind.PUB, "A", keys="k1 k2"), TraceEvent(TraceKind.PUB, "B", keys="k1")]
    assert search_keys(events).split() == ["A", "k1", "k2", "B"]
