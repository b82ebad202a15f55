"""One index file: a hash table from "topic#key" to places in the log. `index.py` keeps the row of files.

    header, 40 bytes, big-endian:
        begin ms i64 | end ms i64 | begin offset i64 | end offset i64 | used slots i32 | next entry i32
    slots:   `slots` x i32, the newest entry of the keys that fall into the slot, 0 = none
    entries: `entries` x 20 bytes: key hash i32 | log offset i64 | seconds since begin i32 | older entry i32
             (entry 0 is never used, so next entry starts at 1)

The file is sparse. Entries and header are written at once, in this order; slots change in memory, in a private
mapping, and go to the file with the next checkpoint (`take_changed_slots`): keys fall into slots at random, and
through a shared mapping every page would fault again each time the kernel has written it. A process that dies
leaves entries without a way to them, never a way to no entry; `keep_below` mends that.
"""

import mmap
import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rocketeer.model.offsets import LogOffset
from rocketeer.store.index_twin import compiled as _compiled
from rocketeer.store.kernel import begin_writing

HEADER = struct.Struct(">qqqqii")
assert HEADER.size == 40, "the files interoperate with RocketMQ's"
SLOT = np.dtype(">i4")
ENTRY = np.dtype([("hash", ">i4"), ("log_offset", ">i8"), ("seconds", ">i4"), ("older", ">i4")])
assert ENTRY.itemsize == 20, "the files interoperate with RocketMQ's"
_READ_ENTRY = struct.Struct(">iqii")

_INT_MAX = 0x7FFFFFFF
_PAGE_BYTES = 4096
_WRITE_BYTES = 64 << 10
_REPAIR_ENTRIES = 1 << 20  # looked at in one go, so that repair needs little memory


@dataclass(frozen=True, slots=True)
class IndexHeader:
    begin_ms: int = 0
    end_ms: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    used_slots: int = 0
    next_entry: int = 1

    def pack(self) -> bytes:
        return HEADER.pack(
            self.begin_ms, self.end_ms, self.begin_offset, self.end_offset, self.used_slots, self.next_entry
        )

    @classmethod
    def unpack(cls, raw: bytes) -> "IndexHeader":
        """A header never written is zeros; its count means 1."""
        begin_ms, end_ms, begin, end, used, count = HEADER.unpack(raw.ljust(HEADER.size, b"\0"))
        return cls(begin_ms, end_ms, begin, end, used, count if count > 0 else 1)


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
        self._changed = np.zeros(self._entries_at // _PAGE_BYTES + 1, np.uint8)
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
        entries, fresh = self._link(hashes, log_offsets, store_ms, first, head.begin_ms, begin_ms)
        self._write_entries(first, entries)
        self._set_header(
            IndexHeader(
                begin_ms,
                int(store_ms[-1]),
                int(log_offsets[0]) if first == 1 else head.begin_offset,
                int(log_offsets[-1]),
                head.used_slots + fresh,
                first + count,
            )
        )
        if _compiled is not None:
            _compiled.fill_slots(self._slots.view(np.uint8), hashes, first, self._changed, HEADER.size)
        else:  # of equal places the last one stays
            places = hashes % np.int32(self.slots_max)
            self._slots[places] = np.arange(first, first + count, dtype=np.int32)
            self._mark(places)
        return count

    def _mark(self, places: NDArray[np.int32] | NDArray[np.intp]) -> None:
        self._changed[(HEADER.size + places.astype(np.int64) * SLOT.itemsize) // _PAGE_BYTES] = 1

    def take_changed_slots(self) -> ChangedSlots | None:
        """What has changed since the last call; whoever takes it writes it, or says `mark_all`."""
        if not self.is_changed:
            return None
        assert self._slots_map is not None
        edges = np.flatnonzero(np.diff(self._changed, prepend=0, append=0)) * _PAGE_BYTES
        low, high = HEADER.size, self._entries_at
        starts, ends = edges[::2].clip(min=low).tolist(), edges[1::2].clip(max=high).tolist()
        self._changed[:] = 0
        return ChangedSlots(self.path, memoryview(self._slots_map), list(zip(starts, ends, strict=True)))

    def mark_all(self) -> None:
        """Nobody knows any more which slots the file has."""
        if self._map is not None:
            self._changed[:] = 1

    def _link(
        self,
        hashes: NDArray[np.int32],
        log_offsets: NDArray[np.int64],
        store_ms: NDArray[np.int64],
        first: int,
        first_begin_ms: int,
        begin_ms: int,
    ) -> tuple[bytes, int]:
        """The bytes of new entries, and how many of them are the first in their slot."""
        if _compiled is not None:
            slots = self._slots.view(np.uint8)
            return _compiled.link_entries(
                slots, hashes, log_offsets, store_ms, first, first_begin_ms, begin_ms
            )
        count = len(hashes)
        places = hashes % np.int32(self.slots_max)
        numbers = np.arange(first, first + count, dtype=np.int32)
        older = self._slots[places].astype(np.int32)
        older[(older < 0) | (older > numbers)] = 0
        _link_within(places, numbers, older)
        batch = np.empty(count, ENTRY)
        batch["hash"] = hashes
        batch["log_offset"] = log_offsets
        batch["seconds"] = _seconds_since(begin_ms, store_ms)
        batch["seconds"][0] = _seconds_since(first_begin_ms, store_ms[:1])[0]
        batch["older"] = older
        return batch.tobytes(), count - int(np.count_nonzero(older))

    def keep_below(self, log_offset: LogOffset) -> int:
        """Drop the entries at or beyond `log_offset` and find every slot's newest entry again; how many went.

        What was written before `log_offset` became safe is whole; behind it may be anything.
        """
        self._open_for_writing()
        head = self.header
        end = min(head.next_entry, self.entries_max)
        slots = np.zeros(self.slots_max, np.int32)
        kept, last_offset = 1, -1
        while kept < end:
            chunk = self._entries[kept : min(kept + _REPAIR_ENTRIES, end)]
            good, last_offset = _newest_in_slots(chunk, kept, last_offset, log_offset, slots)
            kept += good
            if good < len(chunk):
                break
        self._clear_entries(kept, end)
        changed = np.flatnonzero(self._slots != slots)  # pages that are right stay as they are
        self._slots[changed] = slots[changed]
        self._mark(changed)
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
                replace(head, end_ms=end_ms, end_offset=last_offset, used_slots=used, next_entry=kept)
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

    def selecting(self, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[int | None]:
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
            entry_hash, log_offset, seconds, older = _READ_ENTRY.unpack_from(
                self._open_map(), entries_at + number * _READ_ENTRY.size
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
        self.let_go()

    def let_go(self) -> None:
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
        at = self._entries_at + first * ENTRY.itemsize
        view = memoryview(entries)
        while view:
            done = os.pwrite(self._fd, view, at)
            view, at = view[done:], at + done

    def _clear_entries(self, first: int, end: int) -> None:
        """Overwrite the entries from `first` to `end` with zeros."""
        zeros = bytes(min(end - first, _REPAIR_ENTRIES) * ENTRY.itemsize)
        while first < end:
            count = min(end - first, _REPAIR_ENTRIES)
            self._write_entries(first, zeros[: count * ENTRY.itemsize])
            first += count

    def _set_header(self, header: IndexHeader) -> None:
        os.pwrite(self._fd, header.pack(), 0)
        self.header = header


def file_bytes(slots: int, entries: int) -> int:
    return HEADER.size + slots * SLOT.itemsize + entries * ENTRY.itemsize


def _seconds_since(begin_ms: int, store_ms: NDArray[np.int64]) -> NDArray[np.int64]:
    if begin_ms <= 0:
        return np.zeros(len(store_ms), np.int64)
    return np.minimum(np.maximum((store_ms - begin_ms) // 1000, 0), _INT_MAX)


def _link_within(places: NDArray[np.int32], numbers: NDArray[np.int32], older: NDArray[np.int32]) -> None:
    """Where several entries of one batch fall into one slot, each points to the one before it."""
    in_order = np.sort(places)
    if not (in_order[1:] == in_order[:-1]).any():
        return
    order = np.argsort(places, kind="stable")
    same = places[order[1:]] == places[order[:-1]]
    older[order[1:][same]] = numbers[order[:-1][same]]


def _newest_in_slots(
    chunk: NDArray[np.void], first: int, before: int, log_offset: LogOffset, slots: NDArray[np.int32]
) -> tuple[int, int]:
    """Let slots point to the good entries of a chunk, which begins with number `first`: how many are good, and the
    last one's log offset."""
    if _compiled is not None:
        return _compiled.newest_in_slots(chunk.view(np.uint8), first, before, log_offset, slots)
    offsets = chunk["log_offset"].astype(np.int64)
    good = _leading_good(chunk, offsets, before, log_offset)
    places = chunk["hash"][:good].astype(np.int32) % np.int32(len(slots))
    slots[places] = np.arange(first, first + good, dtype=np.int32)
    return good, int(offsets[good - 1]) if good else before


def _leading_good(
    chunk: NDArray[np.void], offsets: NDArray[np.int64], before: int, log_offset: LogOffset
) -> int:
    """How many from the start are entries below `log_offset`: offsets only grow, zeros are no entry."""
    bad = offsets >= log_offset
    bad[0] |= offsets[0] < before
    bad[1:] |= offsets[1:] < offsets[:-1]
    bad |= (offsets == 0) & (chunk["hash"] == 0) & (chunk["seconds"] == 0) & (chunk["older"] == 0)
    return int(bad.argmax()) if bad.any() else len(bad)
