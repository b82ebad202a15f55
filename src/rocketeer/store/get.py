"""Reading a queue for a pull: entries -> filter by tag code -> slices of the log, adjacent records joined.

The statuses and next offsets are RocketMQ 4.9.8's, case by case: clients move their offsets by them.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

import msgspec

from rocketeer.config import BrokerRole, StoreConfig
from rocketeer.errors import LogUnreadable
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entry import DispatchEntry, entry_at
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.consume_queue_ext import is_address
from rocketeer.store.filtered import RecordTest, scan_run
from rocketeer.store.kernel import physical_memory_bytes
from rocketeer.store.large import COLD_BYTES_MAX, LARGE_BYTES_MAX, read_large
from rocketeer.store.queue_entries import entries_hold, gather_records, run_bounds
from rocketeer.store.queue_entry import BLANK_SIZE, ENTRY, ENTRY_BYTES
from rocketeer.store.queue_mending import QueueMending, leads_to
from rocketeer.store.read_queue import ReadQueue, ReadQueues

_SCAN_ENTRIES = 16_000 // ENTRY_BYTES  # looked at for one pull, however few match
SCAN_LARGE = 4096  # the same for a reader in bulk, or for whoever asks for many
_SCAN_TERMS = 8_000  # evaluated for one pull: with a long expression fewer entries are looked at


_BEGIN = QueueOffset(0)
NO_RECORD = LogOffset(-1)
"""In the place of a log offset: the message of that queue offset is lost, or was never there."""


class GetStatus(Enum):
    """RocketMQ's names; what the client is told follows from them.

    NO_MATCHED_LOGIC_QUEUE is never said, as 4.9 makes the queue on the spot.
    """

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


FOUND: Final = GetStatus.FOUND
"""For the hot path: each look-up in an enum's class costs as much as three calls."""


class Fetched(msgspec.Struct, gc=False):
    """What a pull gets: records as they stand in the log, and where to go on."""

    status: GetStatus
    next_offset: QueueOffset
    min_offset: QueueOffset
    max_offset: QueueOffset
    parts: Sequence[bytes | memoryview] = ()
    count: int = 0
    bytes: int = 0
    suggest_slave: bool = False


Accepts = Callable[[int], bool]


class QueueReader:
    """Serves pulls from queues and log. Belongs to the loop thread."""

    def __init__(self, config: StoreConfig, log: CommitLog, queues: ReadQueues, levels: DelayLevels) -> None:
        self._log = log
        self._levels = levels
        self._queue = queues.get
        self._per_file = queues.entries_per_file
        self._mending = QueueMending(log, levels)
        self.set_limits(config)
        # A slave that lags must not send consumers back: they keep their offset and ask again.
        self._keeps_offset = config.broker_role is BrokerRole.SLAVE and not config.offset_check_in_slave

    def set_limits(self, config: StoreConfig) -> None:
        """Set how much one pull gets, from now on."""
        self._in_memory_bytes = physical_memory_bytes() * config.memory_ratio // 100
        self._count_memory = config.pull_count_max_memory
        self._bytes_memory = config.pull_bytes_max_memory
        self._count_disk = config.pull_count_max_disk
        self._bytes_disk = config.pull_bytes_max_disk

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: QueueOffset,
        max_count: int,
        accepts: Accepts | None = None,
        matches: RecordTest | None = None,
        large_bytes: int | None = None,
    ) -> Fetched:
        """Messages from `offset` on: at most `max_count`, and as many bytes as a pull may carry (at least one).

        `accepts` sees tag codes, `matches` whole records. With `large_bytes` that is the limit, not the
        configured ones.
        """
        queue = self._queue(topic, queue_id)
        if queue is None or queue.max_offset == 0:
            return self._moved(GetStatus.NO_MESSAGE_IN_QUEUE, offset, _BEGIN, _BEGIN, _BEGIN)
        low, high = queue.min_offset, queue.max_offset
        if not low <= offset < high:
            if offset < low:
                return self._moved(GetStatus.OFFSET_TOO_SMALL, offset, low, low, high)
            if offset == high:
                return Fetched(GetStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
            return self._moved(GetStatus.OFFSET_OVERFLOW_BADLY, offset, high, low, high)
        if large_bytes is not None:
            return self._get_large(queue, offset, max_count, large_bytes, accepts, matches)
        if accepts is None and matches is None and max_count > 0:
            found = self._get_run(queue, offset, max_count)
            if found is not None:
                return found
        elif matches is not None and accepts is None and max_count > 0:
            found = self._get_filtered(queue, offset, max_count, matches)
            if found is not None:
                return found
        return self._scan(queue, offset, max_count, None, accepts, matches)

    def _moved(
        self, status: GetStatus, asked: QueueOffset, right: QueueOffset, low: QueueOffset, high: QueueOffset
    ) -> Fetched:
        return Fetched(status, asked if self._keeps_offset else right, low, high)

    def _get_run(self, queue: ReadQueue, offset: QueueOffset, max_count: int) -> Fetched | None:
        """The common case, everything in memory and wanted; None when a limit cuts in: the scan decides then."""
        count = max_count if max_count < self._count_memory else self._count_memory
        in_file = self._per_file - offset % self._per_file
        raw = queue.read(offset, count if count < in_file else in_file)
        count, rest = divmod(len(raw), ENTRY_BYTES)
        if not count or rest:
            return None
        first, end, total = run_bounds(raw)
        log = self._log
        if total > self._bytes_memory or log.max_offset - first > self._in_memory_bytes:
            return None
        try:
            window = log.read(first, end - first)
        except LogUnreadable:
            return None
        if window is None:
            return None
        if end - first == total:  # records do not overlap, so they are one run
            if not entries_hold(window, raw, first, offset, queue.queue_id):
                return None
            records: bytes | memoryview | None = window
        else:
            records = gather_records(window, raw, first, total, offset, queue.queue_id)
        if records is None:
            return None
        next_offset = QueueOffset(offset + count)
        return Fetched(FOUND, next_offset, queue.min_offset, queue.max_offset, (records,), count, total)

    def _get_filtered(
        self, queue: ReadQueue, offset: QueueOffset, max_count: int, matches: RecordTest
    ) -> Fetched | None:
        """Everything in memory and plain; None when it is not: the scan decides then."""
        entry = queue.entry(offset)
        if entry is None or self._log.max_offset - entry.log_offset > self._in_memory_bytes:
            return None
        count_max = min(max_count, self._count_memory)
        run = scan_run(queue, self._log, offset, count_max, self._bytes_memory, self._per_file, matches)
        if run is None:
            return None
        (looked_at, found), parts = run
        status = GetStatus.FOUND if found else GetStatus.NO_MATCHED_MESSAGE
        size = sum([size for _, size in found])
        low, high = queue.min_offset, queue.max_offset
        return Fetched(status, QueueOffset(offset + looked_at), low, high, parts, len(found), size)

    def _get_large(
        self,
        queue: ReadQueue,
        offset: QueueOffset,
        max_count: int,
        large_bytes: int,
        accepts: Accepts | None,
        matches: RecordTest | None,
    ) -> Fetched:
        limit = min(max(large_bytes, 0), LARGE_BYTES_MAX)
        entry = queue.entry(offset)
        is_cold = entry is not None and self._log.max_offset - entry.log_offset > self._in_memory_bytes
        if is_cold:
            limit = min(limit, COLD_BYTES_MAX)
        if accepts is None and matches is None and max_count > 0:
            found = read_large(queue, self._log, offset, max_count, limit)
            if found is not None:
                parts, count, size = found
                low, high = queue.min_offset, queue.max_offset
                return Fetched(
                    GetStatus.FOUND, QueueOffset(offset + count), low, high, parts, count, size, is_cold
                )
        return self._scan(queue, offset, max_count, limit, accepts, matches, large=True)

    def _scan(
        self,
        queue: ReadQueue,
        offset: QueueOffset,
        max_count: int,
        max_bytes: int | None,
        accepts: Accepts | None,
        matches: RecordTest | None,
        *,
        large: bool = False,
    ) -> Fetched:
        """RocketMQ's loop, entry by entry."""
        parts: list[memoryview] = []
        log = self._log
        in_file = self._per_file - offset % self._per_file
        entries_max = SCAN_LARGE if large else min(max(_SCAN_ENTRIES, max_count), SCAN_LARGE)
        if matches is not None:
            entries_max = min(entries_max, max(1, _SCAN_TERMS // matches.terms))
        raw = queue.read(offset, min(in_file, entries_max))
        result = Fetched(GetStatus.NO_MATCHED_MESSAGE, offset, queue.min_offset, queue.max_offset)
        if not raw:
            result.status = GetStatus.OFFSET_FOUND_NULL
            next_file = QueueOffset(offset + in_file)
            result.next_offset = offset if self._keeps_offset else next_file
            return result
        max_log_offset = log.max_offset
        skip_to = -1
        looked_at = 0
        log_offset = 0
        start, end = NO_RECORD, -1
        for log_offset, size, tag_code in ENTRY.iter_unpack(raw[: len(raw) // ENTRY_BYTES * ENTRY_BYTES]):
            if 0 <= log_offset < skip_to:
                looked_at += 1
                continue
            if self._is_full(result, size, max_count, max_bytes, max_log_offset - log_offset, large):
                break
            looked_at += 1
            if accepts is not None and not accepts(self._tag_code(tag_code, log_offset, size)):
                if not result.count:
                    result.status = GetStatus.NO_MATCHED_MESSAGE
                continue
            if matches is not None and is_address(tag_code):
                unit = queue.unit(tag_code)
                if unit is not None and not matches.may_match(unit):
                    continue  # the record, which may have to come from the disk, is not even looked at
            try:
                record = log.read(log_offset, size)
            except LogUnreadable:
                if not result.count:
                    raise
                looked_at -= 1  # what stands before it is given out; it is the next pull's
                break
            place = QueueOffset(offset + looked_at - 1)
            if record is None or not leads_to(record, log_offset, size, queue.queue_id, place):
                mended = self._mending.mend(queue, place)
                if mended is not None:
                    log_offset, size, tag_code = mended
                    record = log.read(log_offset, size)
                elif record is not None:  # bytes that are no message of this queue are nobody's to read
                    continue
            if record is None:
                if not result.count:
                    result.status = GetStatus.MESSAGE_WAS_REMOVING
                if size != BLANK_SIZE:  # a blank tells nothing of its neighbours
                    skip_to = log.next_segment_offset(log_offset)
                continue
            if matches is not None and not matches.matches(record):
                if not result.count:
                    result.status = GetStatus.NO_MATCHED_MESSAGE
                continue
            skip_to = -1
            result.status = GetStatus.FOUND
            result.count += 1
            result.bytes += size
            if log_offset == end:
                joined = log.read(start, log_offset + size - start)
                assert joined is not None
                parts[-1] = joined
            else:
                parts.append(record)
                start = log_offset
            end = log_offset + size
        result.parts = parts
        result.next_offset = QueueOffset(offset + looked_at)
        result.suggest_slave = max_log_offset - log_offset > self._in_memory_bytes
        return result

    def _is_full(
        self,
        result: Fetched,
        size: int,
        max_count: int,
        max_bytes: int | None,
        behind_bytes: int,
        large: bool,
    ) -> bool:
        if not result.count:
            return False
        if result.count >= max_count or (max_bytes is not None and result.bytes + size > max_bytes):
            return True
        if large:
            return False
        if behind_bytes > self._in_memory_bytes:
            return result.bytes + size > self._bytes_disk or result.count >= self._count_disk
        return result.bytes + size > self._bytes_memory or result.count >= self._count_memory

    def entries(
        self, topic: str, queue_id: int, offset: QueueOffset, max_count: int
    ) -> list[tuple[LogOffset, int, int]]:
        """(log offset, size, tag code) of a queue's entries from `offset` on; `NO_RECORD` for a place without one."""
        queue = self._queue(topic, queue_id)
        if queue is None:
            return []
        raw = queue.read(offset, max_count)
        found = ENTRY.iter_unpack(raw[: len(raw) // ENTRY_BYTES * ENTRY_BYTES])
        return [self._whole_entry(queue, QueueOffset(at), entry) for at, entry in enumerate(found, offset)]

    def _whole_entry(
        self, queue: ReadQueue, offset: QueueOffset, entry: tuple[LogOffset, int, int]
    ) -> tuple[LogOffset, int, int]:
        """The entry if it leads to its record, the mended one if not; `NO_RECORD` where there is none."""
        log_offset, size, tag_code = entry
        if size == BLANK_SIZE:
            return NO_RECORD, 0, 0
        if 0 <= log_offset < self._log.min_offset:
            return log_offset, size, tag_code  # it expired
        record = self._log.read(log_offset, size)
        if record is None or not leads_to(record, log_offset, size, queue.queue_id, offset):
            mended = self._mending.mend(queue, QueueOffset(offset))
            if mended is None:
                return NO_RECORD, 0, 0
            log_offset, size, tag_code = mended
        return log_offset, size, self._tag_code(tag_code, log_offset, size)

    def _tag_code(self, tag_code: int, log_offset: LogOffset, size: int) -> int:
        """A Java broker may have kept the tag code in its extension files: the record itself tells it too."""
        if not is_address(tag_code):
            return tag_code
        record = self._log.read(log_offset, size)
        entry = None if record is None else entry_at(record, 0, self._levels, check_crc=False)
        return entry.tag_code if isinstance(entry, DispatchEntry) else tag_code
