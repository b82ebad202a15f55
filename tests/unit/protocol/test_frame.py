"""Frames: what the splitter delivers, what it refuses, and how little it keeps."""

import struct
import tracemalloc
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketeer.compiled import COMPILED
from rocketeer.errors import BadFrame, FrameTooLarge, ProtocolError
from rocketeer.protocol import frames_plain
from rocketeer.protocol.frame import (
    APART_BYTES,
    FILLED_BYTES,
    FRAME_BYTES_MAX,
    JSON,
    ROCKETMQ,
    Frame,
    FrameSplitter,
    PieceBuffer,
    pack_frame,
    pack_prefix,
)

BUFFERS = [PieceBuffer, frames_plain.PieceBuffer]

GOOD = pack_frame(JSON, b"{}", b"body")


def test_a_frame_is_length_mark_header_body() -> None:
    assert pack_frame(ROCKETMQ, b"hd", b"bdy") == b"\0\0\0\x09" + b"\x01\0\0\x02" + b"hd" + b"bdy"
    assert pack_prefix(ROCKETMQ, 2, 3) + b"hdbdy" == pack_frame(ROCKETMQ, b"hd", b"bdy")


def test_whole_frames_come_out_and_the_tail_waits() -> None:
    splitter = FrameSplitter()
    assert splitter.feed(GOOD + GOOD + GOOD[:9]) == [(JSON, b"{}", b"body")] * 2
    assert splitter.pending_bytes == 9
    assert splitter.feed(GOOD[9:]) == [(JSON, b"{}", b"body")]
    assert splitter.pending_bytes == 0


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_gives_bytes(kind: type) -> None:
    splitter = FrameSplitter()
    (frame,) = splitter.feed(kind(GOOD))
    assert type(frame[1]) is bytes
    assert type(frame[2]) is bytes


def test_a_reused_buffer_does_not_change_what_waits() -> None:
    buffer = bytearray(GOOD[:10])
    splitter = FrameSplitter()
    assert splitter.feed(memoryview(buffer)) == []
    buffer[:] = bytes(10)
    assert splitter.feed(GOOD[10:]) == [(JSON, b"{}", b"body")]


def mark(size: int, kind: int, header_bytes: int) -> bytes:
    return struct.pack(">iI", size, kind << 24 | header_bytes)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (mark(-1, 0, 0), BadFrame),
        (mark(-(2**31), 0, 0), BadFrame),
        (mark(0, 0, 0), BadFrame),
        (mark(3, 0, 0), BadFrame),
        (mark(10, 0, 7), BadFrame),
        (mark(10, 0, 0xFFFFFF), BadFrame),
        (mark(10, 2, 6), BadFrame),
        (mark(10, 255, 6), BadFrame),
        (mark(FRAME_BYTES_MAX - 3, 0, 2), FrameTooLarge),
        (mark(2**31 - 1, 0, 2), FrameTooLarge),
        (b"GET / HTTP/1.1\r\n", FrameTooLarge),
        (b"\x7f\xff\xff\xff", FrameTooLarge),
        (b"\xff\xff\xff\xff", BadFrame),
    ],
)
def test_lying_lengths_are_refused_before_anything_is_kept(data: bytes, error: type[ProtocolError]) -> None:
    splitter = FrameSplitter()
    with pytest.raises(error):
        splitter.feed(data)
    assert splitter.pending_bytes == 0
    with pytest.raises(error):
        splitter.feed(GOOD)


def test_the_largest_frame_passes_and_one_byte_more_does_not() -> None:
    splitter = FrameSplitter()
    (frame,) = splitter.feed(pack_frame(JSON, b"{}", bytes(FRAME_BYTES_MAX - 10)))
    assert len(frame[2]) == FRAME_BYTES_MAX - 10
    with pytest.raises(FrameTooLarge):
        pack_frame(JSON, b"{}", bytes(FRAME_BYTES_MAX - 9))
    with pytest.raises(FrameTooLarge):
        pack_prefix(JSON, 2, FRAME_BYTES_MAX - 9)


def test_frames_before_a_broken_one_are_delivered_whatever_the_split() -> None:
    stream = GOOD + GOOD + mark(-5, 0, 0)
    for cut in range(len(stream) + 1):
        splitter = FrameSplitter()
        frames: list[Frame] = []
        for piece in (stream[:cut], stream[cut:]):
            with suppress(BadFrame):
                frames += splitter.feed(piece)
        assert len(frames) == 2
        assert isinstance(splitter.error, BadFrame)
        with pytest.raises(BadFrame):
            splitter.feed(b"")


def test_a_frame_fed_byte_by_byte_is_not_copied_at_every_byte() -> None:
    """A slow sender costs linear work: nothing is parsed until the announced length is there."""
    splitter = FrameSplitter()
    data = pack_frame(JSON, b"{}", bytes(200_000))
    got = [frame for at in range(len(data)) for frame in splitter.feed(data[at : at + 1])]
    assert len(got) == 1


LARGE = [
    pack_frame(JSON, b"{}", bytes(range(256)) * (FILLED_BYTES // 128)),
    pack_frame(ROCKETMQ, b"h" * 70_000, bytes(range(256)) * (APART_BYTES // 256)),
    pack_frame(JSON, b"h" * (APART_BYTES + 5), b""),
]


@pytest.mark.parametrize("chunk_bytes", [50_000, 256 << 10, FILLED_BYTES - 1, FILLED_BYTES + 1, 5 << 20])
def test_large_frames_come_out_as_they_went_in_between_small_ones(chunk_bytes: int) -> None:
    stream = GOOD + LARGE[0] + LARGE[1] + GOOD + LARGE[2] + GOOD + GOOD
    splitter = FrameSplitter()
    cuts = [*range(0, len(stream), chunk_bytes), len(stream)]
    got = [frame for start, end in pairwise(cuts) for frame in splitter.feed(stream[start:end])]
    assert b"".join([pack_frame(*frame) for frame in got]) == stream
    assert splitter.pending_bytes == 0


def test_a_broken_frame_behind_a_large_one_does_not_take_that_with_it() -> None:
    for large in LARGE:
        splitter = FrameSplitter()
        assert splitter.feed(large[:-10]) == []
        assert splitter.feed(b"") == []
        (frame,) = splitter.feed(large[-10:] + mark(-5, 0, 0))
        assert pack_frame(*frame) == large
        assert isinstance(splitter.error, BadFrame)


@pytest.mark.parametrize("large", LARGE)
def test_the_end_of_a_large_frame_takes_no_time_for_all_of_it(large: bytes) -> None:
    """Its bytes have their place already: memory for them all at once would hold up whoever else asks something."""
    if not COMPILED:
        pytest.skip("the plain twin copies them once more")
    splitter = FrameSplitter()
    tracemalloc.start()
    try:
        for start in range(0, len(large) - 1, 256 << 10):
            splitter.gather(large[start : min(start + (256 << 10), len(large) - 1)])
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        pieces = splitter.gather(large[-1:])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert pieces
    assert peak - before < 64 << 10


@pytest.mark.parametrize("kind", BUFFERS)
def test_memory_of_what_will_not_be_finished_may_go_piece_by_piece(kind: type[PieceBuffer]) -> None:
    beside = bytes(range(256)) * 64
    filling = kind(1 << 20)
    filling.fill(bytes(1 << 19), 0)
    for start in range(-4096, 2 << 20, 100_000):  # never beyond its own bytes
        filling.release(start, start + 100_000)
    assert filling.whole() is None
    assert beside == bytes(range(256)) * 64


@pytest.mark.parametrize("kind", BUFFERS)
def test_what_is_filled_takes_no_more_than_its_size(kind: type[PieceBuffer]) -> None:
    filling = kind(5)
    assert filling.fill(b"xab", 1) == 3
    assert filling.whole() is None
    assert filling.fill(b"cdefg", 0) == 3
    assert filling.whole() == b"abcde"
    assert filling.fill(b"more", 0) == 0
    assert kind(0).whole() == b""


@given(st.integers(-2, 20), st.lists(st.tuples(st.binary(max_size=8), st.integers(-2, 10)), max_size=8))
def test_both_fillings_take_and_refuse_the_same(size: int, pieces: list[tuple[bytes, int]]) -> None:
    seen: list[list[object]] = []
    for kind in BUFFERS:
        told: list[object] = []
        seen.append(told)
        try:
            filling = kind(size)
        except ValueError as error:
            told.append(str(error))
            continue
        for data, start in pieces:
            try:
                told.append(filling.fill(data, start))
            except ValueError as error:
                told.append(str(error))
            told.append(filling.whole())
    assert seen[0] == seen[1]
