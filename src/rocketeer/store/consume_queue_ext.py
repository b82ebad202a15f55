"""Reads what RocketMQ keeps beside a consume queue when bloom filters are on; we read it and never write it.

A tag code at or below ADDRESS_MAX is no hash but the address of a unit in consumequeue_ext/TOPIC/QUEUE/:

    address = -2^63 + byte offset over all the queue's files (named by offset, 20 digits, one size)
    unit, big-endian: size i16 | tag code i64 | store ms i64 | filter bytes i16 | filter
"""

import os
import struct
from typing import NamedTuple

from rocketeer.store.file_cache import FileCache

UNIT = struct.Struct(">hqqh")
assert UNIT.size == 20, "the files interoperate with RocketMQ's"

ADDRESS_MIN = -(1 << 63)
ADDRESS_MAX = -(1 << 31) - 1  # every tag hash is above: it has 32 bits


class ExtUnit(NamedTuple):
    tag_code: int
    store_ms: int
    filter_bits: bytes


def is_address(tag_code: int) -> bool:
    return tag_code <= ADDRESS_MAX


class ConsumeQueueExt:
    """The units of one queue; holds no descriptor of its own."""

    __slots__ = ("_file_bytes", "_files", "_folder")

    def __init__(self, folder: str | os.PathLike[str], file_bytes: int, files: FileCache) -> None:
        """`file_bytes` is mappedFileSizeConsumeQueueExt (48 MiB by default)."""
        self._folder = os.fspath(folder)
        self._file_bytes = file_bytes
        self._files = files

    def read(self, address: int) -> ExtUnit | None:
        """The unit at an address found in the queue; None if the files do not have it (they may be lost)."""
        if not is_address(address):
            return None
        offset = address - ADDRESS_MIN
        at = offset % self._file_bytes
        path = f"{self._folder}/{offset - at:020d}"
        raw = self._files.read(path, UNIT.size, at)
        if len(raw) < UNIT.size:
            return None
        size, tag_code, store_ms, filter_bytes = UNIT.unpack(raw)
        if size < UNIT.size or size != UNIT.size + max(0, filter_bytes):
            return None
        bits = self._files.read(path, filter_bytes, at + UNIT.size) if filter_bytes > 0 else b""
        return ExtUnit(tag_code, store_ms, bits) if len(bits) == max(0, filter_bytes) else None

    def tag_code(self, code: int) -> int:
        """A queue entry's tag code, looked up if it is an address; 0 (no tag) if that is lost."""
        if not is_address(code):
            return code
        unit = self.read(code)
        return 0 if unit is None else unit.tag_code
