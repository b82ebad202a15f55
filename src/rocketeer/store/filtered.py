"""Reading a queue through a filter on properties: many entries over one stretch of the log in one go.

For `QueueReader.get`; what is not plain (blanks, expired records, damaged entries, a border between two log files) is
left to its loop.
"""

from typing import Final, Protocol

from rocketeer.compiled import COMPILED
from rocketeer.errors import LogUnreadable
from rocketeer.filter.records import Scanned
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.consume_queue_ext import ExtUnit
from rocketeer.store.queue_entries import entries_hold
from rocketeer.store.queue_entry import ENTRY, ENTRY_BYTES
from rocketeer.store.read_queue import ReadQueue

SCAN_ENTRIES_MAX: Final = 8_192 if COMPILED else 1_024
"""Looked at for one pull, however few match. More than RocketMQ's 800: a selective filter costs few round trips.
A pull must not hold the loop up for more than a few milliseconds, though."""
SCAN_BYTES_MAX: Final = 16 << 20
"""Most of the log that is scanned: the loop must not be held up for long."""

_entry_at: Final = ENTRY.unpack_from


class RecordTest(Protocol):
    """What a pull asks of a filter on properties."""

    @property
    def terms(self) -> int:
        """How much there is to evaluate for one message."""
        ...

    def matches(self, record: memoryview) -> bool: ...

    def scan(
        self, entries: bytes, log: memoryview, base: LogOffset, count_max: int, bytes_max: int
    ) -> Scanned: ...

    def may_match(self, unit: ExtUnit) -> bool:
        """False when the unit beside a queue entry says that the message is not wanted."""
        ...


def scan_run(
    queue: ReadQueue,
    log: CommitLog,
    offset: QueueOffset,
    count_max: int,
    bytes_max: int,
    per_file: int,
    test: RecordTest,
) -> tuple[Scanned, list[memoryview]] | None:
    """What matches from `offset` on and its records, adjacent ones joined; None for what the general scan decides."""
    raw = queue.read(offset, min(per_file - offset % per_file, SCAN_ENTRIES_MAX))
    count = len(raw) // ENTRY_BYTES
    if not count or len(raw) % ENTRY_BYTES:
        return None
    first, size, _ = _entry_at(raw, 0)
    end_max = min(log.next_segment_offset(first), LogOffset(first + max(SCAN_BYTES_MAX, size)))
    count = _within(raw, count, first, end_max)
    last, size, _ = _entry_at(raw, (count - 1) * ENTRY_BYTES)
    raw = raw[: count * ENTRY_BYTES]
    try:
        window = log.read(first, last + size - first)
    except LogUnreadable:  # the general scan finds out how much of it can be read
        return None
    if window is None or not entries_hold(window, raw, first, offset, queue.queue_id):
        return None
    scanned = test.scan(raw, window, first, count_max, bytes_max)
    if not scanned.looked_at:
        return None
    return scanned, joined(scanned.found, window, first)


def _within(raw: bytes, count: int, first: LogOffset, end_max: LogOffset) -> int:
    """How many of the entries have their records in [first, end_max): log offsets only grow along a queue."""
    low, high = 1, count
    while low < high:
        middle = (low + high + 1) // 2
        log_offset, size, _ = _entry_at(raw, (middle - 1) * ENTRY_BYTES)
        if first <= log_offset and log_offset + size <= end_max:
            low = middle
        else:
            high = middle - 1
    return low


def joined(found: list[tuple[LogOffset, int]], window: memoryview, base: LogOffset) -> list[memoryview]:
    """The records as slices; neighbours in the log become one."""
    parts: list[memoryview] = []
    start = end = -1
    for log_offset, size in found:
        if log_offset != end:
            if end >= 0:
                parts.append(window[start - base : end - base])
            start = log_offset
        end = log_offset + size
    if end >= 0:
        parts.append(window[start - base : end - base])
    return parts
