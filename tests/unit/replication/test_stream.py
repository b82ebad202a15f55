"""The HA stream, byte for byte as RocketMQ 4.9.8 speaks it (recordings of its HA port)."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketeer.errors import ReplicationError
from rocketeer.replication.stream import (
    HEADER,
    HELLO,
    REPORT,
    BoundKind,
    Data,
    HaFrameReader,
    LogBound,
    ReportReader,
    StreamEvent,
    StreamHeartbeat,
    note,
)

WIRE = Path(__file__).parents[2] / "golden" / "data" / "wire"
RECORDED = [f"ha_{name}_raw_ha_port.jsonl" for name in ("replication", "resume", "sync_send")]


def lines(name: str, direction: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (WIRE / name).read_text().splitlines()]
    return [line for line in found if line["dir"] == direction]


def pieces(stream: list[bytes]) -> list[StreamEvent]:
    """All events, with the log's bytes joined where they follow each other."""
    reader = HaFrameReader()
    events: list[StreamEvent] = []
    for chunk in stream:
        for event in reader.feed(memoryview(chunk)):
            if isinstance(event, Data):
                data = bytes(event.data)
                last = events[-1] if events else None
                if isinstance(last, Data) and last.offset + len(last.data) == event.offset:
                    events[-1] = Data(last.offset, memoryview(bytes(last.data) + data))
                else:
                    events.append(Data(event.offset, memoryview(data)))
            else:
                events.append(event)
    return events


@pytest.mark.parametrize("name", RECORDED)
def test_the_reports_of_a_recorded_slave_are_the_ends_of_its_log(name: str) -> None:
    recorded = lines(name, "slave->master")
    reader = ReportReader()
    reports = [report for line in recorded for report in reader.feed(bytes.fromhex(line["hex"]))]
    assert len(reports) == len(recorded)
    assert reports == sorted(reports)
    assert b"".join(map(REPORT.pack, reports)).hex() == "".join(line["hex"] for line in recorded)


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_masters_bytes_are_heartbeats_and_pieces_that_follow_each_other(name: str) -> None:
    stream = []
    for line in lines(name, "master->slave"):
        data = bytes.fromhex(line["hex"].rstrip("."))
        stream.append(data + bytes(line["len"] - len(data)))  # long pieces were recorded without their end
    events = pieces(stream)
    end = None
    for event in events:
        if end is not None:
            assert event.offset == end
        end = event.offset + (len(event.data) if isinstance(event, Data) else 0)
    assert any(isinstance(event, Data) for event in events)
    if "sync_send" not in name:
        assert isinstance(events[0], StreamHeartbeat), "one comes before the first data"


FRAMES = st.lists(st.one_of(st.just(b""), st.binary(min_size=1, max_size=40)), max_size=8)


@given(FRAMES, st.lists(st.integers(1, 30), min_size=1, max_size=20))
def test_any_split_of_the_stream_gives_the_same_log(bodies: list[bytes], cuts: list[int]) -> None:
    stream, expected, offset = b"", b"", 1000
    for body in bodies:
        stream += HEADER.pack(offset, len(body)) + body
        expected += body
        offset += len(body)
    chunks = []
    for cut in cuts:
        chunks.append(stream[:cut])
        stream = stream[cut:]
    events = pieces([*chunks, stream])
    copied = b"".join(bytes(event.data) for event in events if isinstance(event, Data))
    assert copied == expected
    assert sum(isinstance(event, StreamHeartbeat) for event in events) == bodies.count(b"")


@given(st.lists(st.integers(-1, 1 << 62), max_size=6), st.integers(1, 9))
def test_any_split_of_reports_gives_the_same_reports(reports: list[int], size: int) -> None:
    stream = b"".join(map(REPORT.pack, reports))
    reader = ReportReader()
    found = [r for at in range(0, len(stream), size) for r in reader.feed(stream[at : at + size])]
    assert found == reports


def test_what_ours_say_beyond_4_9_8_are_negative_sizes() -> None:
    assert HELLO == -1, "what a 4.9.8 master takes for no report at all"
    stream = note(BoundKind.LOG_BEGINS, 7) + note(BoundKind.LOG_ENDS, 9)
    assert pieces([stream]) == [LogBound(BoundKind.LOG_BEGINS, 7), LogBound(BoundKind.LOG_ENDS, 9)]


@pytest.mark.parametrize("head", [HEADER.pack(-5, 10), HEADER.pack(0, -9), HEADER.pack(0, (1 << 30) + 1)])
def test_a_header_that_cannot_be_one_is_an_error(head: bytes) -> None:
    with pytest.raises(ReplicationError):
        list(HaFrameReader().feed(memoryview(head)))
