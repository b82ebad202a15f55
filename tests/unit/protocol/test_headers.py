"""Typed headers: from texts, from raw JSON, and back; what is missing or wrong is named."""

from types import UnionType
from typing import get_args

import msgspec
import pytest

from rocketeer.errors import BadHeader
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.headers.base import decode_header, encode_header
from rocketeer.protocol.headers.nameserver import GetRouteHeader
from rocketeer.protocol.headers.offsets import QueueHeader
from rocketeer.protocol.headers.pull import PullMessageHeader
from rocketeer.protocol.headers.send import (
    ConsumerSendMsgBackHeader,
    SendMessageHeader,
    SendMessageReplyHeader,
    SendMessageV2Header,
)
from rocketeer.protocol.headers.tables import REPLY_HEADERS, REQUEST_HEADERS
from support.header_kinds import header_kinds
from support.raw_headers import decode_raw

SEND = {
    "a": "PG",
    "b": "Topic",
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "1794729463342",
    "h": "0",
}


def test_long_and_short_names_give_the_same_attributes() -> None:
    long = [field.name for field in msgspec.structs.fields(SendMessageHeader)]
    short = [field.name for field in msgspec.structs.fields(SendMessageV2Header)]
    assert long == short
    assert [field.encode_name for field in msgspec.structs.fields(SendMessageV2Header)] == list(
        "abcdefghijklmn"
    )


def test_optional_fields_are_none_or_false() -> None:
    header = decode_header(SendMessageV2Header, SEND)
    assert header.born_ms == 1794729463342
    assert header.properties is None
    assert header.reconsume_times is None
    assert header.max_reconsume_times is None
    assert header.broker_name is None
    assert (header.unit_mode, header.batch) == (False, False)


@pytest.mark.parametrize("name", sorted(SEND))
def test_a_missing_field_is_named(name: str) -> None:
    ext = {key: value for key, value in SEND.items() if key != name}
    with pytest.raises(BadHeader, match=f"^the custom field <{name}> is null$"):
        decode_header(SendMessageV2Header, ext)
    with pytest.raises(BadHeader, match=f"^the custom field <{name}> is null$"):
        decode_raw(SendMessageV2Header, msgspec.json.encode(ext))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("d", "four"),
        ("d", ""),
        ("e", "2147483648"),
        ("e", "-2147483649"),
        ("g", "9223372036854775808"),
        ("g", "9" * 5000),
        ("h", "1.5"),
        ("h", "null"),
        ("h", "٣"),
    ],
)
def test_a_value_that_is_not_its_type_is_named(name: str, text: str) -> None:
    with pytest.raises(BadHeader, match=f"<{name}>"):
        decode_header(SendMessageV2Header, SEND | {name: text})


@pytest.mark.parametrize(
    ("text", "value"), [("+5", 5), ("007", 7), ("-0", 0), ("2147483647", 2147483647), ("-1", -1)]
)
def test_numbers_are_read_as_java_reads_them(text: str, value: int) -> None:
    assert decode_header(SendMessageV2Header, SEND | {"e": text}).queue_id == value


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("TRUE", True), ("false", False), ("yes", False), ("", False)]
)
def test_booleans_are_read_as_java_reads_them(text: str, value: bool) -> None:
    assert decode_header(SendMessageV2Header, SEND | {"k": text}).unit_mode is value


def test_an_empty_optional_number_is_absent() -> None:
    assert decode_header(SendMessageV2Header, SEND | {"l": ""}).max_reconsume_times is None


def test_texts_that_look_like_something_else_stay_texts() -> None:
    for text in ("null", "true", "5", "", " "):
        assert decode_header(SendMessageV2Header, SEND | {"b": text, "i": text}).topic == text
        assert decode_header(SendMessageV2Header, SEND | {"b": text, "i": text}).properties == text


@pytest.mark.parametrize(
    "raw",
    [
        b'{"topic":"T","queueId":3}',
        b'{"topic":"T","queueId":"3"}',
        b'{"topic":"T","queueId":"+3","other":{"a":[1]}}',
        b'{"queueId":"003","topic":"T","bname":null}',
    ],
)
def test_raw_json_and_texts_decode_alike(raw: bytes) -> None:
    assert decode_raw(QueueHeader, raw) == QueueHeader(topic="T", queue_id=3)


def test_raw_json_takes_bare_values_where_texts_belong() -> None:
    assert decode_raw(GetRouteHeader, b'{"topic":12345}') == GetRouteHeader(topic="12345")
    assert decode_raw(PullMessageHeader, b"{" + PULL + b',"subscription":null}').subscription is None


PULL = (
    b'"consumerGroup":"G","topic":"T","queueId":"0","queueOffset":"0","maxMsgNums":"32","sysFlag":"2",'
    b'"commitOffset":"0","suspendTimeoutMillis":"15000","subVersion":"0"'
)


@pytest.mark.parametrize(
    "raw", [b"", b"null", b"{", b"[]", b"5", b'{"topic":"\xff"}', b'{"x":' + b"[" * 99_999]
)
def test_raw_bytes_that_are_no_header_are_bad(raw: bytes) -> None:
    with pytest.raises(BadHeader):
        decode_raw(QueueHeader, raw)


def test_none_is_left_out_and_booleans_are_words() -> None:
    header = ConsumerSendMsgBackHeader(offset=-1, group="G", delay_level=3, unit_mode=True)
    assert encode_header(header) == {"offset": "-1", "group": "G", "delayLevel": "3", "unitMode": "true"}
    reply = SendMessageReplyHeader(msg_id="7F", queue_id=1, queue_offset=2, region="R", trace_on="true")
    assert encode_header(reply) == {
        "msgId": "7F",
        "queueId": "1",
        "queueOffset": "2",
        "MSG_REGION": "R",
        "TRACE_ON": "true",
    }


def test_every_header_is_in_the_package_and_its_numbers_are_bounded() -> None:
    kinds = header_kinds()
    assert set(kinds) >= set(REQUEST_HEADERS.values()) | set(REPLY_HEADERS.values())
    for kind in kinds:
        for field in msgspec.structs.fields(kind):
            options = [field.type, *(get_args(field.type) if isinstance(field.type, UnionType) else ())]
            assert int not in options, f"{kind.__name__}.{field.name} takes any number: use I32 or I64"


def test_the_tables_speak_of_known_codes() -> None:
    for code in (*REQUEST_HEADERS, *REPLY_HEADERS):
        assert RequestCode(code)
