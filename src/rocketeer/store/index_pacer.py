"""When the index gets its share of the loop's time: along with sends and in ticks, more the further it is behind."""

import logging

from rocketeer.clock import Clock
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.index import Index

log = logging.getLogger(__name__)

_SLICE_S = 0.0005
_PAUSE_S = 1.0  # after a failure: the disk is full
_BEHIND = 5_000  # messages; with every so many that wait the index gets more of the loop's time
_STEP = 256  # messages that are worth a step of their own, some 0.1 ms
_STEP_KEYS = 1_024  # keys that are


class IndexPacer:
    """Decides when waiting messages are written to the index. Belongs to the loop thread."""

    def __init__(self, index: Index | None, commit_log: CommitLog, clock: Clock) -> None:
        self._index = index
        self._log = commit_log
        self._clock = clock
        self._paused_s = 0.0
        self._end = 0
        """The end of the log at the last tick with messages to index."""

    def tick(self) -> None:
        """Write a slice to the index if enough waits, or if nothing more arrives."""
        index, end = self._index, self._log.max_offset
        if index is not None and index.pending_count:
            if index.pending_count >= _STEP or end == self._end:
                self._fill(index, slice_s=_SLICE_S)
            self._end = end

    def sends_answered(self) -> None:
        """After many sends have been answered: index along, in steps too small for anybody to notice."""
        index = self._index
        if index is not None and (index.pending_count >= _STEP or index.pending_keys >= _STEP_KEYS):
            self._fill(index, slice_s=0.0)

    def _fill(self, index: Index, *, slice_s: float) -> None:
        now_s = self._clock.monotonic_s()
        if now_s < self._paused_s:
            return
        # The further behind, the longer the slices; a whole second's messages are worth a visible pause.
        until_s = now_s + slice_s * (1 + min(index.pending_count // _BEHIND, 40))
        try:
            while index.flush_pending() and self._clock.monotonic_s() < until_s:
                pass
        except OSError as error:
            log.error("index not written pending=%d error=%s", index.pending_count, error)
            self._paused_s = now_s + _PAUSE_S
