"""Recovery's second walk over the log: from records to queue entries and keys that the derived files lack.

Plain messages are dispatched in runs, as those that a slave copies (`log_bytes_dispatcher.py`). While a record waits
for the next of its queue, or the place of a lost one lies ahead, they are looked at one by one.
"""

import logging
from collections.abc import Callable, Iterable

from rocketeer.clock import Clock
from rocketeer.model.offsets import LogOffset
from rocketeer.record import filler
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.layout import Buffer
from rocketeer.record.topic_end import ends_topic
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.dispatch import Dispatch
from rocketeer.store.index import Index
from rocketeer.store.log_bytes_dispatcher import LogBytesDispatcher
from rocketeer.store.log_check import LogCheck, Lost
from rocketeer.store.log_scan import NO_STOP
from rocketeer.store.queue_gaps import QueueGaps

log = logging.getLogger(__name__)

RUN_MESSAGES = 4096
_PROGRESS_S = 5.0


class RecoveryDispatch:
    """One walk. `lost` are the messages that stood where fillers stand now, by the offset of the filler.

    `fill` writes what waits for the index; False if it cannot be written now.
    """

    def __init__(
        self,
        log: CommitLog,
        dispatch: Dispatch,
        levels: DelayLevels,
        clock: Clock,
        lost: dict[LogOffset, list[Lost]],
        fill: Callable[[Index], bool],
    ) -> None:
        self._log = log
        self._dispatch = dispatch
        self._log_bytes = LogBytesDispatcher(dispatch, levels)
        self._clock = clock
        self._lost = lost
        self._fill = fill
        self._gaps = QueueGaps()
        self._check: LogCheck | None = None
        self._index_due = RUN_MESSAGES
        self._began = 0
        self._logged_s = clock.monotonic_s()
        self._logged_messages = 0
        self.messages = 0
        """How many messages were dispatched."""

    @property
    def rejected(self) -> int:
        """Number of messages whose header was too damaged to be dispatched."""
        return self._gaps.rejected

    @property
    def last_store_ms(self) -> int:
        return self._dispatch.last_store_ms

    def walk(self, check: LogCheck, start: LogOffset, *, check_crc: bool) -> None:
        """Dispatch every record from `start` to the end of the log."""
        self._check = check
        self._began = start
        for entry in check.entries(start, check_crc=check_crc, sure_below=NO_STOP, bulk=self):
            self._dispatch_one(entry)

    def take(self, buf: Buffer, at: int, base: LogOffset, stop: LogOffset) -> int:
        """Dispatch a run of plain messages at `at`; where it ends in `buf`."""
        assert self._check is not None
        assert stop == NO_STOP, "this walk goes to the end"
        if self._lost or self._check.lost or self._gaps.is_waiting:
            return at
        end, taken = self._log_bytes.take(buf, at, base, RUN_MESSAGES)
        if taken:
            self._did(taken, LogOffset(base + end))
        return end

    def finish(self, lost_at_end: Iterable[Lost]) -> None:
        """End the walk; `lost_at_end` stood behind it."""
        self._skip_lost(NO_STOP, lost_at_end)
        self._gaps.finish()

    def _skip_lost(self, reached: LogOffset, more: Iterable[Lost] = ()) -> None:
        """What stood where fillers stand now keeps its place in its queue: it stays blank."""
        lost = list(more)
        for place in [place for place in self._lost if place <= reached]:
            lost += self._lost.pop(place)
        for key, queue_offset in sorted(lost):
            self._dispatch.queues.get_or_make(*key).skip(queue_offset)

    def _dispatch_one(self, entry: DispatchEntry) -> None:
        """Dispatch one record that was not handled in bulk."""
        assert self._check is not None
        if self._check.lost:
            self._lost.update(self._check.lost)
            self._check.lost.clear()
        if self._lost:
            self._skip_lost(entry.log_offset)
        if filler.is_filler(entry):
            return
        if ends_topic(entry):
            self._gaps.forget(entry.topic)
        self._dispatch.redo(entry, self._gaps.put)
        self._log_bytes.note_dispatched(entry)
        self._did(1, entry.end)

    def _did(self, messages: int, position: LogOffset) -> None:
        self.messages += messages
        index = self._dispatch.index
        if index is not None and index.pending_count >= self._index_due:
            self._index_due = RUN_MESSAGES if self._fill(index) else NO_STOP
        if self.messages - self._logged_messages >= 2 * RUN_MESSAGES:
            self._logged_messages = self.messages
            now_s = self._clock.monotonic_s()
            if now_s - self._logged_s >= _PROGRESS_S:
                self._logged_s = now_s
                log.info("store recovering read_mb=%d left_mb=%d", (position - self._began) >> 20,
                         (self._log.max_offset - position) >> 20)  # fmt: skip
