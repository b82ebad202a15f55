"""A consume queue: where in the log the n-th message of a queue stands. Fed by dispatch, read by pulls.

New entries wait in a tail in memory and are written to files in runs. Losing the tail costs nothing: the log
holds everything, and recovery dispatches again what the files lack.

    _first          min_offset              _written            max_offset      (entries)
    |--- dead ------|------- in files ------|------ tail -------|
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Protocol

import numpy as np

from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.store.consume_queue_ext import ExtUnit
from rocketeer.store.file_cache import FileCache
from rocketeer.store.queue_entries import QueueEnds, QueueTail
from rocketeer.store.queue_entry import (
    BLANK,
    BLANK_SIZE,
    ENTRY,
    ENTRY_BYTES,
    ENTRY_COLUMNS,
    QueueEntry,
)
from rocketeer.store.queue_files import QueueFiles

log = logging.getLogger(__name__)

WRITE_OUT_ENTRIES = 2 * 4096 // ENTRY_BYTES  # flushConsumeQueueLeastPages: a tail this long is written out
_WALK = 4096  # entries looked at in one read while passing over blanks
_END = attrgetter("max_offset")


class Dispatched(Protocol):
    """What a queue keeps of a dispatched message."""

    @property
    def log_offset(self) -> LogOffset: ...
    @property
    def size(self) -> int: ...
    @property
    def queue_offset(self) -> QueueOffset: ...
    @property
    def tag_code(self) -> int: ...


class ConsumeQueue(QueueTail):
    """Entries [min_offset, max_offset) of one queue; queue offsets count entries.

    Invariant: entries below `_written` are in files, the rest is the tail; offsets never repeat.
    Belongs to the loop thread (or to recovery before the loop runs). Holds no descriptor of its own.
    """

    __slots__ = (
        "_files",
        "_first",
        "_written",
        "min_offset",
        "queue_id",
        "topic",
    )

    def __init__(
        self, folder: str | os.PathLike[str], topic: str, queue_id: int, file_bytes: int, files: FileCache
    ) -> None:
        """`folder` is this queue's own, made at the first write-out."""
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = QueueOffset(0)
        self.max_offset = QueueOffset(0)
        self._files = QueueFiles(folder, file_bytes, files)
        self._first = QueueOffset(0)  # first entry of the first file
        self._written = QueueOffset(0)
        self._tail = bytearray()
        self._due = WRITE_OUT_ENTRIES  # the offset that makes the tail long enough to be written out
        self._ends = QueueEnds()

    def __repr__(self) -> str:
        return f"ConsumeQueue({self.topic}:{self.queue_id} [{self.min_offset}, {self.max_offset}))"

    def count_in(self, ends: QueueEnds) -> None:
        """Count this queue's end in `ends` instead of the sum it counted in before."""
        self._ends.total -= self.max_offset
        ends.total += self.max_offset
        self._ends = ends

    # --- writing -----------------------------------------------------------------------------

    def append(self, entry: Dispatched) -> bool:
        """Add the next entry; False if the queue has that offset already (dispatch may repeat itself)."""
        return self.put(entry.queue_offset, entry.log_offset, entry.size, entry.tag_code)

    def skip(self, offset: QueueOffset) -> None:
        """The message of that offset is lost: its place is blank from now on, and no other message gets it."""
        if offset < self.max_offset:
            if offset >= self._written:
                at = (offset - self._written) * ENTRY_BYTES
                self._tail[at : at + ENTRY_BYTES] = BLANK
            elif offset >= self._first:
                self._files.write(offset, BLANK)
        elif offset == self.max_offset or self._move_to(offset):
            self._tail += BLANK
            self._end_at(QueueOffset(offset + 1))

    def put_right(self, offset: QueueOffset, entry: QueueEntry) -> None:
        """Write an entry that the queue has once more: what stood there was damaged."""
        raw = ENTRY.pack(*entry)
        if offset >= self._written:
            at = (offset - self._written) * ENTRY_BYTES
            self._tail[at : at + ENTRY_BYTES] = raw
        else:
            self._files.write(offset, raw)

    @property
    def pending_bytes(self) -> int:
        """Bytes of the tail, not yet in files."""
        return len(self._tail)

    def write_out(self) -> None:
        """Put the tail into files (not yet durable: `FileCache.take_unsynced` names what to sync).

        On OSError (a full disk) nothing is lost: what was not written stays in the tail.
        """
        tail = self._tail
        per_file = self._files.per_file
        while tail:
            run = min(len(tail), (per_file - self._written % per_file) * ENTRY_BYTES)
            self._files.write(self._written, tail if run == len(tail) else tail[:run])
            self._written = QueueOffset(self._written + run // ENTRY_BYTES)
            del tail[:run]
        self._due = self._written + WRITE_OUT_ENTRIES

    def truncate_to_log(self, log_end: LogOffset) -> int:
        """Drop every entry whose message does not end at or below `log_end`; how many went.

        After a crash, cut to the checkpoint's offset before dispatching again from there: beyond it the files
        may hold old bytes between zeros, below it they are whole.
        """
        end = self._end_within(log_end)
        gone = self.max_offset - end
        self._cut_to(end)
        return gone

    def drop_blank_end(self) -> None:
        """Drop blank places behind the last message: the log is copied again, and has messages for them."""
        end = self.max_offset
        while end > self._first and self._entry(QueueOffset(end - 1)).is_blank:
            end = QueueOffset(end - 1)
        if end < self.max_offset:
            self._cut_to(end)

    def _cut_to(self, end: QueueOffset) -> None:
        del self._tail[max(0, end - self._written) * ENTRY_BYTES :]
        self._written = min(self._written, end)
        self._due = self._written + WRITE_OUT_ENTRIES
        self._files.clear_from(self._written)
        self._end_at(end)
        self.min_offset = min(self.min_offset, end)

    def first_beyond(self, log_end: LogOffset) -> tuple[QueueOffset, QueueEntry] | None:
        """The first of those that `truncate_to_log` would drop, with its queue offset."""
        end = self._end_within(log_end)
        return (end, self._entry(end)) if end < self.max_offset else None

    def _end_within(self, log_end: LogOffset) -> QueueOffset:
        def beyond(entry: QueueEntry) -> bool:
            return not entry.is_written or entry.log_offset + entry.size > log_end

        return self._past_damage(self._first_where(beyond, self._first, self.max_offset), log_end)

    def raise_min(self, log_min: LogOffset) -> list[str]:
        """Move `min_offset` to the first entry still in the log; files wholly below it leave the queue.

        The paths returned are for `delete_paths` in a worker thread. The file with the newest entry on disk
        stays even when all its messages are gone: it remembers the queue's offsets.
        """
        if self.min_offset < self.max_offset:
            entry = self._entry(self.min_offset)
            if entry.log_offset < log_min or entry.is_blank:
                self.min_offset = self._first_where(
                    lambda other: other.log_offset >= log_min, self.min_offset, self.max_offset
                )
        keep = min(self.min_offset, max(self._written - 1, 0))
        first = QueueOffset(keep - keep % self._files.per_file)
        if first <= self._first:
            return []
        paths = self._files.release_below(self._first, first)
        self._first = first
        return paths

    def remove(self) -> None:
        """Delete the queue's files and start again from nothing."""
        self._files.remove()
        self.forget()

    def forget(self) -> None:
        """Reset to empty: the files are gone, or belong to another queue."""
        self._tail.clear()
        self._first = self._written = self.min_offset = QueueOffset(0)
        self._end_at(QueueOffset(0))
        self._due = WRITE_OUT_ENTRIES

    def load(self) -> list[str]:
        """Find the entries in the files; says in words what was wrong, [] if nothing.

        `min_offset` is then the first entry in the files; the log's minimum comes by `raise_min`.
        """
        first, end, problems = self._files.find_entries()
        self._tail.clear()
        self._first = self.min_offset = first
        self._written = end
        self._end_at(end)
        self._due = end + WRITE_OUT_ENTRIES
        if first < end and self._entry(first).is_blank:
            self.min_offset = self._next_real(first, end)
        return problems

    # --- reading -----------------------------------------------------------------------------

    def read(self, offset: QueueOffset, count: int) -> bytes:
        """Up to `count` entries from `offset`; b"" below `min_offset` and at or beyond `max_offset`."""
        if offset < self.min_offset:
            return b""
        end = offset + count
        if end <= self._written:  # for nearly every pull
            return self._files.read(offset, count)
        if offset >= self.max_offset:
            return b""
        return self._bytes(offset, min(QueueOffset(end), self.max_offset))

    def unit(self, code: int) -> ExtUnit | None:
        """What stands beside an entry with this tag code, in queues that keep such units (`ExtendedQueue`)."""
        return None

    def beyond(self, log_offset: LogOffset) -> Iterator[tuple[QueueOffset, QueueEntry]]:
        """Queue offset and entry of every message that ends beyond `log_offset`, in order."""
        start = self._first_where(
            lambda entry: entry.log_offset + entry.size > log_offset, self._first, self.max_offset
        )
        for at in range(start, self.max_offset, _WALK):
            raw = self._bytes(QueueOffset(at), min(QueueOffset(at + _WALK), self.max_offset))
            whole = raw[: len(raw) // ENTRY_BYTES * ENTRY_BYTES]
            for place, fields in enumerate(ENTRY.iter_unpack(whole), at):
                entry = QueueEntry._make(fields)
                if entry.is_written and not entry.is_blank:
                    yield QueueOffset(place), entry

    def may_reach(self, log_offset: LogOffset) -> bool:
        """False when no message of the queue ends beyond `log_offset`."""
        return not self.is_empty and (
            self._entry(QueueOffset(self.max_offset - 1)).is_blank or self.max_log_offset > log_offset
        )

    @property
    def is_empty(self) -> bool:
        """Whether it never had a message: the first may have any offset."""
        return self.max_offset == self._first

    def entry(self, offset: QueueOffset) -> QueueEntry | None:
        """The entry at `offset` if the queue has it."""
        return self._entry(offset) if self.min_offset <= offset < self.max_offset else None

    @property
    def max_log_offset(self) -> LogOffset:
        """The end, in the log, of the newest message here; 0 if there is none."""
        if self.max_offset == self._first:
            return LogOffset(0)
        last = self._entry(QueueOffset(self.max_offset - 1))
        return LogOffset(0 if last.is_blank else last.log_offset + last.size)

    def offset_by_time(self, store_ms: int, store_ms_of: Callable[[LogOffset, int], int]) -> QueueOffset:
        """The entry stored at `store_ms`, or else its nearer neighbour (the earlier one if both are as near).

        `store_ms_of(log offset, size)` says when a message was stored, negative if it is gone. A time before
        the first entry gives `min_offset`, one after the last gives the last entry.
        """
        low, high = self.min_offset, self.max_offset
        if low == high:
            return low
        right = self._first_where(lambda entry: store_ms_of(entry[0], entry[1]) >= store_ms, low, high)
        if right == high:
            return QueueOffset(high - 1)
        if right == low:
            return low
        left_entry, right_entry = self._entry(QueueOffset(right - 1)), self._entry(right)
        left_ms = -1 if left_entry.is_blank else store_ms_of(left_entry[0], left_entry[1])
        right_ms = store_ms_of(right_entry[0], right_entry[1])
        nearer = right if left_ms < 0 or store_ms - left_ms > right_ms - store_ms else right - 1
        return QueueOffset(nearer)

    # --- inside ------------------------------------------------------------------------------

    def _move_to(self, offset: QueueOffset) -> bool:
        """Make `offset` the next one; False if it lies behind. What is passed over becomes blank."""
        if self.is_empty:
            self._start_at(offset)
            return True
        gap = offset - self.max_offset
        if gap < 0:
            return False
        if gap > self._files.per_file:  # no accident of ours loses so many: the number is wrong
            log.error("queue offset not believed topic=%s queue=%d max_offset=%d says=%d",
                      self.topic, self.queue_id, self.max_offset, offset)  # fmt: skip
            return False
        log.warning("queue gap topic=%s queue=%d max_offset=%d next=%d",
                    self.topic, self.queue_id, self.max_offset, offset)  # fmt: skip
        if self.min_offset == self.max_offset:
            self.min_offset = offset
        self._tail += BLANK * gap
        self._end_at(offset)
        return True

    def _takes(self, offset: QueueOffset) -> bool:
        """Whether the next entry may have that offset; behind a gap, perhaps."""
        return self.is_empty or 0 <= offset - self.max_offset <= self._files.per_file

    def _start_at(self, offset: QueueOffset) -> None:
        """As RocketMQ: the first file is blank up to the first entry."""
        self._first = self._written = QueueOffset(offset - offset % self._files.per_file)
        self._tail += BLANK * (offset - self._first)
        self._due = self._first + WRITE_OUT_ENTRIES
        self.min_offset = offset
        self._end_at(offset)

    def _end_at(self, end: QueueOffset) -> None:
        self._ends.total += end - self.max_offset
        self.max_offset = end

    def _write_out_due(self) -> None:
        try:
            self.write_out()
        except OSError as error:
            # A full disk must not stop dispatch: the tail keeps the entries until the disk has room again.
            self._due = self.max_offset + WRITE_OUT_ENTRIES
            log.error("queue not written out topic=%s queue=%d pending_bytes=%d error=%s",
                      self.topic, self.queue_id, len(self._tail), error)  # fmt: skip

    def _first_where(
        self, holds: Callable[[QueueEntry], bool], low: QueueOffset, high: QueueOffset
    ) -> QueueOffset:
        """The first real entry in [low, high) for which `holds`, else `high`; once true it stays true."""
        best = high
        while low < high:
            middle = QueueOffset((low + high) // 2)
            real = self._next_real(middle, high)
            if real == high:
                high = middle
            elif holds(self._entry(real)):
                best, high = real, middle
            else:
                low = QueueOffset(real + 1)
        return best

    def _past_damage(self, end: QueueOffset, log_end: LogOffset) -> QueueOffset:
        """Where the queue is to be cut: behind `end` if sound entries follow, which only grow towards `log_end`.

        Then the one at `end` looks beyond it because a bit is flipped: readers mend it (`queue_mending.py`).
        """
        if end >= self.max_offset:
            return end
        before = self._entry(QueueOffset(end - 1)) if end > self._first else None
        floor = 0 if before is None or before.is_blank else before.log_offset + before.size
        for start in range(end + 1, self.max_offset, _WALK):
            raw = self._bytes(QueueOffset(start), min(QueueOffset(start + _WALK), self.max_offset))
            entries = np.frombuffer(raw, ENTRY_COLUMNS, len(raw) // ENTRY_BYTES)
            offsets, sizes = entries["log_offset"], entries["size"].astype(np.int64)
            below = (sizes > 0) & (sizes < BLANK_SIZE) & (floor <= offsets) & (offsets <= log_end - sizes)
            for at in np.flatnonzero(below).tolist():  # of a queue without damage there is none
                log_offset, size = int(offsets[at]), int(sizes[at])
                if floor <= log_offset:
                    floor = log_offset + size
                    end = QueueOffset(start + at + 1)
        return end

    def _next_real(self, offset: QueueOffset, high: QueueOffset) -> QueueOffset:
        """The first entry in [offset, high) that is not blank, else `high`."""
        while offset < high and self._entry(offset).is_blank:
            chunk = self._bytes(offset, min(QueueOffset(offset + _WALK), high))
            count = len(chunk) // ENTRY_BYTES
            if chunk != BLANK * count:
                starts = range(0, len(chunk), ENTRY_BYTES)
                blanks = next(i for i, at in enumerate(starts) if not chunk.startswith(BLANK, at))
                return QueueOffset(offset + blanks)
            offset = QueueOffset(offset + count)
        return offset

    def _entry(self, offset: QueueOffset) -> QueueEntry:
        """Any entry in files or tail; zeros where a file is shorter than it should be."""
        return QueueEntry._make(
            ENTRY.unpack(self._bytes(offset, QueueOffset(offset + 1)).ljust(ENTRY_BYTES, b"\0"))
        )

    def _bytes(self, start: QueueOffset, end: QueueOffset) -> bytes:
        written = self._written
        if end <= written:
            return self._files.read(start, end - start)
        tail = self._tail[max(0, start - written) * ENTRY_BYTES : (end - written) * ENTRY_BYTES]
        if start >= written:
            return bytes(tail)
        on_disk = self._files.read(start, written - start)
        whole = len(on_disk) == (written - start) * ENTRY_BYTES
        return on_disk + tail if whole else on_disk  # what lies behind lost bytes does not follow them


def count_all_in(queues: Sequence[ConsumeQueue], before: QueueEnds, ends: QueueEnds) -> None:
    """As `count_in` of each, for queues that count in one sum: a topic may have very many."""
    total = sum(map(_END, queues))
    before.total -= total
    ends.total += total
    for queue in queues:
        queue._ends = ends
