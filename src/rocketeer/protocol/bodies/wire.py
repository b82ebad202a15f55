"""What the bodies share: how a struct under Java's names is declared, read and written."""

from typing import Final, TypeVar

import msgspec

from rocketeer.protocol import fastjson

T = TypeVar("T")

REWRITE_BYTES_MAX: Final = 64 * 1024


class Wire(msgspec.Struct, rename="camel", omit_defaults=False):
    """A JSON object under Java's names; fields left out by the sender take Java's defaults."""


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """A decoder that takes numbers in quotes too: other languages' clients send them so."""
    return msgspec.json.Decoder(kind, strict=False)


encode = msgspec.json.Encoder().encode
load_as = fastjson.load_as


def load_request(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """As `load_as`, for what servers are sent: large bodies must be strict JSON, which is quick to read."""
    return fastjson.load_as(decoder, data, rewrite_bytes_max=REWRITE_BYTES_MAX)
