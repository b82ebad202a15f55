"""What the bodies share: how a struct under Java's names is declared, read and written."""

from typing import Final, TypeVar

import msgspec

from rocketeer.protocol import fastjson
from rocketeer.steps import Steps

T = TypeVar("T")

REWRITE_BYTES_MAX: Final = 64 << 10
"""Larger bodies of requests must be strict JSON, which is quick to read."""
REWRITE_AT_ONCE_BYTES: Final = 8 << 10
"""So must bodies of this size where no steps are made."""


class Wire(msgspec.Struct, rename="camel", omit_defaults=False):
    """A JSON object under Java's names; fields left out by the sender take Java's defaults."""


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """A decoder that takes numbers in quotes too: other languages' clients send them so."""
    return msgspec.json.Decoder(kind, strict=False)


encode = msgspec.json.Encoder().encode
load_as = fastjson.load_as


def load_request(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """As `load_as`, for what servers are sent."""
    return fastjson.load_as(decoder, data, rewrite_bytes_max=REWRITE_AT_ONCE_BYTES)


def loading_request(decoder: msgspec.json.Decoder[T], data: bytes) -> Steps[T]:
    """The same in steps, for larger ones."""
    return fastjson.loading_as(decoder, data, rewrite_bytes_max=REWRITE_BYTES_MAX)
