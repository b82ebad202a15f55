"""Opening a store: find the end of the log, and make queues and index say what the log says.

    the log           is read from a known boundary before the checkpoint to its end, and mended (`log_check.py`)
    our checkpoint    log and derived files are on disk and whole below it: they are made from it on; after a crash,
                      what they hold beyond it is dropped first, because it may be torn
    none of ours      a Java broker wrote here last: RocketMQ's rules, by store times and by what the queues hold
    derived files missing, cut or broken: they are filled again from the log, from where they end

Nothing is dropped silently: a torn tail is reported by its size, damaged bytes are copied to `corrupt/`.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rocketeer.clock import Clock
from rocketeer.model.offsets import LogOffset
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.skip import SkipFilter, Skipper
from rocketeer.store.boundaries import Boundaries
from rocketeer.store.checkpoint import Checkpoint
from rocketeer.store.checkpointing import VERIFY_BYTES
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.consume_queue import ConsumeQueue
from rocketeer.store.dispatch import Dispatch
from rocketeer.store.file_cache import delete_paths
from rocketeer.store.index import Index
from rocketeer.store.log_check import LogCheck, Lost
from rocketeer.store.log_scan import LogScan
from rocketeer.store.quarantine import QuarantinedBytes
from rocketeer.store.redo import RecoveryDispatch
from rocketeer.store.summary import Summary, last_indexed

log = logging.getLogger(__name__)

_INDEX_SLICE = 4096


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What opening the store found and did; `actions` are sentences for people, in order."""

    clean: bool
    log_min: LogOffset
    log_max: LogOffset
    scanned_from: LogOffset
    scanned_bytes: int
    redone_messages: int
    torn_bytes: int
    quarantined: tuple[QuarantinedBytes, ...]
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
    on_damage: Callable[[LogOffset], None] = lambda offset: None
    _actions: list[str] = field(default_factory=list, init=False)
    _copies: list[QuarantinedBytes] = field(default_factory=list, init=False)
    _torn_bytes: int = field(default=0, init=False)
    _redone: int = field(default=0, init=False)
    _scanned_bytes: int = field(default=0, init=False)
    _lost: dict[LogOffset, list[Lost]] = field(default_factory=dict, init=False)
    _lost_at_end: list[Lost] = field(default_factory=list, init=False)
    _damaged: LogOffset | None = field(default=None, init=False)
    verified_from: LogOffset = field(default=LogOffset(0), init=False)
    """A record boundary: the log was read from there on."""
    synced_below: LogOffset = field(default=LogOffset(0), init=False)
    """What the log has below it was synced by an earlier life."""

    def run(self) -> RecoveryReport:
        began_s = self.clock.monotonic_s()
        for mended in self.log.load():
            self._did(mended)
        problems = self.dispatch.queues.load()
        if not self.clean:
            self.dispatch.queues.note_names()
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
            "store recovered clean=%s log=[%d, %d) scanned_from=%d redone=%d torn_bytes=%d set_aside=%d seconds=%.3f",
            report.clean, report.log_min, report.log_max, report.scanned_from, report.redone_messages,
            report.torn_bytes, len(report.quarantined), report.seconds,
        )  # fmt: skip
        return report

    def _recover(self, problems: list[str]) -> LogOffset:
        """Make everything agree; the log offset from which records were read for it."""
        checkpoint = self.checkpoint.within(self.log.max_offset)
        sound_until = self._verify(checkpoint)
        if sound_until is None:
            queues_from = self._queues_from_by_rocketmq(problems)
            index_from = self._index_from_by_rocketmq(queues_from)
        else:
            queues_from = self._queues_from_checkpoint(sound_until, problems)
            index_from = self._index_from_checkpoint(sound_until)
        scan_from = max(min(queues_from, index_from), self.log.min_offset)
        if scan_from not in (sound_until, self.verified_from, checkpoint.index_offset):
            # Said by a queue or the index, which have no checksums: what is known is where its file begins.
            scan_from = LogOffset(scan_from - scan_from % self.log.segment_bytes)
        self._redo(scan_from)
        self._drop_beyond(self.log.max_offset)
        return scan_from

    # --- the log itself ----------------------------------------------------------------------

    def _verify(self, checkpoint: Checkpoint) -> LogOffset | None:
        """Mend the log and find its end. Returns up to where it and what is derived from it is sound: the
        checkpoint, or less if there is damage; None when no checkpoint speaks of this log."""
        noted = checkpoint.dispatched_offset
        if noted is not None and noted < self.log.min_offset:
            noted = None
        if noted is None:
            self.verified_from, self.synced_below = self._last_used_segment(), self.log.min_offset
        else:
            self.verified_from = self.synced_below = self._known_before(checkpoint, noted)
        check = self._new_check(() if noted is None or checkpoint.verify_from is None else (noted,))
        met = self.verified_from == noted
        skipper = Skipper(SkipFilter(), LogOffset(-1) if noted is None else noted)
        for entry in check.entries(
            self.verified_from, check_crc=self.check_crc, sure_below=noted or LogOffset(0), bulk=skipper
        ):
            met = met or entry.end == noted
        met = (
            met
            or skipper.passed_boundary
            or (check.first_damage is not None and check.first_damage <= (noted or 0))
        )
        if noted is not None and not met and check.position > noted:
            self._did(f"the checkpoint at {noted} is not of this log: ignored")
            noted = None
        check.find_end(check.position, check_crc=self.check_crc, sure_below=noted or LogOffset(0))
        self._take_over(check)
        if noted is None:
            return None
        return min(noted, self.log.max_offset, noted if check.first_damage is None else check.first_damage)

    def _known_before(self, checkpoint: Checkpoint, noted: LogOffset) -> LogOffset:
        """Where a record is known to begin: what the checkpoint says, else a file's start.

        Before it said so, checkpoints could be ahead of what was on disk: then more is read, and synced, once.
        """
        start = checkpoint.verify_from
        if start is None:
            near = max(noted - VERIFY_BYTES, 0)
            start = LogOffset(near - near % self.log.segment_bytes)
        return max(min(start, noted), self.log.min_offset)

    def _new_check(self, noted: Iterable[LogOffset]) -> LogCheck:
        boundaries = Boundaries(self.log, self.dispatch.queues, self.levels, noted)
        return LogCheck(
            self.log, self.levels, boundaries, self.corrupt_folder, self.clean, on_damage=self.on_damage
        )

    def _take_over(self, check: LogCheck) -> None:
        self._actions += check.actions
        self._copies += check.copies
        self._torn_bytes += check.torn_bytes
        self._scanned_bytes += check.scanned_bytes
        self._lost.update(check.lost)
        self._lost_at_end += check.lost_at_end
        self._damaged = self._damaged if check.first_damage is None else check.first_damage
        self.dispatch.last_store_ms = check.last_store_ms or self.dispatch.last_store_ms

    # --- with a checkpoint of ours -----------------------------------------------------------

    def _queues_from_checkpoint(self, sound_until: LogOffset, problems: list[str]) -> LogOffset:
        queues = self.dispatch.queues
        intact = sound_until == self.checkpoint.dispatched_offset
        whole = not problems and len(queues) > 0
        if not (self.clean and intact):
            if whole and self.summary is None:
                whole = all(self._leads_on(each, sound_until) for each in queues)
            dropped = queues.cut_to_log(sound_until)
            if dropped:
                self._did(
                    f"{dropped} queue entries beyond log offset {sound_until} dropped, to be made again"
                )
        if intact and self.summary is not None:
            whole = queues.offsets_sum() == self.summary.queue_offsets_sum
        if whole or sound_until <= self.log.min_offset:
            return sound_until
        why = f" ({problems[0]})" if problems else ""
        self._did(f"queues lack entries they had{why}: they are completed from the whole log")
        return self.log.min_offset

    def _leads_on(self, queue: ConsumeQueue, sound_until: LogOffset) -> bool:
        """Whether what is about to be dropped of a queue is made again from `sound_until` on.

        If its first entry leads to no record of that place, its message was lost with the end of the log; or a bit of
        the entry is flipped, and its message may lie anywhere.
        """
        found = queue.first_beyond(sound_until)
        if found is None:
            return True
        queue_offset, entry = found
        if not sound_until <= entry.log_offset < self.log.max_offset:
            return False
        record = next(
            LogScan(self.log, self.levels, entry.log_offset).entries(LogOffset(entry.log_offset + 1)), None
        )
        return record is not None and (record.topic, record.queue_id, record.queue_offset) == (
            queue.topic,
            queue.queue_id,
            queue_offset,
        )

    def _index_from_checkpoint(self, sound_until: LogOffset) -> LogOffset:
        index = self.dispatch.index
        if index is None:
            return sound_until
        recorded = self.checkpoint.index_offset
        safe = min(sound_until, recorded or LogOffset(0))
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

    def _index_incomplete(self, problems: list[str], last: LogOffset) -> LogOffset:
        why = problems[0] if problems else "no index files" if last < 0 else "files are missing"
        start = self._boundary(max(last, self.log.min_offset))
        self._did(f"the index is incomplete ({why}): it is filled from log offset {start} on")
        return start

    def _boundary(self, offset: LogOffset) -> LogOffset:
        """Where a record begins, at or before an offset that a derived file named: a bit of it may be flipped.

        There, if the record says so itself; else at the start of the file, which is one for sure.
        """
        base = max(segment.base for segment in self.log.segments if segment.base <= offset)
        scan = LogScan(self.log, self.levels, offset)
        return offset if next(scan.entries(LogOffset(offset + 1)), None) is not None else base

    # --- without one -------------------------------------------------------------------------

    def _queues_from_by_rocketmq(self, problems: list[str]) -> LogOffset:
        queues = self.dispatch.queues
        if problems or not len(queues):
            why = problems[0] if problems else "there are none"
            self._did(f"queues are completed from the whole log: {why}")
            return self.log.min_offset
        if self.clean and self._damaged is None:
            return min(queues.max_log_offset(), self.verified_from)
        start = self.verified_from if self.clean else min(self._first_unsure_segment(), self.verified_from)
        start = start if self._damaged is None else min(start, self._damaged)
        dropped = queues.cut_to_log(start)
        self._did(f"queues are made again from log offset {start} on, {dropped} entries dropped")
        return start

    def _first_unsure_segment(self) -> LogOffset:
        """The newest file whose first message is older than the checkpoint's times."""
        checkpoint = self.checkpoint
        limit_ms = checkpoint.recover_index_from_ms if self.index_safe else checkpoint.recover_from_ms
        for segment in reversed(self.log.segments):
            first = next(LogScan(self.log, self.levels, segment.base, check_crc=False).entries(), None)
            if first is not None and 0 < first.store_ms <= limit_ms:
                return segment.base
        return self.log.min_offset

    def _index_from_by_rocketmq(self, queues_from: LogOffset) -> LogOffset:
        index = self.dispatch.index
        if index is None:
            return queues_from
        problems = index.load(clean=self.clean, index_ms=self.checkpoint.index_ms)
        last = last_indexed(index)
        if last >= 0 and not problems:
            return queues_from if self.clean else self._boundary(last)
        return self._index_incomplete(problems, last)

    def _last_used_segment(self) -> LogOffset:
        for segment in reversed(self.log.segments):
            if any(segment.map_in()[:8]):
                return segment.base
        return self.log.min_offset

    # --- the walk ----------------------------------------------------------------------------

    def _redo(self, start: LogOffset) -> None:
        """Dispatch every record from `start` on; damage that is met only here, in old files, is mended, too."""
        redo = RecoveryDispatch(self.log, self.dispatch, self.levels, self.clock, self._lost, self._fill)
        check = self._new_check(())
        check_crc = self.check_crc and start < self.verified_from
        redo.walk(check, start, check_crc=check_crc)
        self._redone += redo.messages
        self._take_over(check)
        redo.finish(self._lost_at_end)
        if redo.rejected:
            self._did(f"{redo.rejected} messages lost: their headers are damaged")

    def _drop_beyond(self, end: LogOffset) -> None:
        """Drop what of derived files points past the end of the log."""
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
        """Remove everything derived from a log that is gone, as RocketMQ does."""
        queues = self.dispatch.queues
        topics = sorted(queues.topics())
        for topic in topics:
            queues.remove_topic(topic)
        if self.dispatch.index is not None:
            self.dispatch.index.remove()
        if topics:
            self._did(f"there is no commit log: the queues of {len(topics)} topics removed")

    def _did(self, action: str) -> None:
        log.warning("recovery: %s", action)
        self._actions.append(action)
