"""Laws of frames and commands over arbitrary values and arbitrary bytes."""

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.errors import BadHeader, ProtocolError
from rocketeer.protocol.codes import Language
from rocketeer.protocol.command import Command, decode, decode_frame, encode
from rocketeer.protocol.frame import JSON, ROCKETMQ, Frame, FrameSplitter, pack_frame

i16 = st.integers(-(2**15), 2**15 - 1)
i32 = st.integers(-(2**31), 2**31 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)

commands = st.builds(
    Command,
    code=i16,
    opaque=i32,
    flag=i32,
    language=st.sampled_from([language.name for language in Language]),
    version=i16,
    remark=st.none() | texts.filter(bool),
    ext=st.dictionaries(texts, texts, max_size=6),
    body=st.binary(max_size=200),
    serialize=st.sampled_from([JSON, ROCKETMQ]),
)
frames = st.tuples(st.sampled_from([JSON, ROCKETMQ]), st.binary(max_size=60), st.binary(max_size=60))


@settings(deadline=None)
@given(commands)
def test_a_command_survives_its_frame(command: Command) -> None:
    assert decode(encode(command)) == command


@settings(deadline=None)
@given(st.lists(frames, max_size=6), st.data())
def test_any_split_of_the_stream_gives_the_same_frames(sent: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(pack_frame(*frame) for frame in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    splitter = FrameSplitter()
    got: list[Frame] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += splitter.feed(stream[start:end])
    assert got == sent
    assert splitter.pending_bytes == 0


@settings(deadline=None)
@given(st.lists(frames, max_size=4), st.binary(max_size=40), st.integers(1, 50))
def test_a_stream_with_rubbish_gives_the_same_frames_in_any_chunks(
    sent: list[Frame], rubbish: bytes, chunk: int
) -> None:
    stream = b"".join(pack_frame(*frame) for frame in sent) + rubbish
    whole = _all(stream, len(stream) + 1)
    assert whole[: len(sent)] == sent
    assert _all(stream, chunk) == whole


def _all(stream: bytes, chunk: int) -> list[Frame]:
    splitter = FrameSplitter()
    got: list[Frame] = []
    with suppress(ProtocolError):
        for at in range(0, len(stream), chunk):
            got += splitter.feed(stream[at : at + chunk])
    return got


@settings(deadline=None)
@given(st.binary(max_size=300), st.integers(16, 100), st.integers(1, 40))
def test_what_waits_is_never_more_than_the_limit(stream: bytes, limit: int, chunk: int) -> None:
    splitter = FrameSplitter(limit)
    with suppress(ProtocolError):
        for at in range(0, len(stream), chunk):
            splitter.feed(stream[at : at + chunk])
            assert splitter.pending_bytes < limit


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([JSON, ROCKETMQ]), st.binary(max_size=120))
def test_any_header_bytes_give_a_command_or_bad_header(kind: int, header: bytes) -> None:
    with suppress(BadHeader):
        command = decode_frame(kind, header, b"")
        assert decode(encode(command)).ext == command.ext


@settings(max_examples=300, deadline=None)
@given(commands, st.data())
def test_a_damaged_header_gives_a_command_or_bad_header(command: Command, data: st.DataObject) -> None:
    kind, header, body = FrameSplitter().feed(encode(command))[0]
    damaged = bytearray(header)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with suppress(BadHeader):
        decode_frame(kind, bytes(damaged), body)
