"""The body of a batch send: many messages of one topic and queue, split by the broker before it stores them.

Item, big-endian: total size i32 | magic i32 | crc i32 | flag i32 | body length i32 | body
                  | properties length i16 | properties        (magic and crc are sent as 0, and not read)
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from rocketeer.errors import BadBatch
from rocketeer.record.properties import PROPERTIES_BYTES_MAX

ITEM: Final = Struct(">iiiii")
_I16: Final = Struct(">h")
ITEM_BYTES_MIN: Final = ITEM.size + _I16.size
assert ITEM_BYTES_MIN == 22, "clients in all languages lay items out so"
_ITEM_SIZE: Final = Struct(">i")


class BatchItem(NamedTuple):
    """One message of a batch; `properties` encoded."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch(items: Iterable[BatchItem]) -> bytes:
    """The body of the request."""
    parts: list[bytes] = []
    for flag, body, properties in items:
        if len(properties) > PROPERTIES_BYTES_MAX:
            raise BadBatch(f"properties of {len(properties)} bytes: at most {PROPERTIES_BYTES_MAX} fit")
        total = ITEM_BYTES_MIN + len(body) + len(properties)
        parts += (ITEM.pack(total, 0, 0, flag, len(body)), body, _I16.pack(len(properties)), properties)
    return b"".join(parts)


def iter_batch(body: bytes) -> Iterator[BatchItem]:
    """The messages in order; BadBatch where the lengths do not fit together."""
    at = 0
    end = len(body)
    while at < end:
        if end - at < ITEM_BYTES_MIN:
            raise BadBatch(f"{end - at} bytes are left at {at}, an item has at least {ITEM_BYTES_MIN}")
        total, _, _, flag, body_bytes = ITEM.unpack_from(body, at)
        body_at = at + ITEM.size
        properties_at = body_at + body_bytes + _I16.size
        if body_bytes < 0 or properties_at > end:
            raise BadBatch(f"the item at {at} announces a body of {body_bytes} bytes of {end - body_at}")
        (properties_bytes,) = _I16.unpack_from(body, properties_at - _I16.size)
        item_end = properties_at + properties_bytes
        if properties_bytes < 0 or item_end > end or item_end - at != total:
            raise BadBatch(
                f"the item at {at} of {total} bytes has body {body_bytes} and properties {properties_bytes}"
            )
        yield BatchItem(flag, body[body_at : body_at + body_bytes], body[properties_at:item_end])
        at = item_end


def count_items(body: bytes, enough: int) -> int:
    """How many messages a batch has, not counting further than `enough`; each begins with its size."""
    at, end, unpack = 0, len(body) - _ITEM_SIZE.size, _ITEM_SIZE.unpack_from
    for count in range(enough):
        if at > end:
            return count
        size = unpack(body, at)[0]
        if size < ITEM_BYTES_MIN:  # broken: splitting it says how
            return 0
        at += size
    return enough
