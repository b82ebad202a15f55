"""What the bodies share: how a struct under Java's names is declared, read and written."""

from typing import TypeVar

import msgspec

from rocketeer.protocol import fastjson

T = TypeVar("T")


class Wire(msgspec.Struct, rename="camel", omit_defaults=False):
    """A JSON object under Java's names; fields left out by the sender take Java's defaults."""


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """A decoder that takes numbers in quotes too: other languages' clients send them so."""
    return msgspec.json.Decoder(kind, strict=False)


encode = msgspec.json.Encoder().encode
load_as = fastjson.load_as
