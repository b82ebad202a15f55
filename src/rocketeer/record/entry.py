"""What dispatch needs of a record: made from log bytes at recovery and on a slave, or handed over by append.

`entry_at` is the loop of recovery: it decodes no more of a record than the queues and the index need.
"""

from struct import error
from typing import Final, NamedTuple

from rocketeer.errors import BadRecord
from rocketeer.model.topic import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.dispatch_entry import DispatchEntry as DispatchEntry
from rocketeer.record.flags import HOSTS_V6
from rocketeer.record.indexed_properties import find_indexed_properties
from rocketeer.record.java_hash import tag_hash
from rocketeer.record.layout import (
    BLANK,
    BLANK_MAGIC,
    HEADS,
    HOST_SIZES,
    MAGIC,
    TAIL_BYTES,
    Buffer,
    body_crc,
    head_struct,
    split_tail,
)
from rocketeer.record.timers import due_ms


class Blank(NamedTuple):
    """The filler at the end of a log file: the next record is at the start of the next file."""

    size: int


# The head without what dispatch does not need (flag, born time, hosts, times reconsumed): see layout.py.
_USED: Final = (
    "size", "magic", "body_crc", "queue_id", "queue_offset", "log_offset", "sys_flag", "store_ms",
    "prepared_offset", "body_bytes",
)  # fmt: skip
_LEAN: Final = tuple(head_struct(*sizes, _USED) for sizes in HOST_SIZES)
assert [lean.size for lean in _LEAN] == [head.size for head in HEADS]
_V4: Final = _LEAN[0]
_V4_BYTES: Final = _V4.size
_new: Final = tuple.__new__  # makes a NamedTuple in half the time of calling its class


def entry_at(buf: Buffer, at: int, levels: DelayLevels, *, check_crc: bool) -> DispatchEntry | Blank | None:
    """The entry of the record at `at`; Blank at a file's end; None where nothing is written; or BadRecord."""
    try:
        (
            size,
            magic,
            crc,
            queue_id,
            queue_offset,
            log_offset,
            sys_flag,
            store_ms,
            prepared_offset,
            body_bytes,
        ) = _V4.unpack_from(buf, at)
    except error:
        return _no_record(buf, at)
    if magic != MAGIC:
        return _no_record(buf, at)
    body_at = at + _V4_BYTES
    if sys_flag & HOSTS_V6:
        lean = _LEAN[(sys_flag & HOSTS_V6) >> 4]
        if len(buf) - at < lean.size:
            raise BadRecord(at=at, reason=f"{len(buf) - at} bytes are left for a record with IPv6 hosts")
        *_, store_ms, prepared_offset, body_bytes = lean.unpack_from(buf, at)
        body_at = at + lean.size
    body_end = body_at + body_bytes
    end = at + size
    if body_bytes < 0 or body_end + TAIL_BYTES > end or end > len(buf):
        raise BadRecord(
            at=at, reason=f"size is {size}, body length {body_bytes}, with {len(buf) - at} bytes left"
        )
    if check_crc and body_bytes and body_crc(buf[body_at:body_end]) != crc:
        raise BadRecord(at=at, reason="the crc of the body is not the one stored")
    topic, raw = split_tail(bytes(buf[body_end:end]), at)
    tag_code, keys, uniq_key = derive(topic, raw, store_ms, levels)
    return _new(
        DispatchEntry,
        (
            log_offset,
            size,
            topic,
            queue_id,
            queue_offset,
            tag_code,
            store_ms,
            keys,
            uniq_key,
            sys_flag,
            prepared_offset,
            raw,
        ),
    )


def derive(topic: str, properties: bytes, store_ms: int, levels: DelayLevels) -> tuple[int, str, str | None]:
    """Tag code, keys and UNIQ_KEY, as queues and index hold them; append and recovery both come here."""
    tags, keys, uniq_key, level = find_indexed_properties(properties)
    tag_code = 0 if tags is None else tag_hash(tags)
    if level and topic == SCHEDULE_TOPIC and _level(level):
        tag_code = levels.deliver_ms(_level(level), store_ms)
    elif topic == TIMER_TOPIC:
        tag_code = due_ms(properties)
    return tag_code, keys, uniq_key


def _level(text: str) -> int:
    # A message in the schedule topic without a usable level is odd, but no reason to call the log broken.
    return int(text) if len(text) <= 9 and text.isascii() and text.isdigit() else 0


def _no_record(buf: Buffer, at: int) -> Blank | None:
    """What lies where no whole record head with the right magic does."""
    left = len(buf) - at
    if left < BLANK.size:
        return None
    size, magic = BLANK.unpack_from(buf, at)
    if magic == BLANK_MAGIC:
        if size < BLANK.size:
            raise BadRecord(at=at, reason=f"the blank record's size is {size}")
        return Blank(size)
    if size == 0 and magic == 0:
        return None
    if magic == MAGIC:
        raise BadRecord(at=at, reason=f"{left} bytes are left for a record of {size}")
    raise BadRecord(at=at, reason=f"magic is {magic & 0xFFFFFFFF:#010x}, not {MAGIC & 0xFFFFFFFF:#010x}")
