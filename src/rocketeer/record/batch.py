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
assert ITEM.size + _I16.size == 22, "clients in all languages lay items out so"


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
        total = ITEM.size + len(body) + _I16.size + len(properties)
        parts += (ITEM.pack(total, 0, 0, flag, len(body)), body, _I16.pack(len(properties)), properties)
    return b"".join(parts)


def iter_batch(body: bytes) -> Iterator[BatchItem]:
    """The messages in order; BadBatch where the lengths do not fit together."""
    at = 0
    end = len(body)
    while at < end:
        if end - at < ITEM.size + _I16.size:
            raise BadBatch(f"{end - at} bytes are left at {at}, an item has at least {ITEM.size + _I16.size}")
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
