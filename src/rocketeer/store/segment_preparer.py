"""Keeps the log's writer from ever waiting: a thread allocates what the next writes will need.

It works ahead of the end of the log in steps, and makes the next file before the current one is full. The more this
process has written, the further ahead, so that a second thread (`page_prefault.py`) can bring the pages into memory
while there is time. When they lag behind, the writer does the least it needs itself; only speed depends on them.
"""

import logging
import shutil
from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock, Thread

from rocketeer.errors import StoreRefused
from rocketeer.model.offsets import LogOffset
from rocketeer.store.kernel import SyncFailed, physical_memory_bytes
from rocketeer.store.page_prefault import PagePrefault
from rocketeer.store.scheduling import use_batch_scheduling
from rocketeer.store.segment import Segment

log = logging.getLogger(__name__)

AHEAD_BYTES = 32 << 20  # what is ready for stores beyond the end of the log
AHEAD_BYTES_MAX = min(4 << 30, physical_memory_bytes() // 8)
STEP_BYTES = 4 << 20
SEGMENTS_AHEAD_MAX = 4


class Preparer:
    """Readies segments for the log's writer. Every method but `_run` belongs to the writer's thread."""

    def __init__(
        self, folder: Path, segment_bytes: int, *, prewrite: bool, sync_failed: Callable[[str, OSError], None]
    ) -> None:
        """`prewrite` also puts the zeros on disk: a later sync then changes no metadata and is 2-3 times faster.

        Syncing a segment here may get the only report of a write that failed: it goes to `sync_failed`.
        """
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._prewrite = prewrite
        self._sync_failed = sync_failed
        self._wake = Event()
        self._making = Lock()  # one segment is made at a time
        self._next: deque[Segment] = deque()
        """Made and not yet used, in the order of the log."""
        self._segment: Segment | None = None
        self._position = 0
        self._running = True
        self._refused = False
        self._thread: Thread | None = None
        self._prefault = PagePrefault()
        self._first_end: LogOffset | None = None

    def start(self) -> None:
        self._prefault.start()
        self._thread = Thread(target=self._run, name="rocketeer-log-preparer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; segments that were made and never used are deleted."""
        self._running = False
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self._prefault.close()
        while self._next:
            segment = self._next.pop()  # the last one first: a crash now leaves no gap
            segment.unmap()
            segment.path.unlink(missing_ok=True)

    def look_ahead(self, segment: Segment, position: int) -> None:
        """Tell where the writer is now; the thread keeps `AHEAD_BYTES` ready from there."""
        self._segment = segment
        self._position = position
        if self._first_end is None:
            self._first_end = LogOffset(segment.base + position)
        self._wake.set()

    def take(self, base: LogOffset) -> Segment:
        """The segment that starts at `base`; made now if the thread has not. Raises StoreRefused."""
        with self._making:
            made = self._next.popleft() if self._next else None
            segment = made or self._create_after(self._segment, base)
            assert segment.base == base, "the log only ever asks for the next segment"
            self._segment, self._position = segment, 0
            return segment

    def give_back(self, segment: Segment) -> None:
        """Take back a segment that the writer could not use."""
        with self._making:
            self._next.appendleft(segment)

    def _run(self) -> None:
        use_batch_scheduling()
        while True:
            self._wake.wait()
            self._wake.clear()
            if not self._running:
                return
            segment, position = self._segment, self._position
            assert segment is not None
            try:
                self._prepare(segment, position)
                self._refused = False
            except SyncFailed as error:
                self._sync_failed(str(segment.path), error)
                return
            except (StoreRefused, OSError) as error:
                if not self._refused:  # said once; the writer meets the same error and refuses messages
                    log.warning("log not prepared ahead path=%s error=%s", segment.path, error)
                self._refused = True

    def _prepare(self, segment: Segment, position: int) -> None:
        ahead = AHEAD_BYTES if self._prewrite else self._bytes_ahead(segment.base + position)
        end = segment.base + position + ahead
        self._ready(segment, position, end)
        if segment.size - position > max(segment.size // 4, ahead):
            return
        last = segment
        for _ in range(SEGMENTS_AHEAD_MAX if segment.size >= AHEAD_BYTES else 1):
            following = self._after(last)
            if following is None:
                return
            self._ready(following, 0, max(end, following.base + STEP_BYTES))
            last = following
            if last.base + last.size > end:
                return

    def _bytes_ahead(self, end: int) -> int:
        """As much as was written since the start, within bounds that leave memory and disk to others."""
        assert self._first_end is not None
        free_bytes = shutil.disk_usage(self._folder).free
        return max(AHEAD_BYTES, min(end - self._first_end, AHEAD_BYTES_MAX, free_bytes // 8))

    def _ready(self, segment: Segment, position: int, end: int) -> None:
        """Allocate the segment from `position` on, up to log offset `end`, and have it brought into memory."""
        upto = min(end - segment.base, segment.size)
        start = max(segment.reserved, position)
        while start < upto and self._running:
            step = min(start + STEP_BYTES, upto)
            segment.reserve(step)
            if self._prewrite:
                segment.populate(start, step)
                segment.sync(start, step)
            start = step
        if not self._prewrite:
            self._prefault.request(segment)

    def _after(self, last: Segment) -> Segment | None:
        """The segment behind `last`, made now if it was not; None if the writer was faster, or wants no more."""
        base = LogOffset(last.base + last.size)
        with self._making:
            for made in self._next:
                if made.base == base:
                    return made
            if self._segment is None or self._segment.base >= base or not self._running:
                return None
            following = self._create_after(last, base)
            self._next.append(following)
        following.sync_name()
        return following

    def _create_after(self, last: Segment | None, base: LogOffset) -> Segment:
        """Make a segment once name and size of the one before are on disk: a start would miss a file else."""
        if last is not None and last.base < base and not last.is_named:
            try:
                last.sync_name()
            except SyncFailed as error:
                self._sync_failed(str(last.path), error)
                raise StoreRefused(
                    StoreRefused.NOT_WRITABLE, f"the commit log cannot grow: {error}"
                ) from error
        return Segment.create(self._folder, base, self._segment_bytes)
