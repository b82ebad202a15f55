"""Reading a queue for a pull: entries -> filter by tag code -> slices of the log, adjacent records joined.

The statuses and next offsets are RocketMQ 4.9.8's, case by case: clients move their offsets by them.
"""

from collections.abc import Callable
from enum import Enum
from struct import Struct

import msgspec

from rocketeer.config import BrokerRole, StoreConfig
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entry import DispatchEntry, entry_at
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.consume_queue import BLANK_SIZE, ENTRY, ENTRY_BYTES, ConsumeQueue
from rocketeer.store.consume_queue_ext import is_address
from rocketeer.store.kernel import physical_memory_bytes
from rocketeer.store.queue_table import QueueTable

_SCAN_ENTRIES = 16_000 // ENTRY_BYTES  # looked at for one pull, however few match
_AT_ONCE = 64
# Entries of a pull unpacked in one call: log offset, size, tag code, log offset, ...
_MANY = tuple(Struct(">" + "qiq" * count) for count in range(_AT_ONCE + 1))


class GetStatus(Enum):
    """RocketMQ's names; what the client is told follows from them."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class Fetched(msgspec.Struct):
    """What a pull gets: records as they stand in the log, and where to go on."""

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    parts: list[memoryview] = []
    count: int = 0
    bytes: int = 0
    suggest_slave: bool = False


Accepts = Callable[[int], bool]
Matches = Callable[[memoryview], bool]


class Reader:
    """Serves pulls from queues and log. Belongs to the loop thread."""

    def __init__(self, config: StoreConfig, log: CommitLog, queues: QueueTable, levels: DelayLevels) -> None:
        self._log = log
        self._queues = queues
        self._levels = levels
        self._by_key = queues.by_key
        self._in_memory_bytes = physical_memory_bytes() * config.memory_ratio // 100
        self._count_memory = config.pull_count_max_memory
        self._run_max = min(config.pull_count_max_memory, _AT_ONCE)
        self._bytes_memory = config.pull_bytes_max_memory
        self._count_disk = config.pull_count_max_disk
        self._bytes_disk = config.pull_bytes_max_disk
        # A slave that lags must not send consumers back: they keep their offset and ask again.
        self._keeps_offset = config.broker_role is BrokerRole.SLAVE and not config.offset_check_in_slave

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int | None = None,
        accepts: Accepts | None = None,
        matches: Matches | None = None,
    ) -> Fetched:
        """Messages from `offset` on: at most `max_count`, and as many bytes as a pull may carry (at least one).

        `accepts` sees tag codes, `matches` (for filters on properties) whole records.
        """
        queue = self._by_key.get((topic, queue_id))
        # RocketMQ 4.9 makes the queue on the spot and so never says NO_MATCHED_LOGIC_QUEUE.
        if queue is None or queue.max_offset == 0:
            return self._moved(GetStatus.NO_MESSAGE_IN_QUEUE, offset, 0, 0, 0)
        low, high = queue.min_offset, queue.max_offset
        if not low <= offset < high:
            if offset < low:
                return self._moved(GetStatus.OFFSET_TOO_SMALL, offset, low, low, high)
            if offset == high:
                return Fetched(GetStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
            return self._moved(GetStatus.OFFSET_OVERFLOW_BADLY, offset, high, low, high)
        if accepts is None and matches is None and max_count > 0:
            found = self._get_run(queue, offset, max_count, max_bytes)
            if found is not None:
                return found
        return self._scan(queue, offset, max_count, max_bytes, accepts, matches)

    def _moved(self, status: GetStatus, asked: int, right: int, low: int, high: int) -> Fetched:
        return Fetched(status, asked if self._keeps_offset else right, low, high)

    def _get_run(
        self, queue: ConsumeQueue, offset: int, max_count: int, max_bytes: int | None
    ) -> Fetched | None:
        """The common case, everything in memory and wanted; None when a limit cuts in: the scan decides then."""
        count_max = self._run_max
        if max_count < count_max:
            count_max = max_count
        elif max_count > count_max < self._count_memory:
            return None
        in_file = self._queues.entries_per_file - offset % self._queues.entries_per_file
        raw = queue.read(offset, count_max if count_max < in_file else in_file)
        count = len(raw) // ENTRY_BYTES
        if not count or len(raw) % ENTRY_BYTES:
            return None
        fields = _MANY[count].unpack(raw)
        offsets, sizes = fields[::3], fields[1::3]
        total = sum(sizes)
        log = self._log
        first = offsets[0]
        last = offsets[-1]
        if (
            total > self._bytes_memory
            or (max_bytes is not None and total > max_bytes)
            or log.max_offset - first > self._in_memory_bytes
        ):
            return None
        end = last + sizes[-1]
        window = log.read(first, end - first)
        if window is None:
            return None
        if end - first == total:  # records do not overlap, so they are one run
            parts = [window]
        else:
            parts = [window[at - first : at - first + size] for at, size in zip(offsets, sizes, strict=True)]
        return Fetched(
            GetStatus.FOUND, offset + count, queue.min_offset, queue.max_offset, parts, count, total, False
        )

    def _scan(
        self,
        queue: ConsumeQueue,
        offset: int,
        max_count: int,
        max_bytes: int | None,
        accepts: Accepts | None,
        matches: Matches | None,
    ) -> Fetched:
        """RocketMQ's loop, entry by entry."""
        log = self._log
        in_file = self._queues.entries_per_file - offset % self._queues.entries_per_file
        raw = queue.read(offset, min(in_file, max(_SCAN_ENTRIES, max_count)))
        result = Fetched(GetStatus.NO_MATCHED_MESSAGE, offset, queue.min_offset, queue.max_offset, [])
        if not raw:
            per_file = self._queues.entries_per_file
            result.status = GetStatus.OFFSET_FOUND_NULL
            result.next_offset = offset if self._keeps_offset else offset + per_file - offset % per_file
            return result
        max_log_offset = log.max_offset
        skip_to = -1
        looked_at = 0
        log_offset = 0
        start = end = -1
        for log_offset, size, tag_code in ENTRY.iter_unpack(raw[: len(raw) // ENTRY_BYTES * ENTRY_BYTES]):
            if log_offset < skip_to:
                looked_at += 1
                continue
            if self._is_full(result, size, max_count, max_bytes, max_log_offset - log_offset):
                break
            looked_at += 1
            if accepts is not None and not accepts(self._tag_code(tag_code, log_offset, size)):
                if not result.count:
                    result.status = GetStatus.NO_MATCHED_MESSAGE
                continue
            record = log.read(log_offset, size)
            if record is None:
                if not result.count:
                    result.status = GetStatus.MESSAGE_WAS_REMOVING
                if size != BLANK_SIZE:  # a blank tells nothing of its neighbours
                    skip_to = log.next_segment_offset(log_offset)
                continue
            if matches is not None and not matches(record):
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
                result.parts[-1] = joined
            else:
                result.parts.append(record)
                start = log_offset
            end = log_offset + size
        result.next_offset = offset + looked_at
        result.suggest_slave = max_log_offset - log_offset > self._in_memory_bytes
        return result

    def _is_full(
        self, result: Fetched, size: int, max_count: int, max_bytes: int | None, behind_bytes: int
    ) -> bool:
        if not result.count:
            return False
        if result.count >= max_count or (max_bytes is not None and result.bytes + size > max_bytes):
            return True
        if behind_bytes > self._in_memory_bytes:
            return result.bytes + size > self._bytes_disk or result.count >= self._count_disk
        return result.bytes + size > self._bytes_memory or result.count >= self._count_memory

    def entries(self, topic: str, queue_id: int, offset: int, max_count: int) -> list[tuple[int, int, int]]:
        """(log offset, size, tag code) of a queue's entries from `offset` on."""
        queue = self._by_key.get((topic, queue_id))
        if queue is None:
            return []
        raw = queue.read(offset, max_count)
        return [
            (log_offset, size, self._tag_code(tag_code, log_offset, size))
            for log_offset, size, tag_code in ENTRY.iter_unpack(raw[: len(raw) // ENTRY_BYTES * ENTRY_BYTES])
        ]

    def _tag_code(self, tag_code: int, log_offset: int, size: int) -> int:
        """A Java broker may have kept the tag code in its extension files: the record itself tells it too."""
        if not is_address(tag_code):
            return tag_code
        record = self._log.read(log_offset, size)
        entry = None if record is None else entry_at(record, 0, self._levels, check_crc=False)
        return entry.tag_code if isinstance(entry, DispatchEntry) else tag_code
