"""Message properties as text and bytes, stored and sent alike: name \\x01 value \\x02 name \\x01 value.

A \\x02 at the end may be there (old clients send it) or not. A piece without \\x01, without a name or without
a value is ignored, and of two with one name the last counts: RocketMQ reads them so.
"""

import re
from collections.abc import Mapping
from typing import Final

from rocketeer.model.property_names import REAL_QID, REAL_TOPIC
from rocketeer.model.topic import may_not_be_sent_to

NAME_END: Final = b"\x01"
PROPERTY_END: Final = b"\x02"
PROPERTIES_BYTES_MAX: Final = 32767  # the length is stored as i16
NUMBER_DIGITS_MAX: Final = 18
"""Such numbers fit in 64 bits."""
QUEUE_DIGITS_MAX: Final = 9
"""Such numbers fit in 32 bits, as queue ids are stored."""

_TOPIC: Final = REAL_TOPIC.encode()
_QUEUE: Final = REAL_QID.encode()


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """The bytes, without a \\x02 at the end.

    >>> encode_properties({"TAGS": "a", "KEYS": "k1 k2"})
    b'TAGS\\x01a\\x02KEYS\\x01k1 k2'
    """
    text = join_properties(properties)
    if not is_unambiguous(text, len(properties)):
        for pair in properties.items():
            if any(separator in part for part in pair for separator in "\x01\x02"):
                raise ValueError(f"property {pair[0]!r} holds \\x01 or \\x02, which separate properties")
    return text.encode("utf-8", "replace")


def rejoin_properties(decoded: Mapping[str, str]) -> bytes:
    """The bytes of what `decode_properties` gave, with changes of our own: a sender may have written \\x01 into a
    value, for only the first of a piece ends the name.

    >>> rejoin_properties(decode_properties(b"u\\x01a\\x01b"))
    b'u\\x01a\\x01b'
    """
    return join_properties(decoded).encode("utf-8", "replace")


def join_properties(properties: Mapping[str, str]) -> str:
    """The text, whatever is in names and values."""
    return "\x02".join([f"{name}\x01{value}" for name, value in properties.items()])


def keys_of(uniq_key: str | None, words: str) -> list[str]:
    """The keys that a message is found by: the client's id, then each word of its KEYS.

    >>> keys_of("id", "k1  k2")
    ['id', 'k1', 'k2']
    """
    keys = [word for word in words.split(" ") if word]
    return keys if uniq_key is None else [uniq_key, *keys]


def is_unambiguous(joined: str, count: int) -> bool:
    """Whether the text of so many properties is read as just these: none holds \\x01 or \\x02."""
    return joined.count("\x01") == count and joined.count("\x02") == max(count - 1, 0)


def decode_properties(raw: bytes) -> dict[str, str]:
    """Every well-formed property; never fails, whatever the bytes."""
    found = {}
    for piece in raw.decode("utf-8", "replace").split("\x02"):
        name, _, value = piece.partition("\x01")
        if name and value:
            found[name] = value
    return found


def whole_number(text: str | bytes | None, digits_max: int = NUMBER_DIGITS_MAX) -> int | None:
    """A number from 0 on in ASCII digits; None for whatever else a stranger may have written there.

    >>> whole_number("17"), whole_number(b"-1"), whole_number("\u00b2"), whole_number("9" * 5_000)
    (17, None, None, None)
    """
    if text is None or len(text) > digits_max or not (text.isascii() and text.isdigit()):
        return None
    return int(text)


def last_with_value(needle: bytes, raw: bytes) -> bytes | None:
    """The last value that is not empty, which counts as absent: of thousands that are, too."""
    found = re.match(b"(?s:.*)" + re.escape(needle) + b"([^\x02]+)", raw)
    return None if found is None else found[1]


def find_property(raw: bytes, name: bytes) -> bytes | None:
    """One value without decoding the others: what `decode_properties` would give, as bytes."""
    needle = b"\x02" + name + b"\x01"
    at = raw.rfind(needle)
    if at >= 0:
        value_at = at + len(needle)
        value_end = raw.find(b"\x02", value_at)
        value = raw[value_at : value_end if value_end >= 0 else len(raw)]
        return value or last_with_value(needle, b"\x02" + raw[: at + 1])
    if raw.startswith(needle[1:]):
        value_end = raw.find(b"\x02")
        return raw[len(needle) - 1 : value_end if value_end >= 0 else len(raw)] or None
    return None


def target_of(properties: bytes) -> tuple[str, int] | None:
    """The topic and queue a message belongs to that waits elsewhere; None if it names none, or a topic of our own."""
    topic = (find_property(properties, _TOPIC) or b"").decode("utf-8", "replace")
    queue = whole_number(find_property(properties, _QUEUE), QUEUE_DIGITS_MAX)
    return None if not topic or may_not_be_sent_to(topic) or queue is None else (topic, queue)
