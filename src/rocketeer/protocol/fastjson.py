"""JSON as RocketMQ's Java side writes and reads it, which is a little more than JSON.

Its maps keep the type of their keys: numbers stand bare (`{0:"127.0.0.1:10911"}`), and so do whole objects
(`{{"brokerName":"a","queueId":0}:5}`).

Reading: strict JSON is decoded at once; anything else is first rewritten to strict JSON, where a bare key
becomes the string of its own text (`{"0":...}`, `{"{\\"brokerName\\":...}":5}`).
Writing: `dumps` strict with sorted keys, `dumps_bare` in the form above.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from rocketeer.errors import BadBody
from rocketeer.steps import Steps, finish

DEPTH_MAX: Final = 64
KEY_DEPTH_MAX: Final = 2
TOKENS_AT_ONCE: Final = 256
QUOTED_AT_ONCE_CHARS: Final = 8 << 10
"""Of a text in single quotes that has escapes, each of which is looked at."""

T = TypeVar("T")

_NOT_THE_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)
_decode_any = msgspec.json.Decoder().decode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode

# Over white space and commas to the next token: a string in either quotes, a bracket or colon, a bare word.
_TOKEN = re.compile(
    r"""(?P<gap>[\s,]*)(?:
        (?P<string> "(?:[^"\\]|\\.)*+" )
      | (?P<single> '(?:[^'\\]|\\.)*+' )
      | (?P<mark> [{}\[\]:] )
      | (?P<word> [^\s,:{}\[\]"']+ )
      | (?P<end> \Z )
    )""",
    re.VERBOSE | re.DOTALL,
)
_VALUE_WORD = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")


class Bare(str):
    """A mapping key that is itself JSON text of an object, written without quotes by `dumps_bare`."""

    __slots__ = ()


def loads(data: bytes) -> Any:
    """The value of strict or fastjson's JSON; mapping keys are always str. Raises BadBody."""
    try:
        return _decode_any(data)
    except _NOT_THE_JSON:
        pass
    try:
        return _decode_any(to_strict(data))
    except _NOT_THE_JSON as why:
        raise BadBody(f"body of {len(data)} bytes is not JSON: {why}") from None


def load_as(decoder: msgspec.json.Decoder[T], data: bytes, *, rewrite_bytes_max: int | None = None) -> T:
    """The typed value of strict or fastjson's JSON. Raises BadBody."""
    return finish(loading_as(decoder, data, rewrite_bytes_max=rewrite_bytes_max))


def loading_as(
    decoder: msgspec.json.Decoder[T], data: bytes, *, rewrite_bytes_max: int | None = None
) -> Steps[T]:
    """The same in steps, as far as it must be rewritten: that takes a microsecond a byte.

    `rewrite_bytes_max` is for those who read what strangers send on an event loop.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as why:
        raise BadBody(f"body of {len(data)} bytes is not what its code asks for: {why}") from None
    except _NOT_THE_JSON as why:
        if rewrite_bytes_max is not None and len(data) > rewrite_bytes_max:
            raise BadBody(f"body of {len(data)} bytes is not what its code asks for: {why}") from None
    strict = yield from rewriting(data)
    try:
        return decoder.decode(strict)
    except _NOT_THE_JSON as why:
        raise BadBody(f"body of {len(data)} bytes is not what its code asks for: {why}") from None


def dumps(value: object) -> bytes:
    """Strict JSON, keys sorted; number keys become strings."""
    try:
        return _encode_sorted(value)
    except TypeError:  # msgspec sorts texts only
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def dumps_bare(value: object) -> bytes:
    """fastjson's form: number keys and `Bare` keys stand without quotes."""
    parts: list[bytes] = []
    _write(value, parts, DEPTH_MAX)
    return b"".join(parts)


def _write(value: object, parts: list[bytes], depth: int) -> None:
    assert depth > 0, "our own bodies are shallow"
    if isinstance(value, Mapping):
        before = b"{"
        for key, item in value.items():
            bare = isinstance(key, (int, Bare))
            parts += (before, str(key).encode() if bare else _encode_sorted(key), b":")
            _write(item, parts, depth - 1)
            before = b","
        parts.append(b"{}" if before == b"{" else b"}")
    elif isinstance(value, (list, tuple, set, frozenset)):
        before = b"["
        for item in value:
            parts.append(before)
            _write(item, parts, depth - 1)
            before = b","
        parts.append(b"[]" if before == b"[" else b"]")
    else:
        parts.append(_encode_sorted(value))


# --- rewriting to strict JSON ----------------------------------------------------------------

_KEY, _COLON, _VALUE = range(3)


class _Open:
    """A container being rewritten."""

    __slots__ = ("at", "is_key", "is_object", "items", "state")

    def __init__(self, is_object: bool, at: int, is_key: bool) -> None:
        self.is_object = is_object
        self.at = at  # where its text starts among the parts
        self.is_key = is_key  # the whole container stands where a key should
        self.items = 0
        self.state = _KEY if is_object else _VALUE


def to_strict(data: bytes) -> bytes:
    """Strict JSON of fastjson's. Raises BadBody."""
    return finish(rewriting(data))


def rewriting(data: bytes) -> Steps[bytes]:
    """The same in steps; iterative, so no nesting can exhaust the stack.

    The texts inside strings are handed on as they are; the decoder behind looks at their escapes.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as why:
        raise BadBody(f"body is not UTF-8 at byte {why.start}") from None
    parts: list[str] = []
    stack: list[_Open] = []
    at = tokens = 0
    while True:
        tokens += 1
        if tokens % TOKENS_AT_ONCE == 0:
            yield
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadBody(f"body is not JSON at character {at}: {text[at : at + 20]!r}")
        at = match.end()
        kind = match.lastgroup
        token = match[kind] if kind else ""
        if kind == "end":
            if stack or not parts:
                raise BadBody("body is not JSON: it ends in the middle")
            return "".join(parts).encode()
        top = stack[-1] if stack else None
        if token == ":" and kind == "mark":
            if top is None or top.state != _COLON:
                raise BadBody(f"body is not JSON: a stray colon at character {at - 1}")
            parts.append(":")
            top.state = _VALUE
        elif kind == "mark" and token in "}]":
            _close(stack, parts, token, at)
        elif kind == "mark":
            if len(stack) >= DEPTH_MAX:
                raise BadBody(f"body nests deeper than {DEPTH_MAX}")
            is_key = _begin(top, parts, at, "," in match["gap"])
            if is_key and sum(each.is_key for each in stack) >= KEY_DEPTH_MAX:
                # Each level of quoting doubles the text: a few hundred bytes would fill the memory.
                raise BadBody(f"body nests keys deeper than {KEY_DEPTH_MAX}")
            stack.append(_Open(token == "{", len(parts), is_key))
            parts.append(token)
        else:
            is_key = _begin(top, parts, at, "," in match["gap"])
            parts.append(_scalar(kind, token, is_key, at))
            _done(top, is_key)


def _begin(top: _Open | None, parts: list[str], at: int, comma: bool) -> bool:
    """Make room for a key or value in `top`; True when it is a key."""
    if top is None:
        if parts:
            raise BadBody(f"body is not JSON: more behind its end at character {at}")
        return False
    if top.state == _COLON:
        raise BadBody(f"body is not JSON: no colon behind the key at character {at}")
    if top.items and (not top.is_object or top.state == _KEY):
        if not comma:
            raise BadBody(f"body is not JSON: no comma before character {at}")
        parts.append(",")
    return top.state == _KEY


def _done(top: _Open | None, is_key: bool) -> None:
    if top is None:
        return
    if is_key:
        top.state = _COLON
    else:
        top.items += 1
        top.state = _KEY if top.is_object else _VALUE


def _close(stack: list[_Open], parts: list[str], token: str, at: int) -> None:
    top = stack.pop() if stack else None
    if top is None or top.is_object != (token == "}") or (top.is_object and top.state != _KEY):
        raise BadBody(f"body is not JSON: a stray {token!r} at character {at - 1}")
    parts.append(token)
    if top.is_key:
        parts[top.at :] = [json.dumps("".join(parts[top.at :]), ensure_ascii=False)]
    _done(stack[-1] if stack else None, top.is_key)


def _scalar(kind: str | None, token: str, is_key: bool, at: int) -> str:
    if kind == "string":
        return token
    if kind == "single":
        if len(token) > QUOTED_AT_ONCE_CHARS and ("\\" in token or '"' in token):
            raise BadBody(
                f"body has a text of {len(token)} characters in single quotes before character {at}"
            )
        return '"' + re.sub(r"\\.|\"", _requote, token[1:-1], flags=re.DOTALL) + '"'
    if is_key:
        return json.dumps(token, ensure_ascii=False)
    if _VALUE_WORD.fullmatch(token) is None:
        raise BadBody(f"body is not JSON: {token[:20]!r} before character {at}")
    return token


def _requote(match: re.Match[str]) -> str:
    return {"\\'": "'", '"': '\\"'}.get(match[0], match[0])
