"""Where records are known to begin: the only places at which reading goes on behind damaged bytes.

    a segment's start          true of every log
    a queue entry              written by us for one message: it begins there, and the next one behind it
    a checkpoint's offsets     written by us when the log ended there

Message bodies are written by strangers: bytes that merely look like a record are never taken for one. What is known
is confirmed by the record that stands there.
"""

from collections.abc import Iterable, Iterator
from heapq import merge

from rocketeer.errors import BadRecord
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.record import filler
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entry import Blank, DispatchEntry, entry_at
from rocketeer.record.layout import HEAD
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.consume_queue import ConsumeQueue
from rocketeer.store.queue_table import QueueTable


class Boundaries:
    """Offsets at which records are known to begin. Owned by recovery, later by the loop thread."""

    def __init__(
        self, log: CommitLog, queues: QueueTable, levels: DelayLevels, noted: Iterable[LogOffset] = ()
    ) -> None:
        """`noted` are the offsets of a checkpoint: the log was on disk up to there, whole."""
        self._log = log
        self._queues = queues
        self._levels = levels
        self._noted = sorted(noted)

    def next_after(self, damaged: LogOffset) -> LogOffset | None:
        """Where the log is known to go on behind the bytes at `damaged`, which are no record; None if it is not."""
        segment_end = self._log.next_segment_offset(damaged)
        least = damaged + filler.BYTES_MIN
        known = merge(self._noted, self._from_queues(damaged, segment_end))
        before = -1
        for place in known:
            if place >= segment_end:
                break
            if place >= least and place != before and self._is_confirmed(place):
                return place
            before = place
        return segment_end if self._is_used(segment_end) else None

    def lost_between(self, start: LogOffset, end: LogOffset) -> list[tuple[tuple[str, int], QueueOffset]]:
        """Which messages stood there, as far as queues know: (topic and queue id, queue offset)."""
        return [
            ((queue.topic, queue.queue_id), queue_offset)
            for queue in self._queues
            if queue.may_reach(start)
            for queue_offset, entry in queue.beyond(start)
            if start <= entry.log_offset < end
        ]

    def _from_queues(self, damaged: LogOffset, segment_end: LogOffset) -> Iterator[LogOffset]:
        def places(queue: ConsumeQueue) -> Iterator[LogOffset]:
            for _, entry in queue.beyond(damaged):
                if entry.log_offset >= segment_end:
                    return
                yield entry.log_offset
                yield LogOffset(entry.log_offset + entry.size)

        return merge(*[places(queue) for queue in self._queues if queue.may_reach(damaged)])

    def _is_confirmed(self, place: LogOffset) -> bool:
        segment = self._log.segment_of(place)
        if segment is None:
            return False
        at = place - segment.base
        size = int.from_bytes(segment.copy(at, min(at + 4, segment.size)), "big", signed=True)
        view = segment.readable(at, max(size, HEAD.size))
        try:
            entry = entry_at(view, at, self._levels, check_crc=True)
        except BadRecord:
            return False
        if entry is None:  # the end of the log, if it is known that there was one
            return place in self._noted
        if isinstance(entry, Blank):
            return entry.size == segment.size - at
        return isinstance(entry, DispatchEntry) and entry.log_offset == place

    def _is_used(self, base: LogOffset) -> bool:
        segment = self._log.segment_of(base)
        return segment is not None and (any(segment.copy(0, HEAD.size)) or segment.used_until(0) > 0)
