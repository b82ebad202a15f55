"""Checkpoint rounds: what the log had at one moment gets into the derived files, those to disk, then it is noted.

note the end of the log -> write out every queue with entries waiting -> fill the index up to there (slices
of the loop's time) -> wait until the disk has the log up to there -> write the index's slots, sync those files, save
the checkpoint (worker thread)
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass

from rocketeer.clock import Clock
from rocketeer.model.offsets import LogOffset
from rocketeer.store.checkpoint import Checkpoint
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.consume_queue import ConsumeQueue
from rocketeer.store.dispatch import Dispatch
from rocketeer.store.expiry_clock import ExpiryClock
from rocketeer.store.file_cache import SYNC_ALL_AT, sync_paths
from rocketeer.store.index_file import ChangedSlots
from rocketeer.store.kernel import SyncFailed, sync_fd, sync_file_system
from rocketeer.store.summary import SavedSummary, Summary, last_indexed
from rocketeer.store.sync_failure_latch import SyncFailureLatch
from rocketeer.store.worker import Worker

log = logging.getLogger(__name__)

ROUND_BYTES = 64 << 20  # of new log: a start after a crash reads little more than this
ROUND_BYTES_PER_QUEUE = 256 << 10  # with thousands of queues a round costs more, so it comes less often
SLICE_S = 0.002
_QUEUES_AT_ONCE = 64  # passed by before the time is looked at, of those with nothing to write
VERIFY_BYTES = 32 << 20  # of the log before the checkpoint, read again at every start
BOUNDARY_BYTES = 8 << 20  # of log between two boundaries that are remembered
PAUSE_S = 0.0005  # of the worker between two pieces of an index


@dataclass(frozen=True, slots=True)
class _Round:
    """What was true when the round began."""

    log_end: LogOffset
    store_ms: int
    queue_offsets_sum: int
    generation: int
    """Generation of the summary: queues that are deleted begin another one."""
    queues: Iterator[ConsumeQueue]


@dataclass(frozen=True, slots=True)
class _Job:
    """What is left of a round: it may run when the log below `log_end` is on disk."""

    log_end: LogOffset
    save: Callable[[], None]


class Checkpointer:
    """Belongs to the loop thread. `flushed` says up to where the log is on disk, `physic_ms` and `last_store_ms` tell
    store times of the log, `part_bytes` how many bytes at its end are not a whole record yet. `verify_from`: a record
    begins there."""

    def __init__(
        self,
        saved: SavedSummary,
        log: CommitLog,
        dispatch: Dispatch,
        worker: Worker,
        clock: Clock,
        *,
        sync_failure: SyncFailureLatch,
        flushed: Callable[[], LogOffset],
        flush_soon: Callable[[], None],
        physic_ms: Callable[[], int],
        last_store_ms: Callable[[], int],
        part_bytes: Callable[[], int],
        verify_from: LogOffset,
        expiry_clock: ExpiryClock,
        interval_ms: int,
        thorough_ms: int,
    ) -> None:
        self._saved = saved
        self._folder = -1
        self._log = log
        self._dispatch = dispatch
        self._worker = worker
        self._clock = clock
        self._sync_failure = sync_failure
        self._flushed = flushed
        self._flush_soon = flush_soon
        self._physic_ms = physic_ms
        self._last_store_ms = last_store_ms
        self._part_bytes = part_bytes
        self._interval_s = interval_ms / 1000
        self._thorough_s = thorough_ms / 1000
        self._round: _Round | None = None
        self._job: _Job | None = None
        self._saving: Future[bool] | None = None
        self._sync_all = False
        self._expiry_clock = expiry_clock
        self._noted = 0
        self._ends = deque([verify_from])
        """Record boundaries: the oldest is where the next start begins to read."""
        self._noted_generation = saved.generation
        self._began_s = 0.0

    def start(self) -> None:
        """After recovery: bring everything to disk and note it. A full disk costs only the note."""
        self._folder = os.open(self._saved.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._save_all()
        except OSError as error:
            log.error("checkpoint not saved error=%s", error)

    def close(self) -> None:
        """The log has ended: bring everything to disk and note it. Raises OSError when it cannot."""
        if self._saving is not None and not self._saving.result():
            self._not_saved()
        if self._job is not None:  # it holds what was taken from the index: that must not get lost
            job, self._job = self._job, None
            self._run(job)
        self._save_all()

    def close_folder(self) -> None:
        """Close the folder by which the file system is synced."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    @property
    def is_working(self) -> bool:
        """Whether a round is under way."""
        return self._round is not None or self._job is not None or self._saving is not None

    def tick(self) -> None:
        self._mark()
        if self._saving is not None:
            if not self._saving.done():
                return
            if not self._saving.result():
                self._not_saved()
            self._saving = None
        if self._sync_failure.error is not None:
            return
        if self._job is not None:
            self._submit(self._job)
            return
        if self._round is None:
            if not self._is_due():
                return
            self._begin()
        self._advance()

    def _is_due(self) -> bool:
        new_bytes = self._log.max_offset - self._part_bytes() - self._noted
        since_s = self._clock.monotonic_s() - self._began_s
        if since_s < self._interval_s:
            return False
        forgotten = self._noted_generation != self._saved.generation  # what is left is to be noted
        if forgotten or not new_bytes:
            return forgotten
        enough = max(ROUND_BYTES, ROUND_BYTES_PER_QUEUE * len(self._dispatch.queues))
        return new_bytes >= enough or since_s >= self._thorough_s

    def _mark(self) -> None:
        """Remember where records begin, now and then: a round may be hundreds of megabytes behind the one before."""
        end = LogOffset(self._log.max_offset - self._part_bytes())
        if end - self._ends[-1] >= BOUNDARY_BYTES:
            self._ends.append(end)

    def _begin(self) -> None:
        self._began_s = self._clock.monotonic_s()
        queues = self._dispatch.queues
        end = LogOffset(self._log.max_offset - self._part_bytes())
        if end > self._ends[-1]:
            self._ends.append(end)
        self._round = _Round(
            end,
            self._last_store_ms(),
            queues.offsets_sum(),
            self._saved.generation,
            queues.walk(),
        )

    def _advance(self) -> None:
        current = self._round
        assert current is not None
        until_s = self._clock.monotonic_s() + SLICE_S
        try:
            for passed, queue in enumerate(current.queues, 1):
                if queue.pending_bytes:
                    queue.write_out()
                elif passed % _QUEUES_AT_ONCE:
                    continue
                if self._clock.monotonic_s() >= until_s:
                    return
        except OSError as error:
            log.error("queues not written out error=%s", error)
            self._round = None
            return
        index = self._dispatch.index
        if index is not None and index.safe_offset(self._log.max_offset) < current.log_end:
            return  # the index is filled slice by slice elsewhere
        self._round = None
        self._submit(self._saving_job(current, pause_s=PAUSE_S))

    def _submit(self, job: _Job) -> None:
        """Hand the job to the worker, once the disk has the log that the checkpoint speaks of."""
        if self._flushed() < job.log_end:
            self._job = job
            self._flush_soon()
            return
        self._job = None
        self._saving = self._worker.submit("checkpoint", job.save)

    def _saving_job(self, current: _Round, *, pause_s: float) -> _Job:
        """Make a round's last job: it reads the loop's data now, and does all to the disk later."""
        dispatch = self._dispatch
        index = dispatch.index
        unsynced = dispatch.queues.files.take_unsynced()
        paths = unsynced or []
        index_ms, index_last, index_offset = 0, LogOffset(-1), None
        slots: list[ChangedSlots] = []
        if index is not None:
            slots, index_paths = index.take_unsynced()
            paths += index_paths
            index_ms, index_last = index.last_update[0], last_indexed(index)
            index_offset = index.safe_offset(self._log.max_offset)
        ends = self._ends
        while len(ends) > 1 and ends[1] <= current.log_end - VERIFY_BYTES:
            ends.popleft()
        note = Checkpoint(
            self._physic_ms(), current.store_ms, index_ms, current.log_end, index_offset, ends[0],
            self._expiry_clock.now_ms(),
        )  # fmt: skip
        extra = Summary(current.queue_offsets_sum, index_last)
        generation = current.generation
        sync_all, self._sync_all = self._sync_all or unsynced is None, False
        self._noted = current.log_end
        self._noted_generation = generation

        def save() -> None:
            for changed in slots:
                changed.write(pause_s=pause_s)
            self._sync_failure.raise_if_failed()
            try:
                if sync_all or len(paths) >= SYNC_ALL_AT:
                    sync_file_system(self._folder)
                else:
                    sync_paths(paths)
                self._sync_failure.raise_if_failed()
                fd = self._saved.write(note, extra, generation)
                try:
                    sync_fd(fd)
                finally:
                    os.close(fd)
            except SyncFailed as error:
                self._sync_failure.record("queues, index or checkpoint", error)
                raise

        return _Job(max(current.log_end, index_offset or LogOffset(0)), save)

    def _save_all(self) -> None:
        self._round = None
        dispatch = self._dispatch
        dispatch.queues.write_out()
        if dispatch.index is not None:
            while dispatch.index.flush_pending():
                pass
        self._begin()
        assert self._round is not None
        job = self._saving_job(self._round, pause_s=0.0)
        self._round = None
        self._run(job)

    def _run(self, job: _Job) -> None:
        try:
            if self._flushed() < job.log_end:
                raise OSError(f"the log is on disk up to {self._flushed()} only, not to {job.log_end}")
            job.save()
        except OSError:
            self._not_saved()
            raise

    def _not_saved(self) -> None:
        """After a failed save: have the next round sync everything, as it is unknown what reached the disk."""
        self._sync_all = True
        if self._dispatch.index is not None:
            self._dispatch.index.write_again()
