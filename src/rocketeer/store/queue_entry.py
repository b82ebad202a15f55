"""The consume-queue entry: 20 bytes that say where a message stands in the log."""

from typing import Final, NamedTuple

import numpy as np

from rocketeer.model.offsets import LogOffset
from rocketeer.record.layout import QUEUE_ENTRY

ENTRY = QUEUE_ENTRY
ENTRY_BYTES = ENTRY.size
ENTRY_COLUMNS: Final = np.dtype([("log_offset", ">i8"), ("size", ">i4"), ("tag_code", ">i8")])
assert ENTRY_COLUMNS.itemsize == ENTRY_BYTES

BLANK_SIZE = 0x7FFFFFFF
BLANK = ENTRY.pack(0, BLANK_SIZE, 0)  # stands where a queue has no message, for example before its first one


class QueueEntry(NamedTuple):
    log_offset: LogOffset
    size: int
    tag_code: int

    @property
    def is_blank(self) -> bool:
        return self.size == BLANK_SIZE and self.log_offset == 0

    @property
    def is_written(self) -> bool:
        """RocketMQ's rule; zeros, as files are made, are not."""
        return self.log_offset >= 0 and self.size > 0


def rounded_file_bytes(configured: int) -> int:
    """mappedFileSizeConsumeQueue rounded up to whole entries, as RocketMQ does."""
    return max(1, -(-configured // ENTRY_BYTES)) * ENTRY_BYTES
