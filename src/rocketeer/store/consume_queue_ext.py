"""What RocketMQ keeps beside a consume queue when enableConsumeQueueExt is on: a unit per message, with bloom bits.

Under `ExtendedQueue`, above the shared `FileCache`. A tag code at or below ADDRESS_MAX is no hash but the address
of a unit in consumequeue_ext/TOPIC/QUEUE/:

    address = -2^63 + byte offset over all the queue's files (named by offset, 20 digits, one size)
    unit, big-endian: size i16 | tag code i64 | store ms i64 | filter bytes i16 | filter

A file ends with size -1 where the next unit does not fit with 4 bytes to spare; zeros follow the last unit.

New units wait in memory, as the queue's entries do, and are written in runs before the entries that point to them.
"""

import logging
import os
import struct
from typing import NamedTuple

from rocketeer.store.base_names import base_name, bases_in
from rocketeer.store.file_cache import FileCache

log = logging.getLogger(__name__)

UNIT = struct.Struct(">hqqh")
assert UNIT.size == 20, "the files interoperate with RocketMQ's"

ADDRESS_MIN = -(1 << 63)
ADDRESS_MAX = -(1 << 31) - 1  # every tag hash is above: it has 32 bits


FILE_END = struct.pack(">h", -1)
SPARE_BYTES = 4  # at the end of a file
UNIT_BYTES_MAX = 0x7FFF


class ExtUnit(NamedTuple):
    tag_code: int
    store_ms: int
    filter_bits: bytes

    @property
    def size(self) -> int:
        return UNIT.size + len(self.filter_bits)


def is_address(tag_code: int) -> bool:
    return tag_code <= ADDRESS_MAX


class ConsumeQueueExt:
    """The units of one queue; holds no descriptor of its own.

    Invariant, once resumed: units below `_written` are in files, the rest up to `_end` is the tail.
    """

    __slots__ = ("_end", "_file_bytes", "_files", "_folder", "_tail", "_written")

    def __init__(self, folder: str | os.PathLike[str], file_bytes: int, files: FileCache) -> None:
        """`file_bytes` is mappedFileSizeConsumeQueueExt (48 MiB by default)."""
        self._folder = os.fspath(folder)
        self._file_bytes = file_bytes
        self._files = files
        self._end = -1  # where the next unit goes; unknown until `resume`
        self._written = 0
        self._tail = bytearray()

    # --- writing -----------------------------------------------------------------------------

    @property
    def is_resumed(self) -> bool:
        return self._end >= 0

    def resume(self, last_address: int | None) -> None:
        """Go on behind the unit of the queue's last entry; what lies there was cut off the queue, and goes.

        None: the queue has no entry, so no unit has a meaning.
        """
        if last_address is None:
            self.remove()
            return
        unit = self.read(last_address)
        end = last_address - ADDRESS_MIN + unit.size if unit is not None else self._find_end()
        if not self._tail:
            self._written = end
        del self._tail[max(0, end - self._written) :]
        self._written = min(self._written, end)
        self._clear_from(self._written)
        self._end = end

    def put(self, tag_code: int, store_ms: int, filter_bits: bytes) -> int:
        """Append a unit; its address."""
        assert self._end >= 0, "resume first"
        size = UNIT.size + len(filter_bits)
        assert size <= UNIT_BYTES_MAX
        at = self._end % self._file_bytes
        if at and at + size + SPARE_BYTES > self._file_bytes:
            self._tail += FILE_END.ljust(self._file_bytes - at, b"\0")
            self._end += self._file_bytes - at
        self._tail += UNIT.pack(size, tag_code, store_ms, len(filter_bits)) + filter_bits
        address = ADDRESS_MIN + self._end
        self._end += size
        return address

    def write_out(self) -> None:
        """Put the tail into files. On OSError (a full disk) nothing is lost: what was not written stays in it."""
        tail = self._tail
        while tail:
            at = self._written % self._file_bytes
            run = min(len(tail), self._file_bytes - at)
            whole = run == len(tail)
            self._files.write(
                self._path(self._written - at), tail if whole else tail[:run], at, self._file_bytes
            )
            self._written += run
            del tail[:run]

    def forget_end(self) -> None:
        """Forget where the units end, as the queue was cut: `resume` before the next one."""
        self._end = -1

    def forget(self) -> None:
        """The files are gone, or belong to another queue."""
        self._tail.clear()
        self._end = -1

    def release_below(self, address: int) -> list[str]:
        """The files wholly below a unit's address, for `delete_paths` in a worker thread."""
        first = address - ADDRESS_MIN
        paths = [self._path(base) for base in bases_in(self._folder) if base + self._file_bytes < first]
        for path in paths:
            self._files.forget(path)
        return paths

    def remove(self) -> None:
        """Delete all of it and start again from nothing."""
        for base in bases_in(self._folder):
            self._delete(self._path(base))
        for folder in (self._folder, os.path.dirname(self._folder)):  # the topic's too, with its last queue
            try:
                os.rmdir(folder)
            except OSError:
                break  # it is not there, or something else is in it
        self._tail.clear()
        self._written = self._end = 0

    def _clear_from(self, end: int) -> None:
        at = end % self._file_bytes
        for base in bases_in(self._folder):
            if base >= end:
                self._delete(self._path(base))
            elif base == end - at:
                self._files.cut(self._path(base), at, self._file_bytes)

    def _find_end(self) -> int:
        """Behind the last whole unit that there is."""
        if self._tail:
            return self._written + len(self._tail)
        bases = bases_in(self._folder)
        if not bases:
            return 0
        base = bases[-1]
        at = 0
        while at + UNIT.size <= self._file_bytes:
            unit = self.read(ADDRESS_MIN + base + at)
            if unit is None:
                break
            at += unit.size
        return base + at

    def _path(self, base: int) -> str:
        return f"{self._folder}/{base_name(base)}"

    def _delete(self, path: str) -> None:
        self._files.forget(path)
        os.unlink(path)
        log.info("queue extension file dropped path=%s", path)

    # --- reading -----------------------------------------------------------------------------

    def read(self, address: int) -> ExtUnit | None:
        """The unit at an address found in the queue; None if the files do not have it (they may be lost)."""
        if not is_address(address):
            return None
        offset = address - ADDRESS_MIN
        raw = self._bytes(offset, UNIT.size)
        if len(raw) < UNIT.size:
            return None
        size, tag_code, store_ms, filter_bytes = UNIT.unpack(raw)
        if size < UNIT.size or size != UNIT.size + max(0, filter_bytes):
            return None
        bits = self._bytes(offset + UNIT.size, filter_bytes) if filter_bytes > 0 else b""
        return ExtUnit(tag_code, store_ms, bits) if len(bits) == max(0, filter_bytes) else None

    def _bytes(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes of one unit, from the tail or from its file."""
        if self._tail and offset >= self._written:
            start = offset - self._written
            return bytes(self._tail[start : start + size])
        at = offset % self._file_bytes
        return self._files.read(self._path(offset - at), size, at)
