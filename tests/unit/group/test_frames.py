"""The bytes between members."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketeer.errors import ReplicationError
from rocketeer.group.frames import (
    BEAT_NUMBER,
    FrameKind,
    GroupFrame,
    Hello,
    LogBytes,
    MemberFrameReader,
    data_header,
    decode,
    frame,
)

HELLO = Hello(group="g", member=2, incarnation="s", epoch=3, epochs=[(1, 0)], log_end=99)
STREAM = (
    frame(FrameKind.HELLO, 3, 99, msgspec.json.encode(HELLO))
    + data_header(3, 1000, 5)
    + b"bytes"
    + frame(FrameKind.BEAT, 3, 990, BEAT_NUMBER.pack(7))
    + frame(FrameKind.ACK, 3, 1005)
)


@given(st.lists(st.integers(1, len(STREAM)), max_size=20))
def test_any_split_of_the_stream_gives_the_same_frames(cuts: list[int]) -> None:
    reader, frames, data = MemberFrameReader(), list[GroupFrame](), b""
    places = sorted({0, *cuts, len(STREAM)})
    for start, end in pairwise(places):
        for each in reader.feed(memoryview(STREAM[start:end])):
            if isinstance(each, LogBytes):
                assert each.offset == 1000 + len(data)
                data += bytes(each.data)
            else:
                frames.append(each)
    assert data == b"bytes"
    assert [each.kind for each in frames] == [FrameKind.HELLO, FrameKind.BEAT, FrameKind.ACK]
    assert decode(frames[0].payload, Hello) == HELLO


@pytest.mark.parametrize(
    "bad", [b"\x63" * 17, data_header(1, -5, 10), data_header(1, 0, 0), b"\x01" + b"\xff" * 16]
)
def test_bytes_of_no_member_are_refused(bad: bytes) -> None:
    with pytest.raises(ReplicationError):
        list(MemberFrameReader().feed(memoryview(bad)))
