"""Bytes in and out of a backup. A store's files are mostly holes, so a content is its pieces that are not zero:

    for each piece of 1 MiB that has a byte other than zero: number u64 | length u32 | bytes without trailing zeros

The digest is SHA-256 over these (big-endian) and the size: how a file system keeps holes makes no difference.
"""

import hashlib
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rocketeer.errors import BackupError
from rocketeer.store.kernel import data_ranges

PIECE_BYTES: Final = 1 << 20
_PIECE: Final = struct.Struct(">QI")
_SIZE: Final = struct.Struct(">Q")
FOLDER: Final = "contents"

Told = Callable[[int], None]
"""Told how many more bytes are done."""


def pieces(fd: int, end: int) -> Iterator[tuple[int, bytes]]:
    """(number, bytes without trailing zeros) of the pieces of [0, end) that are not zero."""
    done = 0
    for low, high in data_ranges(fd, 0, end):
        first = max(low // PIECE_BYTES, done)
        for number in range(first, -(-high // PIECE_BYTES)):
            at = number * PIECE_BYTES
            piece = _read(fd, min(PIECE_BYTES, end - at), at).rstrip(b"\0")
            if piece:
                yield number, piece
            done = number + 1


def _read(fd: int, size: int, at: int) -> bytes:
    """Up to `size` bytes; a read may give fewer than there are."""
    parts: list[bytes] = []
    while size and (part := os.pread(fd, size, at)):
        parts.append(part)
        size -= len(part)
        at += len(part)
    return b"".join(parts)


class Contents:
    """The contents of one backup folder."""

    def __init__(self, backup: Path) -> None:
        self._folder = backup / FOLDER

    def path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest

    def has(self, digest: str, size: int) -> bool:
        """Whether it is there, by its size: `restore` and `check` look at the bytes."""
        try:
            return self.path(digest).stat().st_size == size
        except FileNotFoundError:
            return False

    def save(self, fd: int, size: int, end: int, told: Told) -> str:
        """Copy the bytes below `end` of an open file as a content of `size` bytes; its digest. Not yet synced."""
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / f"{os.getpid()}.tmp"
        digest = hashlib.sha256(_SIZE.pack(size))
        try:
            with temporary.open("wb") as file:
                for number, piece in pieces(fd, end):
                    digest.update(_PIECE.pack(number, len(piece)))
                    digest.update(piece)
                    file.seek(number * PIECE_BYTES)
                    file.write(piece)
                    told(len(piece))
                file.truncate(size)
            name = digest.hexdigest()
            self.path(name).parent.mkdir(exist_ok=True)
            temporary.replace(self.path(name))
        finally:
            temporary.unlink(missing_ok=True)
        return name

    def load(self, digest: str, size: int, to: Path | None, told: Told) -> None:
        """Write a content to a new file, or nowhere; BackupError if it is missing or not what it was.

        Not yet synced.
        """
        path = self.path(digest)
        try:
            source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise BackupError(f"the backup is damaged: {path} is missing") from None
        target = -1
        try:
            if to is not None:
                target = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
                os.ftruncate(target, size)
            found = hashlib.sha256(_SIZE.pack(os.fstat(source).st_size))
            for number, piece in pieces(source, os.fstat(source).st_size):
                found.update(_PIECE.pack(number, len(piece)))
                found.update(piece)
                if target >= 0:
                    _write(target, piece, number * PIECE_BYTES)
                told(len(piece))
            if found.hexdigest() != digest:
                raise BackupError(f"the backup is damaged: the checksum of {path} is wrong")
        finally:
            os.close(source)
            if target >= 0:
                os.close(target)

    def keep_only(self, digests: set[str]) -> None:
        """Delete contents that no file of the manifest has."""
        for path in self._folder.rglob("*"):
            if path.is_file() and path.name not in digests:
                path.unlink()


def _write(fd: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, at)
        view, at = view[done:], at + done
