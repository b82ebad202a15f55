"""Recorded frames of the real RocketMQ 4.9.8: each decodes as recorded and survives our encoding."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rocketeer.errors import BadHeader
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import Command, decode, encode, encode_head
from rocketeer.protocol.frame import JSON, ROCKETMQ, FrameSplitter
from rocketeer.protocol.headers.base import Header, decode_header, encode_header
from rocketeer.protocol.headers.tables import REPLY_HEADERS, REQUEST_HEADERS
from rocketeer.protocol.json_header import decode_ext, decode_outer
from support.raw_headers import decode_raw

WIRE = Path(__file__).parent / "data" / "wire"
FILES = sorted(path for path in WIRE.glob("*.jsonl") if not path.stem.endswith(("_raw_ha_port", ".stored")))


def recorded(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a recording that hold a whole frame."""
    with path.open() as lines:
        for line in lines:
            frame = json.loads(line)
            if "frame_hex" in frame and "scrubbed" not in frame:
                yield frame


def commands(path: Path) -> Iterator[tuple[dict[str, Any], Command]]:
    for frame in recorded(path):
        yield frame, decode(bytes.fromhex(frame["frame_hex"]))


def test_the_recordings_are_there() -> None:
    assert len(FILES) > 100
    assert sum(1 for path in FILES for _ in recorded(path)) > 2800


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_recorded_frame_decodes_as_recorded(path: Path) -> None:
    for frame, command in commands(path):
        header = frame["header"]
        assert command.code == header["code"]
        assert command.flag == header["flag"]
        assert command.opaque == header["opaque"]
        assert command.language == header["language"]
        assert command.version == header["version"]
        assert command.remark == header.get("remark")
        assert command.ext == (header.get("extFields") or {})
        assert command.serialize == (ROCKETMQ if frame["ser"] == "ROCKETMQ" else JSON)
        assert command.body.hex() == frame["body_hex"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_recorded_frame_survives_encoding_in_both_serialisations(path: Path) -> None:
    for _, command in commands(path):
        assert decode(encode(command)) == command
        other = msgspec.structs.replace(command, serialize=JSON + ROCKETMQ - command.serialize)
        assert decode(encode(other)) == other


def test_a_recorded_stream_splits_into_its_frames() -> None:
    for path in FILES:
        frames = [bytes.fromhex(frame["frame_hex"]) for frame in recorded(path)]
        splitter = FrameSplitter()
        assert len(splitter.feed(b"".join(frames))) == len(frames)
        assert splitter.pending_bytes == 0


def typed(frame: dict[str, Any], command: Command) -> type[Header] | None:
    if command.is_response:
        # Refusals carry the fields of a success only in part.
        done = command.code == 0
        return REPLY_HEADERS.get(frame["request_code"]) if done else None
    return REQUEST_HEADERS.get(command.code)


# Requests composed wrong on purpose, and the field we name; the real servers answered 1 (a null where they
# need a number), 17 (no topic "null") and for a send "the specified topic is blank".
MALFORMED: dict[tuple[int, str | None], str] = {
    (RequestCode.GET_MAX_OFFSET, "PyTopic"): "queueId",
    (RequestCode.GET_ROUTEINFO_BY_TOPIC, None): "topic",
    (RequestCode.SEND_MESSAGE_V2, None): "b",
}


def wrong_field(command: Command) -> str | None:
    topic = command.ext.get("topic", command.ext.get("b"))
    return None if command.is_response else MALFORMED.get((command.code, topic))


def test_malformed_requests_are_refused_by_name() -> None:
    refused = 0
    for path in FILES:
        for _, command in commands(path):
            if field := wrong_field(command):
                with pytest.raises(BadHeader, match=f"<{field}>"):
                    decode_header(REQUEST_HEADERS[command.code], command.ext)
                refused += 1
    assert refused == 4


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_recorded_header_fits_its_struct(path: Path) -> None:
    for frame, command in commands(path):
        kind = typed(frame, command)
        if kind is None or wrong_field(command):
            continue
        header = decode_header(kind, command.ext)
        texts = encode_header(header)
        known = {field.encode_name for field in msgspec.structs.fields(kind)}
        assert {name: text for name, text in command.ext.items() if name in known}.items() <= texts.items()
        assert decode_header(kind, texts) == header
        json_form = decode_outer(encode_head(msgspec.structs.replace(command, serialize=JSON)))
        assert decode_raw(kind, json_form.ext_raw or b"{}") == header
        assert decode_ext(json_form.ext_raw) == command.ext


def test_every_recorded_request_with_fields_has_a_struct() -> None:
    untyped = {
        command.code
        for path in FILES
        for _, command in commands(path)
        if not command.is_response
        and command.code not in REQUEST_HEADERS
        and command.ext.keys() - {"ReqT", "AccessKey", "Signature"}
    }
    assert untyped == set()
