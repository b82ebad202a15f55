"""Reading much of a queue for one pull: for readers in bulk (Spark, consumers behind) that ask for more than
RocketMQ's caps."""

from typing import Final

import numpy as np

from rocketeer.errors import LogUnreadable
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.queue_entries import entries_hold
from rocketeer.store.queue_entry import BLANK_SIZE, ENTRY_BYTES, ENTRY_COLUMNS
from rocketeer.store.read_queue import ReadQueue

LARGE_BYTES_MAX: Final = 8 << 20
"""A frame has 16 MB at most; the loop must not be held up for long."""
COLD_BYTES_MAX: Final = 1 << 20
"""What is read in one go when it has to come from the disk."""
LARGE_ENTRIES_MAX: Final = 16_384


def read_large(
    queue: ReadQueue, log: CommitLog, offset: QueueOffset, count_max: int, bytes_max: int
) -> tuple[list[memoryview], int, int] | None:
    """(slices of the log, how many messages, how many bytes) from `offset` on, within one file of the log.

    None for what the general scan must decide: blanks, expired records, damaged entries, nothing there.
    """
    raw = queue.read(offset, min(count_max, LARGE_ENTRIES_MAX))
    entries = np.frombuffer(raw, ENTRY_COLUMNS, len(raw) // ENTRY_BYTES)
    if not len(entries):
        return None
    offsets = entries["log_offset"].astype(np.int64)
    sizes = entries["size"].astype(np.int64)
    first = LogOffset(int(offsets[0]))
    # Up to the byte limit and to the end of the segment; the first message comes however large it is.
    count = max(int(np.searchsorted(np.cumsum(sizes), bytes_max, side="right")), 1)
    file_end: LogOffset = log.next_segment_offset(first)
    in_segment = int(np.searchsorted(offsets[:count], file_end, side="left"))
    offsets, sizes = offsets[:in_segment], sizes[:in_segment]
    ends = offsets + sizes
    if not len(offsets) or int(sizes.max()) == BLANK_SIZE or (offsets[1:] < ends[:-1]).any():
        return None
    try:
        window = log.read(first, int(ends[-1]) - first)
    except LogUnreadable:  # the general scan finds out how much of it can be read
        return None
    if window is None or not entries_hold(
        window, raw[: len(offsets) * ENTRY_BYTES], first, offset, queue.queue_id
    ):
        return None
    # Neighbours in the log are one slice: a queue that is alone in its log goes out in one piece.
    breaks = np.flatnonzero(offsets[1:] != ends[:-1])
    begins = [0, *(offsets[breaks + 1] - first).tolist()]
    stops = [*(ends[breaks] - first).tolist(), int(ends[-1]) - first]
    parts = [window[begin:stop] for begin, stop in zip(begins, stops, strict=True)]
    return parts, len(offsets), int(sizes.sum())
