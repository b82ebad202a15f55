"""One file of the commit log: records are written to it, pulls are slices of its mapping.

    0                       the log's end            reserved                    size
    |--- records ---------->|--- allocated, zero ----|--- may be a hole ---------|

Writes go only below `reserved`: the blocks there are allocated, so a full disk is an error of `reserve`, never of
a write half done.
"""

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import mmap
from pathlib import Path
from threading import Lock

from rocketeer.errors import StoreRefused
from rocketeer.model.offsets import LogOffset
from rocketeer.store.base_names import base_name
from rocketeer.store.kernel import (
    PAGE_BYTES,
    address_of,
    can_read,
    data_ranges,
    forget_clean_pages,
    populate,
    sync_fd,
    sync_folder,
    sync_range,
)

log = logging.getLogger(__name__)

SEEN_BITS = 16
_CHECK_BYTES = 16 << 20
_COPY_BYTES = 1 << 20


class Segment:
    """A file of the log. The loop thread writes; `reserve`, `populate` and `sync` are made for other threads too.

    The mapping comes and goes: views already given out stay good, because they keep their mapping alive.
    """

    __slots__ = (
        "_fd",
        "_lock",
        "_named",
        "_sealed",
        "address",
        "base",
        "map",
        "path",
        "reserved",
        "seen",
        "size",
        "view",
    )

    def __init__(self, path: Path, base: LogOffset, size: int, *, named: bool = True) -> None:
        """An existing file; `named` says whether its name is known to be durable."""
        self.path = path
        self.base = base
        self.size = size
        self.map: mmap | None = None
        self.view: memoryview | None = None
        self.address = 0
        self.seen = bytearray()
        """By blocks of 64 KB: when their pages were last brought into memory (`CommitLog.epoch`)."""
        self.reserved = 0
        self._fd = -1
        self._lock = Lock()
        self._named = named
        self._sealed = False

    @classmethod
    def create(cls, folder: Path, base: LogOffset, size: int) -> "Segment":
        """A new file of zeros, mapped. Raises StoreRefused when the disk has no room even for its name."""
        path = folder / base_name(base)
        segment = cls(path, base, size, named=False)
        try:
            segment._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            try:
                os.ftruncate(segment._fd, size)
                segment.map_in()
            except OSError:
                segment.unmap()
                path.unlink()
                raise
        except OSError as error:
            raise no_room(error) from error
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.path.name} size={self.size} reserved={self.reserved})"

    def map_in(self) -> memoryview:
        """Map the file, if it is not mapped."""
        with self._lock:
            if self.view is None:
                with self._opened() as fd:
                    self.map = mmap(fd, self.size)  # it has a descriptor of its own
                self.address = address_of(self.map)
                self.seen = bytearray((self.size >> SEEN_BITS) + 1)
                self.view = memoryview(self.map)
            return self.view

    def seal(self) -> None:
        """Close the descriptor: nothing more will be written."""
        with self._lock:
            self._sealed = True
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def unmap(self) -> None:
        """Unmap the file and close its descriptor; both return on demand. Views in flight keep what they need."""
        self.seal()
        self.view = self.map = None

    def reserve(self, end: int) -> None:
        """Allocate the blocks below `end` (within the file). Raises StoreRefused when the disk is full."""
        with self._lock:
            end = min(end, self.size)
            if end <= self.reserved or self._sealed:
                return
            try:
                os.posix_fallocate(self.descriptor(), self.reserved, end - self.reserved)
            except OSError as error:
                raise no_room(error) from error
            self.reserved = end

    def populate(self, start: int, end: int) -> bool:
        """Bring reserved pages in, so that stores into them meet no page fault."""
        end = min(end, self.reserved)  # touching blocks that are not there could kill the process
        mapping = self.map  # the local keeps the mapping alive during the call
        return mapping is not None and start < end and populate(address_of(mapping), start, end)

    def sync(self, start: int, end: int) -> None:
        """Make bytes [start, end) of the file durable, and its name with the first of them.

        A file that was deleted meanwhile needs no sync.
        """
        mapping = self.map
        try:
            if not self._named:
                self.sync_name()
            if mapping is None:
                with self._opened() as fd:
                    sync_fd(fd)
        except FileNotFoundError:
            return
        if mapping is not None and start < end:
            sync_range(address_of(mapping), start, end)

    @property
    def is_named(self) -> bool:
        """Whether its name and size are known to be on disk."""
        return self._named

    def sync_name(self) -> None:
        with self._opened() as fd:
            sync_fd(fd)
        sync_folder(str(self.path.parent))
        self._named = True

    def overwrite(self, at: int, data: bytes) -> None:
        """Put other bytes in the place of damaged ones; durable on return. For recovery.

        A page that the disk does not give back is written as a whole, with zeros around the bytes: to write a part of
        it the kernel would have to read it first.
        """
        self.map_in()
        page = at - at % PAGE_BYTES
        if page < at and self.readable_until(page, at) < at:
            at, data = page, bytes(at - page) + data
        end = at + len(data)
        page_end = min(end + -end % PAGE_BYTES, self.size)
        if end < page_end and self.readable_until(end, page_end) < page_end:
            data += bytes(page_end - end)
        with self._opened() as fd:
            view = memoryview(data)
            while view:
                done = os.pwrite(fd, view, at)
                view, at = view[done:], at + done
            sync_fd(fd)

    def readable(self, at: int, size: int | None = None) -> memoryview:
        """The segment up to the first place behind `at` (of `size` bytes) that must not be touched.

        That is a hole, which can kill the process on a full disk, or a page that the disk does not give back.
        """
        view = self.map_in()
        ranges = self.data_ranges(at)
        if not ranges or ranges[0][0] != at:
            return view[:at]
        end = ranges[0][1]
        if size is not None:
            return view[: self.readable_until(at, min(at + size, end))]
        done = at
        while done < end:
            step = min(done + _CHECK_BYTES, end)
            done = self.readable_until(done, step)
            if done < step:
                break
        return view[:done]

    def readable_until(self, start: int, end: int) -> int:
        """`end`, or the first page of [start, end) that cannot be read."""
        if can_read(self.address, start, end):
            return end
        with self._opened() as fd:  # an old kernel, or a bad page: look at each
            at = start
            while at < end:
                upto = min(end, at - at % PAGE_BYTES + PAGE_BYTES)
                try:
                    if len(os.pread(fd, upto - at, at)) < upto - at:
                        return at
                except OSError as error:
                    log.error("log page unreadable path=%s at=%d error=%s", self.path, at, error)
                    return at
                at = upto
        return end

    def copy(self, start: int, end: int) -> bytes:
        """Bytes of the file, zeros where the disk does not give them back. For recovery."""
        parts = []
        with self._opened() as fd:
            at = start
            while at < end:
                try:
                    part = os.pread(fd, end - at, at)
                except OSError:
                    part = b""
                if not part:  # this page is lost
                    upto = min(end, at - at % PAGE_BYTES + PAGE_BYTES)
                    good = self.readable_until(at, upto)
                    part = os.pread(fd, good - at, at) if good > at else bytes(upto - at)
                parts.append(part)
                at += len(part)
        return b"".join(parts)

    def zero_from(self, start: int) -> int:
        """Turn everything from `start` on into zeros; how many bytes were not zero before."""
        gone = 0
        for low, high in self.written_ranges(start):
            for at in range(low, high, _COPY_BYTES):
                upto = min(at + _COPY_BYTES, high)
                chunk = self.copy(at, upto)
                zeros = chunk.count(0)
                if zeros != len(chunk):
                    gone += len(chunk) - zeros
                    self.overwrite(at, bytes(upto - at))
        return gone

    def used_until(self, start: int) -> int:
        """Behind the last byte from `start` on that is not zero."""
        for low, high in reversed(self.written_ranges(start)):
            for upto in range(high, low, -_COPY_BYTES):
                at = max(low, upto - _COPY_BYTES)
                used = len(self.copy(at, upto).rstrip(b"\0"))
                if used:
                    return at + used
        return start

    def data_ranges(self, start: int) -> list[tuple[int, int]]:
        """Where from `start` on there may be bytes that are not zero."""
        with self._opened() as fd:
            return data_ranges(fd, start, self.size)

    def written_ranges(self, start: int) -> list[tuple[int, int]]:
        """As `data_ranges`, without what was only brought into memory ahead of a writer that is gone.

        The kernel takes every page in memory for data: gigabytes of zeros, that nobody ever wrote.
        """
        with self._opened() as fd:
            forget_clean_pages(fd, start)
            return data_ranges(fd, start, self.size)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """A descriptor for a moment: only a segment being written keeps one."""
        fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            yield fd
        finally:
            os.close(fd)

    def descriptor(self) -> int:
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        return self._fd


def no_room(error: OSError) -> StoreRefused:
    """The StoreRefused for a failed allocation."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreRefused(StoreRefused.DISK_FULL, "the disk of the commit log is full")
    return StoreRefused(StoreRefused.NOT_WRITABLE, f"the commit log cannot grow: {error}")
