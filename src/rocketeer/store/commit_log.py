"""The commit log: every message of every topic, one after the other, in files named by their first offset.

    min_offset                                                      max_offset
    |--- segment ---|--- segment ---|--- the last segment ----------|.... zero ....|

A record lies within one segment; where the next one does not fit, a blank record ends the file. All writing
is done by one thread, the event loop's. Everything else in the store is derived from here.
"""

import logging
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path

from rocketeer.errors import LogUnreadable, StoreError, StoreRefused
from rocketeer.model.offsets import LogOffset
from rocketeer.record.layout import BLANK, BLANK_MAGIC
from rocketeer.store.base_names import is_base_name
from rocketeer.store.file_cache import files_share
from rocketeer.store.kernel import can_read, sync_folder
from rocketeer.store.segment import SEEN_BITS, Segment, no_room
from rocketeer.store.segment_preparer import AHEAD_BYTES, Preparer

log = logging.getLogger(__name__)

MAPPED_MAX = files_share(8, 128)  # segments mapped at a time, each with a descriptor
_INLINE_BYTES = 1 << 20  # what the writer reserves itself when the preparer lags
LOOK_AGAIN_S = 10.0
"""A page that was read so recently is taken to be in memory still."""
_REFUSING = -1


def _raise_failed(what: str, error: OSError) -> None:
    """What a sync that failed does to a log that is used without a store."""
    raise error


class CommitLog:
    """Bytes [min_offset, max_offset). Readers trust every byte below `max_offset`.

    `fd`, `base` and `mark` are for the writer's inner loops: a run that ends at or below `mark` may be written to
    `fd` at its offset minus `base`; for any other, `make_room` comes first. Written, not stored into the mapping:
    a store into a page that was never touched has the kernel fill the page with zeros first.
    """

    __slots__ = (
        "_active",
        "_append_longest_s",
        "_look_again_s",
        "_mapped",
        "_preparer",
        "_refusal",
        "base",
        "epoch",
        "fd",
        "folder",
        "mark",
        "max_offset",
        "min_offset",
        "segment_bytes",
        "segments",
    )

    def __init__(
        self,
        folder: Path,
        segment_bytes: int,
        *,
        prewrite: bool = False,
        sync_failed: Callable[[str, OSError], None] = _raise_failed,
    ) -> None:
        self.folder = folder
        self.segment_bytes = segment_bytes
        self.segments: list[Segment] = []
        self.min_offset = LogOffset(0)
        self.max_offset = LogOffset(0)
        self.epoch = 1
        self._look_again_s = 0.0
        """Changes every second (1 to 255): what was looked at in this one is in memory."""
        self.fd = -1
        self.base = LogOffset(0)
        self.mark = _REFUSING
        self._append_longest_s = 0.0
        self._active: Segment | None = None
        self._mapped: deque[Segment] = deque()
        self._preparer = Preparer(folder, segment_bytes, prewrite=prewrite, sync_failed=sync_failed)
        self._refusal: StoreRefused | None = StoreRefused(StoreRefused.NOT_WRITABLE, "the store is not open")

    # --- opening and closing -----------------------------------------------------------------

    def append_took(self, seconds: float) -> None:
        """Remember how long an append took; the writer says so."""
        self._append_longest_s = max(self._append_longest_s, seconds)

    def take_longest_append_s(self) -> float:
        """How long the longest append took since this was last asked."""
        longest_s, self._append_longest_s = self._append_longest_s, 0.0
        return longest_s

    def load(self) -> list[str]:
        """Find the files; says what it had to mend. StoreError for what only a person can decide; no writes then.

        `max_offset` is the end of the last file until recovery finds the end of the records.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        found: list[Segment] = []
        sizes: list[int] = []
        for path in sorted(self.folder.iterdir()):
            if is_base_name(path.name):
                found.append(Segment(path, LogOffset(int(path.name)), self.segment_bytes))
                sizes.append(path.stat().st_size)
            else:
                log.warning("log file ignored path=%s: not named by an offset", path)
        empty: list[Segment] = []
        while found and sizes[-1] == 0:  # a crash between making a file and giving it its size
            empty.append(found.pop())
            sizes.pop()
        self._check_files(found, sizes)
        mended = []
        for segment in empty:
            segment.path.unlink()
            log.warning("empty log file removed path=%s", segment.path)
        for segment, size in zip(found, sizes, strict=True):
            if size < self.segment_bytes:
                os.truncate(segment.path, self.segment_bytes)
                segment.sync_name()
                mended.append(f"{segment.path} had {size} bytes, extended to {self.segment_bytes}")
        self.segments = found
        if found:
            self.min_offset = found[0].base
            self.max_offset = LogOffset(found[-1].base + self.segment_bytes)
        return mended

    def _check_files(self, found: list[Segment], sizes: list[int]) -> None:
        for at, segment in enumerate(found):
            size = sizes[at]
            if size > self.segment_bytes or (0 < size < self.segment_bytes and at < len(found) - 1):
                raise StoreError(
                    f"{segment.path} has {size} bytes, but mappedFileSizeCommitLog is {self.segment_bytes}: "
                    "set it to the size this store was written with"
                )
            if segment.base != found[0].base + at * self.segment_bytes or segment.base % self.segment_bytes:
                raise StoreError(
                    f"{segment.path} does not follow the file before it (mappedFileSizeCommitLog is "
                    f"{self.segment_bytes}): a file is missing, or the store was written with another size"
                )

    def start(self) -> None:
        """Allow appends: recovery has found the end of the log."""
        self._preparer.start()
        self._refusal = None
        if self.segments and self.max_offset < self.segments[-1].base + self.segment_bytes:
            self._activate(self.segments[-1])

    def refuse(self, refusal: StoreRefused | None) -> None:
        """From now on every append raises `refusal`; None lets them in again."""
        self._refusal = refusal
        if self._active is not None:
            self._set_mark(self._active)

    def close(self) -> None:
        self.refuse(StoreRefused(StoreRefused.NOT_WRITABLE, "message store has been shut down"))
        self._preparer.close()
        self._active = None
        self.fd = -1
        for segment in self.segments:
            segment.unmap()

    # --- writing -----------------------------------------------------------------------------

    def make_room(self, size: int) -> LogOffset:
        """Where a record of `size` bytes goes; the bytes up to its end are reserved. Raises StoreRefused."""
        if self._refusal is not None:
            raise StoreRefused(self._refusal.reason, str(self._refusal))
        if size + BLANK.size > self.segment_bytes:
            raise StoreRefused(
                StoreRefused.TOO_LARGE,
                f"a record of {size} bytes does not fit into a log file of {self.segment_bytes}",
            )
        active = self._active
        if active is None or self.max_offset + size + BLANK.size > self.base + self.segment_bytes:
            active = self._roll(active)
        end = self.max_offset - self.base + size
        if end > active.reserved:
            active.reserve(max(end, min(active.reserved + _INLINE_BYTES, self.segment_bytes)))
        self._set_mark(active)
        self._preparer.look_ahead(active, self.max_offset - self.base)
        return self.max_offset

    def write(self, offset: LogOffset, data: bytes | bytearray | memoryview) -> None:
        """Put bytes into the active segment, where `make_room` found room for them. Raises StoreRefused."""
        view = memoryview(data)
        at = offset - self.base
        try:
            while view:
                done = os.pwrite(self.fd, view, at)
                view, at = view[done:], at + done
        except OSError as error:
            raise no_room(error) from error

    def put_raw(self, data: memoryview) -> None:
        """Store any bytes at the end of the log, across segments if need be: a copy of another log's."""
        while data:
            active = self._active or self._roll(None)
            at = self.max_offset - self.base
            end = min(at + len(data), self.segment_bytes)
            if end > active.reserved:
                active.reserve(max(end, active.reserved + _INLINE_BYTES))
                self._preparer.look_ahead(active, at)
            self.write(self.max_offset, data[: end - at])
            self.max_offset = LogOffset(self.base + end)
            data = data[end - at :]
            if end == self.segment_bytes:
                self._finish(active)

    def _roll(self, active: Segment | None) -> Segment:
        """Go on in a new segment; a blank record fills the rest of `active`."""
        base = self.max_offset if active is None else LogOffset(self.base + self.segment_bytes)
        following = self._preparer.take(base)  # first: when the disk is full, nothing has changed
        if active is not None:
            at = self.max_offset - self.base
            assert self.segment_bytes - at >= BLANK.size, "make_room leaves room for it"
            try:
                active.reserve(at + BLANK.size)
                self.write(self.max_offset, BLANK.pack(self.segment_bytes - at, BLANK_MAGIC))
            except StoreRefused:
                self._preparer.give_back(following)
                raise
            self.max_offset = base
            self._finish(active)
        if not self.segments:
            self.min_offset = base
        self.segments.append(following)
        self._keep_mapped(following)
        self._activate(following)
        log.info("segment rolled path=%s base=%d", following.path, following.base)
        return following

    def _finish(self, active: Segment) -> None:
        """Close the full segment for writing."""
        self._active = None
        self.fd = -1
        self.mark = _REFUSING
        active.seal()

    def _activate(self, segment: Segment) -> None:
        self._active = segment
        self.base = segment.base
        segment.reserved = max(segment.reserved, self.max_offset - segment.base)
        segment.map_in()
        self.fd = segment.descriptor()
        self._set_mark(segment)
        self._preparer.look_ahead(segment, self.max_offset - segment.base)

    def _set_mark(self, segment: Segment) -> None:
        """Where the writer must look up again: at half of what is ready, then at its end, then at the file's."""
        if self._refusal is not None:
            self.mark = _REFUSING
            return
        at = self.max_offset - self.base
        reserved = segment.reserved
        half = reserved - AHEAD_BYTES // 2
        ready = min(half, at + AHEAD_BYTES // 2) if half > at else reserved
        self.mark = self.base + min(ready, self.segment_bytes - BLANK.size)

    # --- reading -----------------------------------------------------------------------------

    def read(self, offset: LogOffset, size: int) -> memoryview | None:
        """`size` bytes that lie within one segment; None if the log does not have them (any more).

        LogUnreadable when the disk does not give them back: to look at them would kill the process.
        """
        if offset < self.min_offset or offset + size > self.max_offset or size < 0:
            return None
        segment = self.segments[(offset - self.min_offset) // self.segment_bytes]
        at = offset - segment.base
        if at + size > self.segment_bytes:
            return None
        view = segment.view
        if view is None:
            view = self.map_in(segment)
        first, last = at >> SEEN_BITS, (at + size - 1) >> SEEN_BITS
        if segment.seen.count(self.epoch, first, last + 1) <= last - first:
            self._look_at(segment, at, size)
        return view[at : at + size]

    def tick(self, now_s: float) -> None:
        """Start a new epoch of page checks now and then: pages that were in memory may have been evicted."""
        if now_s < self._look_again_s:
            return
        self._look_again_s = now_s + LOOK_AGAIN_S
        self.epoch = self.epoch % 255 + 1
        if self.epoch == 1:  # none of the round before may pass for one of this
            for segment in self.segments:
                segment.seen[:] = bytes(len(segment.seen))

    def _look_at(self, segment: Segment, at: int, size: int) -> None:
        """Have the pages read before anybody looks at them, whole blocks of them; LogUnreadable if that fails."""
        first, last = at >> SEEN_BITS, (at + size - 1) >> SEEN_BITS
        written = min(self.max_offset - segment.base, self.segment_bytes)
        end = min((last + 1) << SEEN_BITS, written)
        if can_read(segment.address, first << SEEN_BITS, end):
            whole = last + (end == (last + 1) << SEEN_BITS) - first  # the block that is being written grows
            segment.seen[first : first + whole] = bytes((self.epoch,)) * whole
        elif segment.readable_until(at, at + size) < at + size:
            raise LogUnreadable(f"the disk does not give back the log at {segment.base + at}, {size} bytes")

    def map_in(self, segment: Segment) -> memoryview:
        """Map a segment for reading."""
        view = segment.map_in()
        self._keep_mapped(segment)
        return view

    def _keep_mapped(self, segment: Segment) -> None:
        """Note a mapped segment; of too many, which take descriptors, the one mapped longest ago gives way."""
        self._mapped.append(segment)
        for _ in range(len(self._mapped) - MAPPED_MAX):
            oldest = self._mapped.popleft()
            if oldest is self._active or oldest is segment:
                self._mapped.append(oldest)
            else:
                oldest.unmap()

    def segment_of(self, offset: LogOffset) -> Segment | None:
        """The segment that holds `offset`, which may be beyond the end of the records."""
        at = (offset - self.min_offset) // self.segment_bytes
        return self.segments[at] if 0 <= at < len(self.segments) else None

    def next_segment_offset(self, offset: LogOffset) -> LogOffset:
        """Where the segment after the one with `offset` starts, whether it exists or not."""
        return LogOffset(offset - offset % self.segment_bytes + self.segment_bytes)

    # --- cutting -----------------------------------------------------------------------------

    def cut_to(self, end: LogOffset) -> int:
        """Make `end` the end of the log: later segments go, later bytes become zero; how many were not zero."""
        gone = 0
        while self.segments and self.segments[-1].base >= end:
            segment = self.segments.pop()
            gone += segment.used_until(0)
            self._drop(segment)
            segment.path.unlink()
        if self.segments:
            gone += self.segments[-1].zero_from(end - self.segments[-1].base)
        else:
            self.min_offset = end
        self.max_offset = end
        sync_folder(str(self.folder))
        return gone

    def drop_first(self) -> Path:
        """Let the oldest segment go; its file is the caller's to delete. Never the one being written."""
        assert self.segments
        assert self.segments[0] is not self._active
        segment = self.segments.pop(0)
        self._drop(segment)
        self.min_offset = LogOffset(segment.base + self.segment_bytes)
        return segment.path

    def _drop(self, segment: Segment) -> None:
        segment.unmap()
        if segment in self._mapped:
            self._mapped.remove(segment)
