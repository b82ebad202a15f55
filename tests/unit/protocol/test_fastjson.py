"""fastjson's JSON: bare keys are read, bombs are not, and what we write is read back."""

import json
from typing import Any

import pytest

from rocketeer.errors import BadBody
from rocketeer.protocol.fastjson import DEPTH_MAX, Bare, dumps, dumps_bare, loads, to_strict


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{0:"a:10911",1:{}}', {"0": "a:10911", "1": {}}),
        (b"{-1:-1.5e3, true:null}", {"-1": -1500.0, "true": None}),
        (
            b'{"t":{{"b":"x","q":0}:{"o":4},{"b":"y","q":1}:[]}}',
            {"t": {'{"b":"x","q":0}': {"o": 4}, '{"b":"y","q":1}': []}},
        ),
        (b"{{{1:2}:3}:4}", {'{"{\\"1\\":2}":3}': 4}),
        (b"{a:'it\\'s \"so\"',}", {"a": 'it\'s "so"'}),
        (b'{0:"{1:2},\\"[]\\\\"}', {"0": '{1:2},"[]\\'}),
        (b"[1,2,]", [1, 2]),
        (' {\n1 : "\u4e2d" }\n'.encode(), {"1": "\u4e2d"}),
        (b"null", None),
        (b"{}", {}),
    ],
)
def test_what_fastjson_writes_is_read(data: bytes, value: Any) -> None:
    assert loads(data) == value
    assert json.loads(to_strict(data)) == value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"x",
        b"{",
        b"}",
        b"[}",
        b'{"a"}',
        b'{"a" 1}',
        b'{"a":}',
        b'{"a":1 "b":2}',
        b"{1:2}3",
        b"{1:2:3}",
        b"{:1}",
        b"[1:2]",
        b'{1:"a}',
        b"{1:'a}",
        b"{1:new Date(5)}",
        b"{1:0x5}",
        b'{1:"\xff"}',
        b'{1:"\\ud800"}',
        b'{1:"\\q"}',
    ],
)
def test_what_is_not_json_is_bad(data: bytes) -> None:
    with pytest.raises(BadBody):
        loads(data)


@pytest.mark.parametrize(
    "bomb",
    [
        b"[" * 1_000_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b"{" * 100_000,
        b"{0:" * 100_000,
        b"{" * (DEPTH_MAX + 1) + b"}" * (DEPTH_MAX + 1),
        b'"' + b"\\" * 1_000_001,
        b" ," * 500_000 + b"x",
    ],
    ids=lambda bomb: repr(bomb[:8]),
)
def test_a_bomb_is_bad_and_quickly_so(bomb: bytes) -> None:
    with pytest.raises(BadBody):
        loads(bomb)


def test_dumps_is_strict_and_sorted() -> None:
    assert dumps({"b": {1: "x", 0: "y"}, "a": [None, True, 1.5, "\u4e2d"]}) == (
        '{"a":[null,true,1.5,"\u4e2d"],"b":{"0":"y","1":"x"}}'.encode()
    )


def test_dumps_bare_leaves_numbers_and_objects_without_quotes() -> None:
    value = {"t": {Bare('{"q":1}'): {0: [1, (2,)], 10: {}}, "s": []}, "n": None, "f": 0.5, "b": True}
    assert dumps_bare(value) == b'{"t":{{"q":1}:{0:[1,[2]],10:{}},"s":[]},"n":null,"f":0.5,"b":true}'
