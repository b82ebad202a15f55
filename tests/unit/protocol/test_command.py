"""Commands: requests, replies, and headers from peers that do not write them as we do."""

import contextlib
import sys

import msgspec
import pytest

from rocketeer.errors import BadFrame, BadHeader, FrameTooLarge
from rocketeer.protocol.codes import VERSION, Language, RequestCode, ResponseCode
from rocketeer.protocol.command import (
    FLAG_ONEWAY,
    Command,
    decode,
    decode_frame,
    encode,
    encode_call,
    encode_head,
    reply,
    request,
)
from rocketeer.protocol.frame import FRAME_BYTES_MAX, JSON, ROCKETMQ, pack_frame
from rocketeer.protocol.headers.offsets import OffsetReplyHeader, QueueHeader
from rocketeer.protocol.reply_template import ReplyTemplate


def from_json(header: bytes, body: bytes = b"") -> Command:
    return decode_frame(JSON, header, body)


def test_each_request_has_its_own_opaque() -> None:
    first, second = request(11), request(11)
    assert 0 < first.opaque < second.opaque
    assert not first.is_response
    assert not first.is_oneway
    assert request(11, oneway=True).is_oneway


def test_a_request_takes_a_typed_header_or_texts() -> None:
    typed = request(RequestCode.GET_MAX_OFFSET, QueueHeader(topic="T", queue_id=3), b"x")
    assert typed.ext == {"topic": "T", "queueId": "3"}
    assert typed.code == 30
    assert type(typed.code) is int
    assert request(30, {"topic": "T", "queueId": "3"}).ext == typed.ext


@pytest.mark.parametrize("serialize", [JSON, ROCKETMQ])
def test_a_reply_mirrors_opaque_and_serialisation(serialize: int) -> None:
    asked = request(30)
    asked.serialize = serialize
    answer = reply(asked, ResponseCode.SUCCESS, "fine", OffsetReplyHeader(offset=7), b"body")
    assert answer.is_response
    assert (answer.opaque, answer.serialize) == (asked.opaque, serialize)
    assert (answer.language, answer.version) == ("PYTHON", VERSION)
    assert decode(encode(answer)) == answer


def test_commands_do_not_share_their_fields() -> None:
    one, two = Command(code=1), Command(code=1)
    one.ext["a"] = "b"
    assert two.ext == {}


def test_other_languages_send_bare_values_and_nulls() -> None:
    command = from_json(
        b'{"code":"11","flag":0,"opaque":5,"language":"GO","extFields":'
        b'{"n":5,"big":9223372036854775807,"f":1.50,"b":true,"s":"t","x":null,"o":{"a":[1, 2]}}}'
    )
    assert command.code == 11
    assert command.ext == {
        "n": "5",
        "big": "9223372036854775807",
        "f": "1.50",
        "b": "true",
        "s": "t",
        "o": '{"a":[1, 2]}',
    }


@pytest.mark.parametrize("ext", [b"", b',"extFields":null', b',"extFields":{}'])
def test_no_fields_are_an_empty_dict(ext: bytes) -> None:
    assert from_json(b'{"code":34' + ext + b"}").ext == {}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b'"JAVA"', "JAVA"),
        (b'"BRAINFUCK"', "BRAINFUCK"),
        (b"3", "PYTHON"),
        (b"77", "OTHER"),
        (b"null", "OTHER"),
        (b'{"a":1}', "OTHER"),
    ],
)
def test_nobody_is_refused_for_a_language_we_have_not_heard_of(written: bytes, read: str) -> None:
    command = from_json(b'{"code":34,"language":' + written + b"}")
    assert command.language == read
    command.serialize = ROCKETMQ
    again = decode(encode(command))
    assert again.language == (read if read in Language.__members__ else "OTHER")


def test_unknown_header_keys_are_ignored() -> None:
    assert from_json(b'{"code":1,"serializeTypeCurrentRPC":"JSON","new":[{}],"version":409}').version == 409


BOMB = b"[" * 100_000


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"{}",
        b'{"code":null}',
        b'{"code":"ten"}',
        b'{"code":99999999999}',
        b'{"code":1,"opaque":1e99}',
        b'{"code":1}x',
        b'{"code":1,"remark":"\xff"}',
        b'{"code":1,"extFields":5}',
        b'{"code":1,"extFields":[1]}',
        b'{"code":1,"extFields":{"a":"\xff"}}',
        b'{"code":1,"extFields":{"a":"\\ud800"}}',
        b'{"code":1,"extFields":{"a":' + BOMB + b"}}",
        b'{"code":1,"extFields":' + BOMB,
        b'{"code":1,"remark":' + BOMB,
        b'{"a":' * 100_000,
    ],
    ids=lambda header: repr(header[:40]),
)
def test_a_header_that_is_not_what_it_says_is_bad(header: bytes) -> None:
    with pytest.raises(BadHeader):
        from_json(header)


def test_a_value_nobody_reads_may_be_nested_deeply_and_does_no_harm() -> None:
    """Python 3.14 looks at the stack that is left, and passes over it; older ones count, and refuse it."""
    older = sys.version_info < (3, 14)
    with pytest.raises(BadHeader) if older else contextlib.suppress(BadHeader):
        from_json(b'{"code":1,"other":' + BOMB + b"]" * len(BOMB) + b"}")


BINARY = encode_head(
    Command(code=310, opaque=9, remark="r\u00e9", ext={"a": "1", "b": "\u4e2d"}, serialize=ROCKETMQ)
)


def test_every_cut_of_a_binary_header_is_bad() -> None:
    assert decode_frame(ROCKETMQ, BINARY, b"").ext == {"a": "1", "b": "\u4e2d"}
    for end in range(len(BINARY)):
        with pytest.raises(BadHeader):
            decode_frame(ROCKETMQ, BINARY[:end], b"")
    with pytest.raises(BadHeader):
        decode_frame(ROCKETMQ, BINARY + b"\0", b"")


@pytest.mark.parametrize(
    "change",
    [
        {13: b"\xff\xff\xff\xff"},  # remark of -1 bytes
        {13: b"\x7f\xff\xff\xff"},
        {17: b"\xff"},  # remark not UTF-8
        {20: b"\xff\xff\xff\xff"},  # fields of -1 bytes
        {24: b"\xff\xff"},  # name of -1 bytes
        {24: b"\x7f\xff"},
        {26: b"\xff"},  # name not UTF-8
        {27: b"\xff\xff\xff\xff"},  # value of -1 bytes
    ],
    ids=str,
)
def test_a_lying_binary_header_is_bad(change: dict[int, bytes]) -> None:
    header = bytearray(BINARY)
    for at, piece in change.items():
        header[at : at + len(piece)] = piece
    with pytest.raises(BadHeader):
        decode_frame(ROCKETMQ, bytes(header), b"")


@pytest.mark.parametrize("code", [200_050, -40_000])
def test_a_code_that_does_not_fit_a_binary_header_is_an_error_not_another_code(code: int) -> None:
    with pytest.raises(BadHeader, match=str(code)):
        encode(Command(code=code, serialize=ROCKETMQ))


def test_half_a_surrogate_pair_cannot_be_written() -> None:
    for serialize in (JSON, ROCKETMQ):
        with pytest.raises(BadHeader):
            encode(Command(code=1, ext={"a": "\ud800"}, serialize=serialize))


def test_an_unknown_serialisation_is_bad() -> None:
    with pytest.raises(BadHeader):
        decode_frame(7, b"{}", b"")


@pytest.mark.parametrize("data", [b"", pack_frame(JSON, b'{"code":1}') * 2, pack_frame(JSON, b"{}")[:-1]])
def test_decode_wants_exactly_one_frame(data: bytes) -> None:
    with pytest.raises(BadFrame):
        decode(data)


def test_a_template_gives_the_same_command_as_the_general_way() -> None:
    template = ReplyTemplate(
        ResponseCode.PULL_NOT_FOUND,
        {"msgId": bytes, "queueOffset": int, "nextBeginOffset": int},
        remark='100% of "it"\n\u4e2d',
        fixed={"MSG_REGION": "Default%Region"},
    )
    asked = request(11)
    ext = {"MSG_REGION": "Default%Region", "msgId": "7F00", "queueOffset": "-1", "nextBeginOffset": "12"}
    general = reply(asked, ResponseCode.PULL_NOT_FOUND, '100% of "it"\n\u4e2d', ext)
    assert decode(template.frame(asked.opaque, b"7F00", -1, 12)) == general
    general.body = b"body"
    assert decode(template.frame(asked.opaque, b"7F00", -1, 12, body_bytes=4) + b"body") == general
    with pytest.raises(FrameTooLarge):
        template.frame(asked.opaque, b"7F00", -1, 12, body_bytes=FRAME_BYTES_MAX)
    assert decode(ReplyTemplate(0, {}).frame(asked.opaque)) == reply(asked)


@pytest.mark.parametrize("serialize", [JSON, ROCKETMQ])
@pytest.mark.parametrize("oneway", [False, True])
def test_asking_again_gives_the_frame_of_a_copy_with_the_new_opaque(serialize: int, oneway: bool) -> None:
    command = Command(
        code=310, opaque=7, flag=0, ext={"a": "g", "i": "KEYS\x01k"}, body=b"x", serialize=serialize
    )
    copy = msgspec.structs.replace(command, opaque=4711, flag=FLAG_ONEWAY if oneway else 0)
    assert encode_call(command, 4711, oneway=oneway) == encode(copy)
    assert (command.opaque, command.flag) == (7, 0), "the command itself stays as it was"
