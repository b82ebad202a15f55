"""A queue entry that does not lead to its record (a bit on disk was flipped) is found again from the log, and mended.

So is the place of one that recovery had to leave blank. The records of the entries before and behind it are known,
and in the log its record stands between them:

    queue:   entry 6          entry 7, damaged           entry 8
    log:     record of 6 ...  other queues' records, and the record of 7 ...  record of 8
"""

import logging
from typing import Final

from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.layout import MAGIC, RECORD_PLACE
from rocketeer.record.topic_end import ends_topic
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.dispatch import TX_UNSEEN
from rocketeer.store.log_scan import LogScan
from rocketeer.store.queue_entry import QueueEntry
from rocketeer.store.read_queue import ReadQueue

log = logging.getLogger(__name__)

MEND_BYTES_MAX: Final = 4 << 20
"""Most of the log that is looked at for one entry: a pull must not hold the loop up for long."""


def leads_to(
    record: memoryview, log_offset: LogOffset, size: int, queue_id: int, queue_offset: QueueOffset
) -> bool:
    """Whether an entry's record says what the entry says."""
    told = (size, MAGIC, queue_id, queue_offset, log_offset)
    return len(record) >= RECORD_PLACE.size and RECORD_PLACE.unpack_from(record) == told


class QueueMending:
    """Repairs queue entries that do not lead to their record, by scanning the log. Belongs to the loop thread."""

    def __init__(self, commit_log: CommitLog, levels: DelayLevels) -> None:
        self._log = commit_log
        self._levels = levels

    def mend(self, queue: ReadQueue, offset: QueueOffset) -> QueueEntry | None:
        """The right entry, which the queue has now; None if its record cannot be found (it expired, or is lost)."""
        bounds = self._bounds(queue, offset)
        if bounds is None:
            return None
        entry = self._find(queue, offset, *bounds)
        if entry is not None:
            queue.put_right(offset, entry)
            log.error(
                "queue entry mended: it did not lead to its message topic=%s queue=%d offset=%d log_offset=%d",
                queue.topic, queue.queue_id, offset, entry.log_offset,
            )  # fmt: skip
        return entry

    def _find(
        self, queue: ReadQueue, offset: QueueOffset, start: LogOffset, stop: LogOffset
    ) -> QueueEntry | None:
        """Find the last such record: a topic that was deleted and made again had another message at this place."""
        entry: QueueEntry | None = None
        scan = LogScan(self._log, self._levels, start, check_crc=False)
        for found in scan.entries(min(stop, LogOffset(start + MEND_BYTES_MAX))):
            if found.topic != queue.topic:
                continue
            if ends_topic(found):
                entry = None
            elif (found.queue_id, found.queue_offset, found.sys_flag & TX_UNSEEN) == (
                queue.queue_id,
                offset,
                0,
            ):
                entry = QueueEntry(found.log_offset, found.size, found.tag_code)
        return entry

    def _bounds(self, queue: ReadQueue, offset: QueueOffset) -> tuple[LogOffset, LogOffset] | None:
        """Between which places of the log its record stands, the first of them a record's boundary."""
        before, behind = (
            self._sound(queue, QueueOffset(offset - 1)),
            self._sound(queue, QueueOffset(offset + 1)),
        )
        stop = self._log.max_offset if behind is None else behind.log_offset
        if before is not None:
            return LogOffset(before.log_offset + before.size), stop
        if behind is None:
            entry = queue.entry(offset)
            if entry is None or entry.is_blank or 0 <= entry.log_offset < self._log.min_offset:
                return None  # among messages that are lost, or have all expired: nothing to be mended
        # The first of its queue may be far away: as many whole files as one may look at.
        bases = [segment.base for segment in self._log.segments if segment.base <= stop]
        near = [base for base in bases if base >= stop - MEND_BYTES_MAX]
        return (near or bases[-1:])[0], stop

    def _sound(self, queue: ReadQueue, offset: QueueOffset) -> QueueEntry | None:
        entry = queue.entry(offset)
        if entry is None or entry.is_blank or entry.size <= 0:
            return None
        record = self._log.read(entry.log_offset, entry.size)
        if record is None or not leads_to(record, entry.log_offset, entry.size, queue.queue_id, offset):
            return None
        return entry
