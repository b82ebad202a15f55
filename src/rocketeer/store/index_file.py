"""One index file: a hash table from "topic#key" to places in the log, as `index_layout.py` draws it.

`index.py` keeps the row of files. A file is sparse. Entries and header are written at once, in this order; slots
change in memory, in a private mapping, and go to the file with the next checkpoint (`take_changed_slots`): keys fall
into slots at random, and through a shared mapping every page would fault again each time the kernel has written it.
A process that dies leaves entries without a way to them, never a way to no entry; `keep_below` mends that.
"""

import mmap
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rocketeer.model.offsets import LogOffset
from rocketeer.store.index_layout import ENTRY, ENTRY_STRUCT, HEADER, SLOT, IndexHeader, file_bytes
from rocketeer.store.index_loops import PAGE_BYTES, fill_slots, link_entries, newest_in_slots
from rocketeer.store.kernel import begin_writing, write_at

_WRITE_BYTES = 64 << 10
_REPAIR_ENTRIES = 1 << 20  # looked at in one go, so that repair needs little memory


@dataclass(frozen=True, slots=True)
class ChangedSlots:
    """Parts of a file's slots that it does not have yet; `write` is for another thread.

    They may change meanwhile: a slot then leads to an entry that is newer, and written already.
    """

    path: str
    memory: memoryview
    ranges: list[tuple[int, int]]

    def write(self, *, pause_s: float = 0.0) -> None:
        """Raises OSError; a file that was deleted meanwhile needs nothing.

        With a pause between the pieces the thread that answers requests gets the core back after each of them;
        without, 20 MB can keep it waiting for milliseconds.
        """
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            for start, end in self.ranges:
                while start < end:
                    done = os.pwrite(fd, self.memory[start : min(end, start + _WRITE_BYTES)], start)
                    begin_writing(fd, start, start + done)
                    start += done
                    if pause_s:
                        time.sleep(pause_s)
        finally:
            os.close(fd)


class IndexFile:
    """Entries in the order they came, so in the order of the log; `header` is always what the file says."""

    __slots__ = (
        "_allocated",
        "_changed",
        "_entries",
        "_fd",
        "_map",
        "_slots",
        "_slots_map",
        "entries_max",
        "header",
        "path",
        "slots_max",
    )

    def __init__(self, path: str, slots_max: int, entries_max: int) -> None:
        assert slots_max > 0
        assert entries_max > 1
        self.path = path
        self.slots_max = slots_max
        self.entries_max = entries_max
        self._fd = -1
        self._allocated = False
        self._map: mmap.mmap | None = None
        self._slots_map: mmap.mmap | None = None
        self._slots: NDArray[np.void] = np.empty(0, SLOT)
        self._entries: NDArray[np.void] = np.empty(0, ENTRY)
        self._changed = np.zeros(self._entries_at // PAGE_BYTES + 1, np.uint8)
        """1 for a page of the file with slots that only our memory has."""
        with open(path, "rb") as file:
            self.header = IndexHeader.unpack(file.read(HEADER.size))

    @property
    def room(self) -> int:
        """Entries that still fit."""
        return max(0, self.entries_max - self.header.next_entry)

    @property
    def is_empty(self) -> bool:
        return self.header.next_entry <= 1

    @property
    def file_bytes(self) -> int:
        return file_bytes(self.slots_max, self.entries_max)

    @property
    def is_changed(self) -> bool:
        """Has it slots that the file does not?"""
        return bool(self._changed.any())

    @property
    def _entries_at(self) -> int:
        return HEADER.size + self.slots_max * SLOT.itemsize

    # --- writing -----------------------------------------------------------------------------

    def put_many(
        self, hashes: NDArray[np.int32], log_offsets: NDArray[np.int64], store_ms: NDArray[np.int64]
    ) -> int:
        """Add entries until the file is full; how many were added. The same bytes as one by one.

        OSError (no space) is raised before anything is written.
        """
        head = self.header
        first = head.next_entry
        count = min(len(hashes), self.room)
        if count <= 0:
            return 0
        hashes, log_offsets, store_ms = hashes[:count], log_offsets[:count], store_ms[:count]
        self._open_for_writing()

        begin_ms = int(store_ms[0]) if first == 1 else head.begin_ms
        # RocketMQ measures the first entry of a file from the end of the file before.
        slots = self._slots.view(np.uint8)
        entries, fresh = link_entries(slots, hashes, log_offsets, store_ms, first, head.begin_ms, begin_ms)
        self._write_entries(first, entries)
        self._set_header(
            IndexHeader(
                begin_ms,
                int(store_ms[-1]),
                LogOffset(int(log_offsets[0])) if first == 1 else head.begin_offset,
                LogOffset(int(log_offsets[-1])),
                head.used_slots + fresh,
                first + count,
            )
        )
        fill_slots(slots, hashes, first, self._changed, HEADER.size)
        return count

    def take_changed_slots(self) -> ChangedSlots | None:
        """What has changed since the last call; whoever takes it writes it, or says `mark_all`."""
        if not self.is_changed:
            return None
        assert self._slots_map is not None
        edges = np.flatnonzero(np.diff(self._changed, prepend=0, append=0)) * PAGE_BYTES
        low, high = HEADER.size, self._entries_at
        starts, ends = edges[::2].clip(min=low).tolist(), edges[1::2].clip(max=high).tolist()
        self._changed[:] = 0
        return ChangedSlots(self.path, memoryview(self._slots_map), list(zip(starts, ends, strict=True)))

    def mark_all(self) -> None:
        """Mark all slots as changed: writing them failed, so the file's slots are unknown."""
        if self._map is not None:
            self._changed[:] = 1

    def keep_below(self, log_offset: LogOffset) -> int:
        """Drop the entries at or beyond `log_offset` and find every slot's newest entry again; how many went.

        What was written before `log_offset` became safe is whole; behind it may be anything.
        """
        self._open_for_writing()
        head = self.header
        end = min(head.next_entry, self.entries_max)
        slots = np.zeros(self.slots_max, np.int32)
        kept, last_offset = 1, LogOffset(-1)
        while kept < end:
            chunk = self._entries[kept : min(kept + _REPAIR_ENTRIES, end)]
            good, last_offset = newest_in_slots(chunk.view(np.uint8), kept, last_offset, log_offset, slots)
            kept += good
            if good < len(chunk):
                break
        self._clear_entries(kept, end)
        changed = np.flatnonzero(self._slots != slots)  # pages that are right stay as they are
        self._slots[changed] = slots[changed]
        self._changed[(HEADER.size + changed * SLOT.itemsize) // PAGE_BYTES] = 1
        used = int(np.count_nonzero(slots))
        if kept == head.next_entry:
            self._set_header(replace(head, used_slots=used))
        elif kept == 1:
            self._set_header(IndexHeader())
        else:
            # Whole seconds are all an entry keeps; the next put gives the end exactly again.
            end_ms = head.begin_ms + int(self._entries["seconds"][kept - 1]) * 1000 + 999
            end_ms = min(head.end_ms, end_ms)
            self._set_header(
                replace(
                    head, end_ms=end_ms, end_offset=LogOffset(last_offset), used_slots=used, next_entry=kept
                )
            )
        return head.next_entry - kept

    # --- reading -----------------------------------------------------------------------------

    def overlaps(self, begin_ms: int, end_ms: int) -> bool:
        """Could entries lie in the time range?"""
        head = self.header
        return (
            (begin_ms < head.begin_ms and end_ms > head.end_ms)
            or head.begin_ms <= begin_ms <= head.end_ms
            or head.begin_ms <= end_ms <= head.end_ms
        )

    def selecting(self, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[LogOffset | None]:
        """Log offsets of entries with this hash, newest first; None for others of the same slot.

        Entries know their time to the second. The file may be unmapped between two steps: each looks again.
        """
        if self.is_empty:
            return
        self._open_map()
        head = self.header
        entries_at = self._entries_at
        number = int(self._slots[key_hash % self.slots_max])
        above = min(head.next_entry, self.entries_max)
        while 0 < number < above:
            entry_hash, log_offset, seconds, older = ENTRY_STRUCT.unpack_from(
                self._open_map(), entries_at + number * ENTRY_STRUCT.size
            )
            stored_ms = head.begin_ms + seconds * 1000
            if seconds < 0 or stored_ms < begin_ms:
                return
            yield log_offset if entry_hash == key_hash and stored_ms <= end_ms else None
            above, number = number, older  # older ones stand before: a broken chain makes no circle

    # --- the mapping -------------------------------------------------------------------------

    def close(self) -> None:
        """Write what only our memory has, and unmap; the next use maps again. Raises OSError."""
        changed = self.take_changed_slots()
        if changed is not None:
            changed.write()
        self.unmap()

    def unmap(self) -> None:
        """Unmap and forget what was not written: the file is to be deleted, or mended at the next start."""
        self._changed[:] = 0
        self._slots = np.empty(0, SLOT)
        self._entries = np.empty(0, ENTRY)
        if self._map is not None:
            self._map = self._slots_map = None  # not closed: a thread may still write from them
            os.close(self._fd)

    def _open_map(self) -> mmap.mmap:
        if self._map is not None:
            return self._map
        fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            whole = mmap.mmap(fd, self.file_bytes, access=mmap.ACCESS_READ)
            self._slots_map = mmap.mmap(fd, self._entries_at, access=mmap.ACCESS_COPY)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        self._map = whole
        self._slots = np.frombuffer(self._slots_map, SLOT, self.slots_max, HEADER.size)
        self._entries = np.frombuffer(whole, ENTRY, self.entries_max, self._entries_at)
        return whole

    def _open_for_writing(self) -> None:
        self._open_map()
        if not self._allocated:
            # RocketMQ leaves slots as holes: that the disk has no room for them is an error of now, not of later.
            os.posix_fallocate(self._fd, 0, self._entries_at)
            self._allocated = True

    def _write_entries(self, first: int, entries: bytes) -> None:
        write_at(self._fd, entries, self._entries_at + first * ENTRY.itemsize)

    def _clear_entries(self, first: int, end: int) -> None:
        """Overwrite the entries from `first` to `end` with zeros."""
        zeros = bytes(min(end - first, _REPAIR_ENTRIES) * ENTRY.itemsize)
        while first < end:
            count = min(end - first, _REPAIR_ENTRIES)
            self._write_entries(first, zeros[: count * ENTRY.itemsize])
            first += count

    def _set_header(self, header: IndexHeader) -> None:
        write_at(self._fd, header.pack(), 0)
        self.header = header
