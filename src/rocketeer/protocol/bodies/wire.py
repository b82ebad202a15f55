"""What the bodies share: how a struct under Java's names is declared, read and written."""

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec

from rocketeer.errors import BadBody
from rocketeer.model.data_version import DataVersion
from rocketeer.model.group import SubscriptionGroup
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol import fastjson
from rocketeer.steps import Steps

T = TypeVar("T")

REWRITE_BYTES_MAX: Final = 64 << 10
"""Larger bodies of requests must be strict JSON, which is quick to read."""
REWRITE_AT_ONCE_BYTES: Final = 8 << 10
"""Where no steps are made, already bodies larger than this must be strict JSON."""


class Wire(msgspec.Struct, rename="camel", omit_defaults=False):
    """A JSON object under Java's names; fields left out by the sender take Java's defaults."""


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """A decoder that takes numbers in quotes too: other languages' clients send them so."""
    return msgspec.json.Decoder(kind, strict=False)


encode = msgspec.json.Encoder().encode
load_as = fastjson.load_as


def load_with_nulls(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """As `load_as`, for values whose texts Java may leave null: a field that is null counts as left out."""
    try:
        return load_as(decoder, data)
    except BadBody:
        try:
            return msgspec.convert(_without_nulls(fastjson.loads(data)), decoder.type, strict=False)
        except (msgspec.ValidationError, RecursionError) as why:
            raise BadBody(f"body of {len(data)} bytes is not what its code asks for: {why}") from None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


class EntriesBody:
    """A table of named values with its version: only entries that changed must be encoded again."""

    def __init__(self, field: bytes) -> None:
        self._begin = b'{"%b":{' % field

    def ends(self, version: DataVersion) -> tuple[bytes, bytes]:
        """What stands before and behind the entries."""
        return self._begin, b'},"dataVersion":%b}' % encode(version)

    def join(self, entries: Iterable[bytes], version: DataVersion) -> bytes:
        begin, end = self.ends(version)
        return b"%b%b%b" % (begin, b",".join(entries), end)


def encode_entry(value: TopicConfig | SubscriptionGroup) -> bytes:
    """What stands for one of them in a table."""
    return encode(value.name) + b":" + encode(value)


def load_request(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """As `load_as`, for what servers are sent."""
    return fastjson.load_as(decoder, data, rewrite_bytes_max=REWRITE_AT_ONCE_BYTES)


def loading_request(decoder: msgspec.json.Decoder[T], data: bytes) -> Steps[T]:
    """The same in steps, for larger ones."""
    return fastjson.loading_as(decoder, data, rewrite_bytes_max=REWRITE_BYTES_MAX)
