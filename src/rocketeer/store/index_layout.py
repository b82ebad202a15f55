"""What stands in an index file.

header, 40 bytes, big-endian:
    begin ms i64 | end ms i64 | begin offset i64 | end offset i64 | used slots i32 | next entry i32
slots:   `slots` x i32, the newest entry of the keys that fall into the slot, 0 = none
entries: `entries` x 20 bytes: key hash i32 | log offset i64 | seconds since begin i32 | older entry i32
         (entry 0 is never used, so next entry starts at 1)
"""

import struct
from dataclasses import dataclass

import numpy as np

from rocketeer.model.offsets import LogOffset

_START = LogOffset(0)

HEADER = struct.Struct(">qqqqii")
assert HEADER.size == 40, "the files interoperate with RocketMQ's"
SLOT = np.dtype(">i4")
_ENTRY_FIELDS = (("hash", "i"), ("log_offset", "q"), ("seconds", "i"), ("older", "i"))
ENTRY = np.dtype([(name, f">{kind}") for name, kind in _ENTRY_FIELDS])
ENTRY_STRUCT = struct.Struct(">" + "".join(kind for _, kind in _ENTRY_FIELDS))
assert ENTRY_STRUCT.size == ENTRY.itemsize == 20, "the files interoperate with RocketMQ's"


@dataclass(frozen=True, slots=True)
class IndexHeader:
    begin_ms: int = 0
    end_ms: int = 0
    begin_offset: LogOffset = _START
    end_offset: LogOffset = _START
    used_slots: int = 0
    next_entry: int = 1

    def pack(self) -> bytes:
        return HEADER.pack(
            self.begin_ms, self.end_ms, self.begin_offset, self.end_offset, self.used_slots, self.next_entry
        )

    @classmethod
    def unpack(cls, raw: bytes) -> "IndexHeader":
        """Read a header; one never written is zeros, and its count means 1."""
        begin_ms, end_ms, begin, end, used, count = HEADER.unpack(raw.ljust(HEADER.size, b"\0"))
        return cls(begin_ms, end_ms, begin, end, used, count if count > 0 else 1)


def file_bytes(slots: int, entries: int) -> int:
    return HEADER.size + slots * SLOT.itemsize + entries * ENTRY.itemsize
