"""The JSON command header: the fixed part first (`decode_outer`), then `extFields` as texts (`decode_ext`)."""

from typing import Any

import msgspec

from rocketeer.errors import BadHeader
from rocketeer.model.java_types import I32


class OuterHeader(msgspec.Struct, gc=False):
    """The fixed part; `ext_raw` is the JSON of `extFields`, not looked at yet (empty when there is none)."""

    code: I32
    opaque: I32 = 0
    flag: I32 = 0
    version: I32 = 0
    language: Any = None  # a name; nobody shall be refused for a language we have not heard of
    remark: Any = None
    ext_raw: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="extFields")


class OutgoingHeader(msgspec.Struct, omit_defaults=True, rename={"ext": "extFields"}, gc=False):
    """What we write; an empty remark or `extFields` is left out, as RocketMQ does."""

    code: int
    flag: int
    language: str
    opaque: int
    version: int
    remark: str | None = None
    ext: dict[str, str] = {}


_decode_outer = msgspec.json.Decoder(OuterHeader, strict=False).decode
_decode_texts = msgspec.json.Decoder(dict[str, str]).decode
_decode_raws = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode

# What msgspec raises for bytes that are not the JSON we ask for; a nesting bomb ends as RecursionError.
NOT_THE_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)


def decode_outer(header: bytes) -> OuterHeader:
    """The first phase; raises BadHeader."""
    try:
        return _decode_outer(header)
    except NOT_THE_JSON as why:
        raise BadHeader(f"not a JSON command header: {why}") from None


def decode_ext(raw: msgspec.Raw | bytes) -> dict[str, str]:
    """`extFields` as texts: bare numbers and booleans, which some clients send, as written; no nulls."""
    if not raw or bytes(raw) == b"null":
        return {}
    try:
        return _decode_texts(raw)
    except msgspec.ValidationError:
        return _decode_bare_values(raw)
    except NOT_THE_JSON as why:
        raise BadHeader(f"extFields are not JSON texts: {why}") from None


def _decode_bare_values(raw: msgspec.Raw | bytes) -> dict[str, str]:
    try:
        values = {name: bytes(value) for name, value in _decode_raws(raw).items()}
        return {
            name: _decode_text(value) if value[:1] == b'"' else value.decode()
            for name, value in values.items()
            if value != b"null"
        }
    except NOT_THE_JSON as why:
        raise BadHeader(f"extFields are not JSON texts: {why}") from None


def encode(header: OutgoingHeader) -> bytes:
    """The bytes of a JSON header; raises BadHeader for half a surrogate pair, which UTF-8 cannot express."""
    try:
        return _encode(header)
    except UnicodeError as why:
        raise BadHeader(f"header text cannot be written as UTF-8: {why}") from None
