"""Carries out what retention decides: old log files go, queues and index follow, a full disk stops writes.

In slices from `tick`; measuring the disk and deleting files is left to the worker thread.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from rocketeer.clock import Clock
from rocketeer.config import StoreConfig
from rocketeer.model.offsets import LogOffset
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.disk import UNKNOWN_PERCENT, used_percent
from rocketeer.store.dispatch import Dispatch
from rocketeer.store.expiry_clock import ExpiryClock
from rocketeer.store.file_cache import delete_paths
from rocketeer.store.kernel import sync_folder
from rocketeer.store.retention import (
    RetentionPlan,
    RetentionRules,
    SegmentAge,
    nears_its_end,
    trim_to_log,
)
from rocketeer.store.retention_guard import RetentionGuard
from rocketeer.store.summary import SavedSummary
from rocketeer.store.worker import Worker

log = logging.getLogger(__name__)

_LOOK_S = 1.0  # how often the disk is measured and retention asked
_DELETING_S = 0.05  # while files go
_FOLLOW_S = 0.001  # of a tick, for queues that follow the log
_FOLLOW_QUEUES = 64  # whose files go together
_ROLLING_S = 0.02  # while messages that are waited for are rolled forward


class Cleaner:
    """Belongs to the loop thread. `on_disk_full(None)` is called when there is room again."""

    def __init__(
        self,
        config: StoreConfig,
        log: CommitLog,
        dispatch: Dispatch,
        worker: Worker,
        clock: Clock,
        *,
        expiry_clock: ExpiryClock,
        guard: RetentionGuard,
        on_disk_full: Callable[[str | None], None],
        saved: SavedSummary,
    ) -> None:
        rules = RetentionRules.of(config)
        self._plan = RetentionPlan(rules, expiry_clock.now_ms())
        self._expiry_clock = expiry_clock
        self._log = log
        self._dispatch = dispatch
        self._worker = worker
        self._clock = clock
        self._guard = guard
        self._on_disk_full = on_disk_full
        self._saved = saved
        self._folders = (config.commit_log_path, config.store_path, config.store_path)
        self._used = (UNKNOWN_PERCENT, UNKNOWN_PERCENT, UNKNOWN_PERCENT)
        self._measuring: Future[bool] | None = None
        self._following: Iterator[list[str]] | None = None
        self._oldest = SegmentAge(LogOffset(-1), 0)
        self._leaving: deque[Path] = deque()
        """Files that are the log's no more, the oldest first."""
        self._writable = True
        self._next_s = 0.0
        self._follow_pause_s = config.delete_queue_interval_ms / 1000
        self._follow_s = 0.0

    def set_rules(self, config: StoreConfig) -> None:
        """Replace the rules of retention at run time."""
        self._plan.rules = RetentionRules.of(config)
        self._follow_pause_s = config.delete_queue_interval_ms / 1000

    @property
    def used_percent(self) -> int:
        """How full the fuller of the log's and the store's disk is."""
        return max(self._used)

    @property
    def used_percents(self) -> tuple[int, int]:
        """How full the log's disk is, and the queues'."""
        return self._used[:2]

    def measure(self) -> None:
        """Look at the disk now."""
        self._used = tuple(map(used_percent, self._folders))  # type: ignore[assignment]

    def order(self) -> None:
        """Delete expired files now, whatever the hour: an operator wants it."""
        self._plan.order(self._expiry_clock.now_ms())
        self._next_s = 0.0

    def tick(self) -> None:
        now_s = self._clock.monotonic_s()  # no clock that is set back may keep the disk from being looked at
        if self._following is not None and now_s >= self._follow_s:
            self._follow(now_s)
        if now_s < self._next_s:
            return
        self._next_s = now_s + _LOOK_S
        now_ms = self._expiry_clock.now_ms()
        if self._measuring is None or self._measuring.done():
            self._measuring = self._worker.submit("measuring the disk", self.measure)
        used = self.used_percent
        hour = time.localtime(self._clock.now_ms() / 1000).tm_hour
        segments = self._segments()
        if nears_its_end(self._plan.rules, segments, now_ms, used):
            free = self._roll_forward(LogOffset(segments[0].base + self._log.segment_bytes))
            segments[0] = segments[0]._replace(needed=not free)
            if self._guard.rolling:
                self._next_s = now_s + _ROLLING_S
        step = self._plan.next(now_ms, hour=hour, used_percent=used, segments=segments)
        if step.writable != self._writable:
            self._writable = step.writable
            self._on_disk_full(None if step.writable else self._used_text())
        if step.drop is not None:
            self._drop(step.drop)
            self._next_s = now_s + _DELETING_S

    def _segments(self) -> list[SegmentAge]:
        """Ages of the oldest and the newest: retention asks for no others. Views in flight outlive a deleted file."""
        segments = self._log.segments
        if not segments:
            return []
        if self._oldest.base != segments[0].base:
            self._oldest = SegmentAge(segments[0].base, _modified_ms(segments[0].path))
        return [self._oldest] if len(segments) == 1 else [self._oldest, SegmentAge(segments[-1].base, 0)]

    def _roll_forward(self, below: LogOffset) -> bool:
        """Roll for a slice; a nearly full disk takes these writes: a whole file goes for them."""
        if self._writable:
            return self._guard.free(below)
        self._on_disk_full(None)
        try:
            return self._guard.free(below)
        finally:
            self._on_disk_full(self._used_text())

    def _drop(self, base: LogOffset) -> None:
        assert self._log.segments[0].base == base
        self._leaving.append(self._log.drop_first())
        self._worker.submit("deleting a log file", self._delete_log_files)
        self._saved.forget()
        index = self._dispatch.index
        self._following = trim_to_log(self._log.min_offset, self._dispatch.queues.walk(), index)

    def _delete_log_files(self) -> None:
        """Delete them in the worker, each off the disk before the next goes: a start refuses a log that lacks a
        file between others. One that cannot go now is tried again with the next."""
        while self._leaving:
            path = self._leaving[0]
            with suppress(FileNotFoundError):
                os.unlink(path)
                log.info("file deleted path=%s", path)
            sync_folder(str(path.parent))
            self._leaving.popleft()

    def _follow(self, now_s: float) -> None:
        assert self._following is not None
        paths: list[str] = []
        for passed, found in enumerate(self._following, 1):
            paths += found
            if (paths and passed >= _FOLLOW_QUEUES) or self._clock.monotonic_s() >= now_s + _FOLLOW_S:
                break
        else:
            self._following = None
        if paths:
            self._worker.submit("deleting files below the log", lambda: delete_paths(paths))
            self._follow_s = now_s + self._follow_pause_s

    def _used_text(self) -> str:
        """As RocketMQ tells a sender why it is refused."""
        log_ratio, queue_ratio, index_ratio = (percent / 100 for percent in self._used)
        return f"CL: {log_ratio:5.2f} CQ: {queue_ratio:5.2f} INDEX: {index_ratio:5.2f}"


def _modified_ms(path: Path) -> int:
    return os.stat(path).st_mtime_ns // 1_000_000
