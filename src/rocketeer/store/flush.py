"""Makes the log durable: one thread, one sync for everybody who waits (group commit).

loop:    append ... wait(offset, callback) ... wait ...        callbacks run here, through `post`
thread:             sync [flushed, end of log) ---------------> post, sync the next run ...
"""

import errno
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread

from rocketeer.answers import AnswersInOrder
from rocketeer.clock import Clock
from rocketeer.config import FlushMode, StoreConfig
from rocketeer.model.offsets import LogOffset
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.kernel import SyncFailed
from rocketeer.store.scheduling import use_batch_scheduling
from rocketeer.store.segment import Segment
from rocketeer.store.sync_failure_latch import SyncFailureLatch

log = logging.getLogger(__name__)

# The system is short of something; the disk has not failed, and nothing was lost.
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)

PIECE_BYTES = 1 << 20
PAGE_BYTES = 4096

Callback = Callable[[bool], None]
Post = Callable[[Callable[[], None]], None]


@dataclass(frozen=True, slots=True)
class FlushRules:
    """When the log is synced while nobody waits for it, and how long somebody waits at most."""

    interval_s: float
    least_bytes: int
    """Fewer new bytes than these wait until `thorough_s` are over."""
    thorough_s: float
    timed: bool
    """Looked at every `interval_s` only; otherwise also as soon as there are `least_bytes`."""
    timeout_s: float

    @classmethod
    def of(cls, config: StoreConfig) -> "FlushRules":
        least_pages = 0 if config.flush_mode is FlushMode.SYNC_FLUSH else config.flush_least_pages
        return cls(
            config.flush_interval_ms / 1000,
            least_pages * PAGE_BYTES,
            config.flush_thorough_ms / 1000,
            config.flush_timed,
            config.sync_flush_timeout_ms / 1000,
        )


class Flusher:
    """Everything below `flushed` is on disk. All methods but `_run` belong to the loop thread."""

    def __init__(
        self,
        commit_log: CommitLog,
        *,
        clock: Clock,
        post: Post,
        rules: FlushRules,
        last_store_ms: Callable[[], int],
        sync_failure: SyncFailureLatch,
    ) -> None:
        self._log = commit_log
        self._clock = clock
        self._post = post
        self.rules = rules
        """They may be replaced at any time."""
        self._last_store_ms = last_store_ms
        self._sync_failure = sync_failure
        self._waiters: deque[tuple[int, float, Callback]] = deque()
        sync_failure.listeners.append(lambda error: self._drop_waiters(len(self._waiters)))
        self._wake = Event()
        self._answers = AnswersInOrder(self._answer_next, post)
        self._asked = False  # the thread will look at the log again without being woken
        self._all_asked = False  # and sync it, however little is new
        self._synced_s = clock.monotonic_s()
        self._running = True
        self._thread: Thread | None = None
        self.flushed = LogOffset(0)
        self.physic_ms = 0
        """Store time of the last message known to be on disk, for the checkpoint."""

    @property
    def waiting(self) -> int:
        """How many wait for the disk."""
        return len(self._waiters)

    def sync_from(self, flushed: LogOffset, physic_ms: int) -> None:
        """Take over what is known to be on disk, and sync the rest; before `start`."""
        self.flushed, self.physic_ms = flushed, physic_ms
        self.sync()

    def start(self) -> None:
        self._thread = Thread(target=self._run, name="rocketeer-log-flusher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Make all of the log durable and answer everybody who waits. No append may follow."""
        self._running = False
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self.sync()
        self._answers.finish()
        self._drop_waiters(len(self._waiters))

    def wait(self, log_offset: LogOffset, callback: Callback) -> None:
        """Call back with True once the log below `log_offset` is durable, with False after the time-out.

        A callback that fails is the caller's bug; it is not called at once unless there is nothing to wait for.
        """
        if log_offset <= self.flushed:
            callback(True)
            return
        if self._sync_failure.error is not None:
            callback(False)
            return
        self._waiters.append((log_offset, self._clock.monotonic_s() + self.rules.timeout_s, callback))
        if not self._asked:
            self._asked = True
            self._wake.set()

    def flush_soon(self) -> None:
        """Sync soon: somebody wants the end of the log on disk, and looks at `flushed` himself."""
        self._all_asked = True
        self._wake.set()

    def tick(self) -> None:
        """Give up on those who waited too long; call it now and then."""
        now = self._clock.monotonic_s()
        if not self.rules.timed and self._log.max_offset - self.flushed >= max(self.rules.least_bytes, 1):
            self._wake.set()
        waiters = self._waiters
        late = 0
        for offset, deadline, _ in waiters:
            if deadline > now or offset <= self.flushed:
                break
            late += 1
        if late:
            log.warning(
                "flush too slow waiters=%d flushed=%d end=%d", late, self.flushed, self._log.max_offset
            )
            self._drop_waiters(late)

    # --- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        use_batch_scheduling()
        while self._running:
            self._wake.wait(self.rules.interval_s)
            self._wake.clear()
            self._asked = False  # before the end is read: whoever appends from here on asks again
            if self._is_due():
                self.sync()
            # Also when there was nothing to sync: one who came while the last sync ended has asked for this.
            if self._waiters:
                self._post(self._answers.go_on)

    def _is_due(self) -> bool:
        """Whether to sync now: somebody waits, or much is new, or a little has been for long."""
        all_asked, self._all_asked = self._all_asked, False
        if self._waiters or all_asked:
            return True
        rules = self.rules
        since_s = self._clock.monotonic_s() - self._synced_s
        return self._log.max_offset - self.flushed >= rules.least_bytes or since_s >= rules.thorough_s

    def sync(self) -> bool:
        """Sync up to the end of the log as it is now; True if that changed anything for those who wait."""
        if self._sync_failure.error is not None:
            return False
        store_ms = self._last_store_ms()  # read before the end: it may be too old, never too new
        start, end = self.flushed, self._log.max_offset
        if start >= end:
            return False
        try:
            for segment in self._log.segments.copy():
                if segment.base + segment.size > start and segment.base < end:
                    low = max(start - segment.base, 0)
                    if not self._sync_part(segment, low, min(end - segment.base, segment.size)):
                        return False
        except OSError as error:
            if error.errno in _PASSING and not isinstance(error, SyncFailed):
                log.error("log not flushed error=%s: tried again soon", error)
            else:
                self._sync_failure.record("the log", error)
            return False
        self.physic_ms = store_ms
        self._synced_s = self._clock.monotonic_s()
        return True

    def _sync_part(self, segment: Segment, low: int, high: int) -> bool:
        """Sync [low, high) of a segment, in pieces while nobody waits, so that the loop's core is not held up.

        Each is known to be on disk at once, so that checkpoints follow a log that grows faster than it is synced.
        """
        while low < high:
            upto = high if self._waiters else min(low + PIECE_BYTES, high)
            segment.sync(low, upto)
            if (
                self._sync_failure.error is not None
            ):  # another thread got the report of what this one believed written
                return False
            self.flushed = LogOffset(segment.base + upto)
            low = upto
        return True

    # --- on the loop -------------------------------------------------------------------------

    def _answer_next(self) -> bool:
        """Answer the first waiter whose log is flushed; False when there is none."""
        waiters = self._waiters
        if not waiters or waiters[0][0] > self.flushed:
            return False
        waiters.popleft()[2](True)
        return True

    def _drop_waiters(self, count: int) -> None:
        for _ in range(count):
            callback = self._waiters.popleft()[2]
            try:
                callback(False)
            except Exception:  # of our own bugs those who wait behind it must not have to wait for ever
                log.exception("answer failed")
