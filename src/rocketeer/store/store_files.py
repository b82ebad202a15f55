"""A store's files, read from outside its broker: segments of the log, mapped, and entries of consume queues.

Knows RocketMQ's layout and nothing of Spark: any file may be shorter than its broker made it (copies are cut), and
files may come and go while a broker lives.
"""

import mmap
import os
from bisect import bisect_right
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from rocketeer.errors import StoreError
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.record.layout import MAGIC, stored_ms
from rocketeer.record.vectorised import FIELDS, START
from rocketeer.store.base_names import base_name, bases_in
from rocketeer.store.queue_entry import BLANK_SIZE, ENTRY_BYTES, ENTRY_COLUMNS

Entries = NDArray[Any]
_MAPPED_MAX: Final = 4
_NONE: Final[Entries] = np.empty(0, dtype=ENTRY_COLUMNS)


class LogFilesView:
    """The commit log: which bytes there are, and records found in them."""

    def __init__(self, store: Path) -> None:
        self._folder = store / "commitlog"
        self._mapped: OrderedDict[LogOffset, tuple[NDArray[np.uint8], int]] = OrderedDict()
        self._bases: list[LogOffset] = []
        if not self._folder.is_dir():
            raise StoreError(f"{store} is not a store: it has no folder commitlog")
        self.refresh()

    def refresh(self) -> None:
        """Look for segments that came and went."""
        self._bases = [LogOffset(base) for base in bases_in(self._folder)]
        for base in [base for base in self._mapped if base not in self._bases]:
            del self._mapped[base]

    @property
    def min_offset(self) -> LogOffset:
        return self._bases[0] if self._bases else LogOffset(0)

    def base_of(self, offset: LogOffset) -> LogOffset | None:
        """The segment an offset belongs to, whether it has that byte or not."""
        at = bisect_right(self._bases, offset) - 1
        return self._bases[at] if at >= 0 else None

    def next_base(self, base: LogOffset) -> LogOffset | None:
        at = bisect_right(self._bases, base)
        return self._bases[at] if at < len(self._bases) else None

    def view(self, base: LogOffset) -> NDArray[np.uint8]:
        """A segment's bytes; empty when its file is gone."""
        found = self._mapped.get(base)
        path = self._folder / base_name(base)
        try:
            size = path.stat().st_size
            if found is None or found[1] < size:  # the file of a copy in progress grows
                with open(path, "rb") as file:
                    mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
                found = (np.frombuffer(mapped, dtype=np.uint8), size)
                self._mapped[base] = found
        except FileNotFoundError:
            return np.empty(0, dtype=np.uint8) if found is None else found[0]
        self._mapped.move_to_end(base)
        while len(self._mapped) > _MAPPED_MAX:
            self._mapped.popitem(last=False)
        return found[0]

    def heads_match(
        self, base: LogOffset, offsets: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether a whole record of that size stands at each place of the segment."""
        data = self.view(base)
        good: NDArray[np.bool_] = (offsets >= 0) & (sizes >= FIELDS.itemsize) & (offsets + sizes <= len(data))
        where = offsets[good]
        if len(where):
            heads = sliding_window_view(data, START.itemsize)[where].view(START).reshape(-1)
            good[good] = (heads["size"] == sizes[good]) & (heads["magic"] == MAGIC)
        return good

    def has(self, log_offset: LogOffset, size: int) -> bool:
        base = self.base_of(log_offset)
        if base is None:
            return False
        return bool(self.heads_match(base, np.array([log_offset - base]), np.array([size]))[0])

    def stored_ms(self, log_offset: LogOffset) -> int:
        """When the record there was stored; the caller knows there is one."""
        base = self.base_of(log_offset)
        assert base is not None
        return stored_ms(self.view(base).data, log_offset - base)


class QueueFilesView:
    """One consume queue's entries on disk."""

    def __init__(self, store: Path, topic: str, queue_id: int) -> None:
        self._folder = store / "consumequeue" / topic / str(queue_id)

    def entries(self, begin: QueueOffset, end: QueueOffset) -> Entries:
        """Written entries [begin, end) as far as they are there; empty if `begin` is not."""
        parts: list[Entries] = []
        at = begin
        bases = bases_in(self._folder)
        while at < end:
            place = bisect_right(bases, at * ENTRY_BYTES) - 1
            if place < 0:
                break
            base = bases[place]
            stop = bases[place + 1] // ENTRY_BYTES if place + 1 < len(bases) else end
            wanted = min(end, stop) - at
            part = self._read(base, at * ENTRY_BYTES - base, wanted)
            unwritten = np.flatnonzero(part["size"] <= 0)
            part = part[: unwritten[0]] if len(unwritten) else part
            parts.append(part)
            at = QueueOffset(at + len(part))
            if len(part) < wanted:
                break
        return np.concatenate(parts) if parts else _NONE

    def bounds(self) -> tuple[QueueOffset, QueueOffset]:
        """The first and the end of the entries in the files."""
        bases = bases_in(self._folder)
        if not bases:
            return QueueOffset(0), QueueOffset(0)
        first = QueueOffset(bases[0] // ENTRY_BYTES)
        for base in reversed(bases):  # the last one may have been made in advance
            size = (self._folder / base_name(base)).stat().st_size
            written = self._read(base, 0, size // ENTRY_BYTES)["size"] > 0
            if written.any():
                return first, QueueOffset(base // ENTRY_BYTES + int(np.flatnonzero(written)[-1]) + 1)
        return first, first

    def _read(self, base: int, at: int, count: int) -> Entries:
        try:
            descriptor = os.open(self._folder / base_name(base), os.O_RDONLY)
        except FileNotFoundError:
            return _NONE
        try:
            raw = os.pread(descriptor, count * ENTRY_BYTES, at)
        finally:
            os.close(descriptor)
        return np.frombuffer(raw, dtype=ENTRY_COLUMNS, count=len(raw) // ENTRY_BYTES)


def topic_queues(store: Path) -> dict[str, list[int]]:
    """The queues that have a folder, by topic."""
    found: dict[str, list[int]] = {}
    folder = store / "consumequeue"
    if folder.is_dir():
        for topic in folder.iterdir():
            if topic.is_dir():
                ids = [int(queue.name) for queue in topic.iterdir() if queue.name.isdigit()]
                found[topic.name] = sorted(ids)
    return found


def is_blank(entry: Any) -> bool:
    """Whether it stands where a queue has no message, for example before its first one."""
    return int(entry["size"]) == BLANK_SIZE and int(entry["log_offset"]) == 0
