"""`walk` without a compiler, and what both twins share."""

from struct import Struct
from typing import Final

from rocketeer.errors import BadRecord
from rocketeer.model.offsets import LogOffset
from rocketeer.model.topic import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketeer.record.flags import TX_ROLLBACK
from rocketeer.record.indexed_properties_plain import find_indexed_properties
from rocketeer.record.java_hash import index_hash, tag_hash, unsigned_hash
from rocketeer.record.layout import (
    BLANK,
    BLANK_MAGIC,
    HEAD,
    MAGIC,
    TAIL_BYTES,
    Buffer,
    body_crc,
    head_of,
    split_tail,
)
from rocketeer.record.properties import keys_of
from rocketeer.record.timers import due_ms

BAD_CRC: Final = 1
BAD_PLACE: Final = 2

ROW_STRUCT: Final = Struct("<qqqqiiiiii")
KEY_STRUCT: Final = Struct("<ii")

_RANGE, _BLANK, _UNWRITTEN, _BAD = range(4)

Walked = tuple[bytes, bytes, int, int, str]
"""Rows, keys, where it ended, why (`walk.Stop`), the reason in words."""


class Topics:
    """Topics in the order they were met, with what of each the walk needs again and again."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}
        self.names: list[str] = []
        self.prefix_hashes: list[int] = []
        """hashCode of "topic#", unsigned."""
        self.kinds: list[int] = []
        """0, 1 for the schedule topic, 2 for the timer topic."""

    def number(self, raw: bytes) -> int:
        """The topic's number, the next one for a new topic; UnicodeDecodeError when it is no text."""
        found = self.numbers.get(raw)
        if found is None:
            name = raw.decode()
            found = self.numbers[raw] = len(self.names)
            self.names.append(name)
            self.prefix_hashes.append(unsigned_hash(f"{name}#"))
            self.kinds.append(1 if name == SCHEDULE_TOPIC else 2 if name == TIMER_TOPIC else 0)
        return found


def walk_piece(buf: Buffer, start: int, stop: int, base: LogOffset, topics: Topics) -> Walked:
    rows: list[bytes] = []
    keys: list[bytes] = []
    at = start

    def ended(why: int, reason: str = "") -> Walked:
        return b"".join(rows), b"".join(keys), at, why, reason

    while at < stop:
        left = len(buf) - at
        if left < BLANK.size:
            return ended(_UNWRITTEN)
        size, magic = BLANK.unpack_from(buf, at)
        if magic == BLANK_MAGIC:
            return ended(_BLANK)
        if size == magic == 0:
            return ended(_UNWRITTEN)
        if magic != MAGIC:
            return ended(_BAD, f"magic is {magic & 0xFFFFFFFF:#010x}")
        if size < HEAD.size + TAIL_BYTES or size > left:
            return ended(_BAD, f"size is {size}, with {left} bytes left")
        head = head_of(buf, at)
        if size < head.size + TAIL_BYTES:
            return ended(_BAD, f"size is {size}, too small for IPv6 hosts")
        fields = head.unpack_from(buf, at)
        (_, _, crc, queue_id, _, queue_offset, log_offset, sys_flag, _, _, store_ms, _, _, _, body_bytes) = (
            fields
        )
        body_at = at + head.size
        if not 0 <= body_bytes <= size - head.size - TAIL_BYTES:
            return ended(_BAD, f"body length is {body_bytes} in a record of {size} bytes")
        faults = 0
        if body_bytes and body_crc(buf[body_at : body_at + body_bytes]) != crc:
            faults |= BAD_CRC
        if log_offset != base + at:
            faults |= BAD_PLACE
        tail = bytes(buf[body_at + body_bytes : at + size])
        try:
            _, raw = split_tail(tail, at)
            topic = topics.number(tail[1 : 1 + tail[0]])
        except BadRecord as error:
            return ended(_BAD, error.reason)
        tag_code, level, hashes = derived_values(raw, topics, topic, sys_flag)
        number = len(rows)
        keys += [KEY_STRUCT.pack(number, key) for key in hashes]
        rows.append(
            ROW_STRUCT.pack(
                at, queue_offset, store_ms, tag_code, size, queue_id, sys_flag, topic, level, faults
            )
        )
        at += size
    return ended(_RANGE)


def derived_values(
    properties: bytes, topics: Topics, topic: int, sys_flag: int
) -> tuple[int, int, list[int]]:
    """Tag code, delay level, and the numbers the index keeps of the message's keys."""
    tags, words, uniq_key, delay = find_indexed_properties(properties)
    kind = topics.kinds[topic]
    tag_code = 0 if tags is None else tag_hash(tags)
    level = 0
    if kind == 1:
        level = int(delay) if len(delay) <= 9 and delay.isascii() and delay.isdigit() else 0
    elif kind == 2:
        tag_code = due_ms(properties)
    found = keys_of(uniq_key, words) if sys_flag & TX_ROLLBACK != TX_ROLLBACK else []
    return tag_code, level, [index_hash(f"{topics.names[topic]}#{key}") for key in found]
