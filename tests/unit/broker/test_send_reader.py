"""The compiled reader of send headers: it agrees with the typed decoder, or leaves the header to it."""

import functools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketeer.broker.fast_path import SendCommand
from rocketeer.protocol.headers.base import raw_decoder
from rocketeer.protocol.reply_template import ReplyTemplate
from rocketeer.record import speed_plain
from support import sending

header = functools.partial(sending.header, 310)
compiled: Any = pytest.importorskip("rocketeer.record._speed", reason="installed without a C compiler")

CLAIMS = frozenset({"DELAY"})
CLUSTER = "CLUSTER\x01c"
PLAIN = {
    "a": "group", "b": "Topic", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0",
    "i": "KEYS\x01k\x02UNIQ_KEY\x01u\x02WAIT\x01true\x02TAGS\x01t\x02", "j": "0", "k": "false", "m": "false",
}  # fmt: skip


def by_decoder(raw: bytes) -> Any:
    command = raw_decoder(SendCommand).decode(raw)
    ext = command.ext
    plain = speed_plain.plain_properties(ext.properties or "", CLAIMS, CLUSTER)
    if plain is None or ext.batch or command.code != 310:
        return None
    return (command.opaque, command.flag, ext.topic, ext.queue_id, ext.flag, ext.sys_flag, ext.born_ms,
            ext.reconsume_times or 0, plain)  # fmt: skip


def test_what_java_sends_is_read() -> None:
    raw = header(PLAIN)
    assert compiled.read_send(raw, CLAIMS, CLUSTER) == by_decoder(raw)
    assert compiled.read_send(raw, CLAIMS, CLUSTER) is not None


def test_bare_numbers_and_white_space_are_read_too() -> None:
    ext = PLAIN | {"d": 4, "e": 2, "f": -1, "g": 5, "h": 9, "l": 16, "m": False}
    raw = json.dumps({"code": 310, "flag": 2, "opaque": -3, "extFields": ext}, indent=2).encode()
    assert compiled.read_send(raw, CLAIMS, CLUSTER) == by_decoder(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b"{}", b"[]", b'{"code":310}', header({}), header({k: v for k, v in PLAIN.items() if k != "b"}),
        header(PLAIN | {"m": "true"}), header(PLAIN | {"e": "x"}), header(PLAIN | {"e": "99999999999"}),
        header(PLAIN | {"i": "DELAY\x013"}), header(PLAIN | {"i": {"a": "b"}}), header(PLAIN, code=311),
        header(PLAIN) + b"x", header(PLAIN)[:-1], header(PLAIN | {"b": "größe"}), header(PLAIN, opaque=1 << 40),
        b'{"code":310,"extFields":' + b"{" * 1000, header(PLAIN).replace(b"Topic", b"To\xffpic"),
        header(PLAIN).replace(b'"flag"', b'"fl\\u0061g"'), header(PLAIN).replace(b"{", b"{{", 1),
    ],
)  # fmt: skip
def test_everything_else_is_left_to_the_general_decoder(raw: bytes) -> None:
    assert compiled.read_send(raw, CLAIMS, CLUSTER) is None


values = st.one_of(
    st.text(max_size=8), st.integers(-(2**40), 2**40), st.sampled_from(["true", "false", "0", "310", None])
)


@settings(deadline=None, max_examples=500)
@given(
    ext=st.dictionaries(st.sampled_from("abcdefghijklmno"), values, max_size=6),
    outer=st.dictionaries(st.sampled_from(["code", "flag", "opaque", "remark", "x"]), values, max_size=2),
    cut=st.integers(0, 400),
    drop=st.booleans(),
)
def test_it_never_says_anything_the_decoder_does_not(ext: Any, outer: Any, cut: int, drop: bool) -> None:
    raw = header(PLAIN | ext, **outer)
    if drop and cut < len(raw):
        raw = raw[:cut] + raw[cut + 1 :]
    answer = compiled.read_send(raw, CLAIMS, CLUSTER)
    if answer is not None:
        assert answer == by_decoder(raw)


@settings(deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(-(2**31), 2**31 - 1),
            st.integers(0, 2**62),
            st.integers(0, 70_000),
            st.integers(0, 2**62),
        ),
        max_size=20,
    )
)
def test_a_run_of_replies_is_the_template_again_and_again(rows: list[tuple[int, int, int, int]]) -> None:
    fields: dict[str, Any] = {"msgId": b"7F%016X", "queueId": int, "queueOffset": int}
    template = ReplyTemplate(10, fields, fixed={"MSG_REGION": "50% off", "TRACE_ON": "true"})
    assert compiled.reply_frames(template.pieces, rows) == b"".join(template.frame(*row) for row in rows)
