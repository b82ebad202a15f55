"""Typed headers read from the JSON bytes of `extFields`, as the broker reads pulls: for every kind."""

from functools import cache
from typing import TypeVar

import msgspec

from rocketeer.protocol.headers.base import Header, decode_header
from rocketeer.protocol.json_header import decode_ext

H = TypeVar("H", bound=Header)


def decode_raw(kind: type[H], raw: msgspec.Raw | bytes) -> H:
    """Raises BadHeader naming the field."""
    try:
        return _decoder(kind).decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return decode_header(kind, decode_ext(raw))  # the slow, lenient way


@cache
def _decoder(kind: type[H]) -> msgspec.json.Decoder[H]:
    return msgspec.json.Decoder(kind, strict=False)
