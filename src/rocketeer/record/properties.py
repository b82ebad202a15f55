"""Message properties as text and bytes, stored and sent alike: name \\x01 value \\x02 name \\x01 value.

A \\x02 at the end may be there (old clients send it) or not. A piece without \\x01, without a name or without
a value is ignored, and of two with one name the last counts: RocketMQ reads them so.
"""

from collections.abc import Mapping
from typing import Final

from rocketeer.model.property_names import REAL_QID, REAL_TOPIC

NAME_END: Final = b"\x01"
PROPERTY_END: Final = b"\x02"
PROPERTIES_BYTES_MAX: Final = 32767  # the length is stored as i16

_TOPIC: Final = REAL_TOPIC.encode()
_QUEUE: Final = REAL_QID.encode()
_QUEUE_DIGITS_MAX: Final = 9  # fits in 32 bits


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """The bytes, without a \\x02 at the end.

    >>> encode_properties({"TAGS": "a", "KEYS": "k1 k2"})
    b'TAGS\\x01a\\x02KEYS\\x01k1 k2'
    """
    text = "\x02".join([f"{name}\x01{value}" for name, value in properties.items()])
    if text.count("\x01") != len(properties) or text.count("\x02") != max(len(properties) - 1, 0):
        for pair in properties.items():
            if any(separator in part for part in pair for separator in "\x01\x02"):
                raise ValueError(f"property {pair[0]!r} holds \\x01 or \\x02, which separate properties")
    return text.encode("utf-8", "replace")


def decode_properties(raw: bytes) -> dict[str, str]:
    """Every well-formed property; never fails, whatever the bytes."""
    found = {}
    for piece in raw.decode("utf-8", "replace").split("\x02"):
        name, _, value = piece.partition("\x01")
        if name and value:
            found[name] = value
    return found


def find_property(raw: bytes, name: bytes) -> bytes | None:
    """One value without decoding the others: what `decode_properties` would give, as bytes."""
    needle = b"\x02" + name + b"\x01"
    end = len(raw)
    while (at := raw.rfind(needle, 0, end)) >= 0:
        value_at = at + len(needle)
        value_end = raw.find(b"\x02", value_at)
        value = raw[value_at : value_end if value_end >= 0 else len(raw)]
        if value:
            return value
        end = at + 1  # an empty value counts as absent; the \x02 at `at` may end an earlier one
    if raw.startswith(needle[1:]):
        value_end = raw.find(b"\x02")
        return raw[len(needle) - 1 : value_end if value_end >= 0 else len(raw)] or None
    return None


def target_of(properties: bytes) -> tuple[str, int] | None:
    """The topic and queue a message belongs to that waits elsewhere; None if its properties do not say."""
    topic, queue = find_property(properties, _TOPIC), find_property(properties, _QUEUE)
    if topic is None or queue is None or not queue.isdigit() or len(queue) > _QUEUE_DIGITS_MAX:
        return None
    return topic.decode("utf-8", "replace"), int(queue)
