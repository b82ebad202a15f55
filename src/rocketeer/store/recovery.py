"""Opening a store: find the end of the log, and make queues and index say what the log says.

    our checkpoint    derived files are whole below it: the log is verified just before it and read from it on;
                      after a crash, what they hold beyond it is dropped first, because it may be torn
    none of ours      a Java broker wrote here last: RocketMQ's rules, by store times and by what the queues hold
    derived files missing, cut or broken: they are filled again from the log, from where they end

Records are only ever dropped in the open: a torn tail is reported by its size, and bytes with whole records
behind damaged ones are copied to `corrupt/` before the log is cut.
"""

import logging
from dataclasses import dataclass, field
from pathlib import Path

from rocketeer.clock import Clock
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.store.checkpoint import Checkpoint
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.dispatch import Dispatch
from rocketeer.store.file_cache import delete_paths
from rocketeer.store.index import Index
from rocketeer.store.log_scan import LogScan
from rocketeer.store.quarantine import QuarantinedBytes, quarantine
from rocketeer.store.summary import Summary, last_indexed

log = logging.getLogger(__name__)

VERIFY_BYTES = 32 << 20  # of the log before the checkpoint, read again at every start
_PROGRESS_S = 5.0
_PROGRESS_MESSAGES = 8192
_INDEX_SLICE = 4096


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What opening the store found and did; `actions` are sentences for people, in order."""

    clean: bool
    log_min: int
    log_max: int
    scanned_from: int
    scanned_bytes: int
    redone_messages: int
    torn_bytes: int
    set_aside: tuple[QuarantinedBytes, ...]
    actions: tuple[str, ...]
    seconds: float

    @property
    def after_crash(self) -> bool:
        return not self.clean


@dataclass
class Recovery:
    """One run over one store, whose parts have been made and not yet loaded."""

    log: CommitLog
    dispatch: Dispatch
    levels: DelayLevels
    clock: Clock
    clean: bool
    checkpoint: Checkpoint
    summary: Summary | None
    corrupt_folder: Path
    check_crc: bool = True
    index_safe: bool = False
    last_store_ms: int = 0
    _actions: list[str] = field(default_factory=list, init=False)
    _copies: list[QuarantinedBytes] = field(default_factory=list, init=False)
    _torn_bytes: int = field(default=0, init=False)
    _redone: int = field(default=0, init=False)
    _scanned_bytes: int = field(default=0, init=False)

    def run(self) -> RecoveryReport:
        began_s = self.clock.monotonic_s()
        for mended in self.log.load():
            self._did(mended)
        problems = self.dispatch.queues.load()
        scan_from = self.log.min_offset
        if self.log.segments:
            scan_from = self._recover(problems)
        else:
            self._start_empty()
        delete_paths(self.dispatch.queues.raise_min(self.log.min_offset))
        seconds = self.clock.monotonic_s() - began_s
        report = RecoveryReport(
            self.clean,
            self.log.min_offset,
            self.log.max_offset,
            scan_from,
            self._scanned_bytes,
            self._redone,
            self._torn_bytes,
            tuple(self._copies),
            tuple(self._actions),
            seconds,
        )
        log.info(
            "store recovered clean=%s log=[%d, %d) scanned_from=%d redone=%d seconds=%.3f",
            report.clean, report.log_min, report.log_max, scan_from, report.redone_messages, seconds,
        )  # fmt: skip
        return report

    def _recover(self, problems: list[str]) -> int:
        """Make everything agree; the log offset from which records were read for it."""
        sound_until = self._verify(self.checkpoint.within(self.log.max_offset))
        if sound_until is None:
            queues_from = self._queues_from_by_rocketmq(problems)
            index_from = self._index_from_by_rocketmq(queues_from)
            end_from = self._last_used_segment()
        else:
            queues_from = self._queues_from_checkpoint(sound_until, problems)
            index_from = self._index_from_checkpoint(sound_until)
            end_from = sound_until
        scan_from = max(min(queues_from, index_from, end_from), self.log.min_offset)
        end = self._redo(scan_from)
        self._drop_beyond(end)
        return scan_from

    # --- with a checkpoint of ours -----------------------------------------------------------

    def _verify(self, checkpoint: Checkpoint) -> int | None:
        """Up to where the log before the checkpoint is sound: the checkpoint, or less if there is damage.

        None when the checkpoint says nothing about this log.
        """
        offset = checkpoint.dispatched_offset
        if offset is None or offset < self.log.min_offset:
            return None
        start = max(offset - VERIFY_BYTES, self.log.min_offset)
        if start > self.log.min_offset:
            found = LogScan(self.log, self.levels, start).first_record_from(start)
            start = offset if found is None else min(found, offset)
        scan = LogScan(self.log, self.levels, start, check_crc=self.check_crc)
        for _ in scan.entries(offset):
            pass
        self._scanned_bytes += scan.position - start
        if scan.last is not None:
            self.last_store_ms = scan.last.store_ms
        if scan.position > offset:
            self._did(f"the checkpoint at {offset} is not of this log: ignored")
            return None
        return min(offset, scan.position)

    def _queues_from_checkpoint(self, sound_until: int, problems: list[str]) -> int:
        queues = self.dispatch.queues
        intact = sound_until == self.checkpoint.dispatched_offset
        if not (self.clean and intact):
            dropped = queues.cut_to_log(sound_until)
            if dropped:
                self._did(
                    f"{dropped} queue entries beyond log offset {sound_until} dropped, to be made again"
                )
        if intact and self.summary is not None:
            whole = queues.offsets_sum() == self.summary.queue_offsets_sum
        else:
            whole = not problems and bool(queues.by_key)
        if whole or sound_until <= self.log.min_offset:
            return sound_until
        why = f" ({problems[0]})" if problems else ""
        self._did(f"queues lack entries they had{why}: they are completed from the whole log")
        return self.log.min_offset

    def _index_from_checkpoint(self, sound_until: int) -> int:
        index = self.dispatch.index
        if index is None:
            return sound_until
        recorded = self.checkpoint.index_offset
        safe = min(sound_until, recorded or 0)
        intact = sound_until == self.checkpoint.dispatched_offset
        problems = index.load(clean=self.clean and intact and recorded is not None, safe_offset=safe)
        last = last_indexed(index)
        if recorded is None:
            whole = False
        elif intact and self.summary is not None:
            whole = last == self.summary.index_last_offset
        else:
            whole = last >= 0
        if (whole and not problems) or safe <= self.log.min_offset:
            return safe
        return self._index_incomplete(problems, last)

    def _index_incomplete(self, problems: list[str], last: int) -> int:
        why = problems[0] if problems else "no index files" if last < 0 else "files are missing"
        start = max(last, self.log.min_offset)
        self._did(f"the index is incomplete ({why}): it is filled from log offset {start} on")
        return start

    # --- without one -------------------------------------------------------------------------

    def _queues_from_by_rocketmq(self, problems: list[str]) -> int:
        queues = self.dispatch.queues
        if problems or not queues.by_key:
            why = problems[0] if problems else "there are none"
            self._did(f"queues are completed from the whole log: {why}")
            return self.log.min_offset
        if self.clean:
            return queues.max_log_offset()
        start = self._first_unsure_segment()
        dropped = queues.cut_to_log(start)
        self._did(f"queues are made again from log offset {start} on, {dropped} entries dropped")
        return start

    def _first_unsure_segment(self) -> int:
        """The newest file whose first message is older than the checkpoint's times."""
        checkpoint = self.checkpoint
        limit_ms = checkpoint.recover_index_from_ms if self.index_safe else checkpoint.recover_from_ms
        for segment in reversed(self.log.segments):
            first = next(LogScan(self.log, self.levels, segment.base, check_crc=False).entries(), None)
            if first is not None and 0 < first.store_ms <= limit_ms:
                return segment.base
        return self.log.min_offset

    def _index_from_by_rocketmq(self, queues_from: int) -> int:
        index = self.dispatch.index
        if index is None:
            return queues_from
        problems = index.load(clean=self.clean, index_ms=self.checkpoint.index_ms)
        last = last_indexed(index)
        if last >= 0 and not problems:
            return queues_from if self.clean else last
        return self._index_incomplete(problems, last)

    def _last_used_segment(self) -> int:
        for segment in reversed(self.log.segments):
            if any(segment.map_in()[:8]):
                return segment.base
        return self.log.min_offset

    # --- the walk ----------------------------------------------------------------------------

    def _redo(self, start: int) -> int:
        """Dispatch every record from `start` on; where the log ends. Cuts off what is behind."""
        scan = LogScan(self.log, self.levels, start, check_crc=self.check_crc)
        redo = self.dispatch.redo
        index = self.dispatch.index
        index_due = _INDEX_SLICE
        told_s = self.clock.monotonic_s()
        for entry in scan.entries():
            redo(entry)
            self._redone += 1
            if index is not None and index.pending_count >= index_due:
                index_due = _INDEX_SLICE if self._fill(index) else 1 << 62
            if self._redone % _PROGRESS_MESSAGES == 0 and self.clock.monotonic_s() - told_s >= _PROGRESS_S:
                told_s = self.clock.monotonic_s()
                read = scan.position - start
                log.info("store recovering read_mb=%d left_mb_max=%d", read >> 20,
                         (self.log.max_offset - scan.position) >> 20)  # fmt: skip
        self._scanned_bytes += scan.position - start
        end = scan.position
        if scan.last is not None:
            self.last_store_ms = scan.last.store_ms
            if not self.clean and scan.last_lacks_pages():
                end = scan.last.log_offset
                self._did(f"the record at {end} lost its last page: dropped")
        self._cut(scan, end)
        return end

    def _cut(self, scan: LogScan, end: int) -> None:
        follower = scan.valid_record_after(scan.position)
        if follower is not None:
            self._copies = quarantine(self.log, end, self.corrupt_folder)
            size = sum(copy.size for copy in self._copies)
            self._did(
                f"the log is damaged at {end} ({scan.problem or 'zeros'}) and has whole records from {follower} "
                f"on: {size} bytes set aside in {self.corrupt_folder}, the log now ends at {end}"
            )
        gone = self.log.cut_to(end)
        if gone and follower is None:
            self._torn_bytes = gone
            self._did(f"torn tail at {end} ({scan.problem or 'not zero'}): {gone} bytes cut")

    def _drop_beyond(self, end: int) -> None:
        """Derived files must not point past the end of the log."""
        dropped = self.dispatch.queues.drop_beyond(end)
        if dropped:
            self._did(f"{dropped} queue entries beyond the end of the log dropped")
        if self.dispatch.index is not None and self._fill(self.dispatch.index):
            dropped = self.dispatch.index.cut_to_log(end)
            if dropped:
                self._did(f"{dropped} index entries beyond the end of the log dropped")

    def _fill(self, index: Index) -> bool:
        """Write what waits for the index; False if the disk is full (it goes on waiting, in memory)."""
        try:
            while index.flush_pending(_INDEX_SLICE):
                pass
        except OSError as error:
            self._did(
                f"the index cannot be written now ({error}): {index.pending_count} messages wait for it"
            )
            return False
        return True

    def _start_empty(self) -> None:
        """A log that is gone takes everything derived from it along, as in RocketMQ."""
        queues = self.dispatch.queues
        topics = sorted({topic for topic, _ in queues.by_key})
        for topic in topics:
            queues.remove_topic(topic)
        if self.dispatch.index is not None:
            self.dispatch.index.remove()
        if topics:
            self._did(f"there is no commit log: the queues of {len(topics)} topics removed")

    def _did(self, action: str) -> None:
        log.warning("recovery: %s", action)
        self._actions.append(action)
