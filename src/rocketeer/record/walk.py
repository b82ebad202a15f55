"""A walk over the records of a piece of the log, checked one by one, as columns: for audits of whole stores.

What a record proves by itself is looked at here: its sizes, its place, the checksum of its body. What queues and
index must say of it comes out as columns. Compiled where a C compiler was at hand, `walk_plain` elsewhere.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from rocketeer.compiled import COMPILED
from rocketeer.model.offsets import LogOffset
from rocketeer.record.layout import BLANK, BLANK_MAGIC, MAGIC_AT, MAGIC_BYTES, RECORD_PLACE, Buffer
from rocketeer.record.walk_plain import BAD_CRC as BAD_CRC
from rocketeer.record.walk_plain import BAD_PLACE as BAD_PLACE
from rocketeer.record.walk_plain import KEY_STRUCT, ROW_STRUCT, Topics, walk_piece

# A row per record; `at` counts from the buffer's start, `topic` in the order topics were met. `level` is the delay
# level of a message that waits in the schedule topic, else 0.
ROW: Final = np.dtype(
    [
        ("at", "<i8"),
        ("queue_offset", "<i8"),
        ("store_ms", "<i8"),
        ("tag_code", "<i8"),
        ("size", "<i4"),
        ("queue_id", "<i4"),
        ("sys_flag", "<i4"),
        ("topic", "<i4"),
        ("level", "<i4"),
        ("faults", "<i4"),
    ]
)
# A row per key the index must have, in the order of the log: which record, and the number the index keeps.
KEY: Final = np.dtype([("row", "<i4"), ("hash", "<i4")])
assert (ROW.itemsize, KEY.itemsize) == (ROW_STRUCT.size, KEY_STRUCT.size) == (56, 8)

if COMPILED and not TYPE_CHECKING:
    from rocketeer.record._walk import walk_piece


class Stop(IntEnum):
    """Why a walk ended."""

    RANGE = 0  # at the first record that begins at or behind the end asked for
    BLANK = 1  # at the filler that ends a file
    UNWRITTEN = 2  # at zeros, or at the end of the buffer
    BAD = 3  # at bytes that are no record


@dataclass(frozen=True, slots=True)
class Walk:
    """Rows (`ROW`) and keys (`KEY`) of the records passed; `end` is where it stopped, `reason` tells BAD ones."""

    rows: NDArray[Any]
    keys: NDArray[Any]
    end: int
    stop: Stop
    reason: str


def walk(buf: Buffer, start: int, stop: int, base: LogOffset, topics: Topics) -> Walk:
    """Records of `buf` from `start` on; the last one begins before `stop`. `base` is the log offset of buf[0]."""
    rows, keys, end, why, reason = walk_piece(buf, start, stop, base, topics)
    return Walk(np.frombuffer(rows, ROW), np.frombuffer(keys, KEY), end, Stop(why), reason)


def find_record(buf: Any, start: int, stop: int, base: LogOffset) -> int | None:
    """The first place in buf[start:stop] where a record says it stands; `buf` has `find` (an mmap, or bytes)."""
    end = min(stop + BLANK.size, len(buf))
    at = buf.find(MAGIC_BYTES, start + MAGIC_AT, end)
    while at >= 0 and at - MAGIC_AT < stop:
        begin = at - MAGIC_AT
        if begin >= start and len(buf) - begin >= RECORD_PLACE.size:
            *_, place = RECORD_PLACE.unpack_from(buf, begin)
            if place == base + begin and walk_piece(buf, begin, begin + 1, base, Topics())[3] == Stop.RANGE:
                return int(begin)
        at = buf.find(MAGIC_BYTES, at + 1, end)
    return None


def blank_size(buf: Buffer, at: int) -> int:
    """What the filler at `at` says it covers."""
    size, magic = BLANK.unpack_from(buf, at)
    assert magic == BLANK_MAGIC
    return int(size)
