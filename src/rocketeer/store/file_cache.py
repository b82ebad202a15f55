"""File descriptors of the derived files: a few stay open, shared by tens of thousands of consume queues.

Queues ask for bytes by path; the cache opens what is needed and closes what was used longest ago, so a
store with 8,000 queues lives under `ulimit -n 1024`. It belongs to the loop thread; only `sync_paths` and
`delete_paths` are made for worker threads (they open their own descriptors).
"""

import logging
import os
import resource
from collections.abc import Iterable
from os import pread
from pathlib import Path

from rocketeer.store.kernel import sync_fd, write_at

log = logging.getLogger(__name__)

OPEN_FILES_MAX = 256
AHEAD_BYTES = 16 << 10
"""How much of a file that is read from front to back comes with one call of the system."""
SYNC_ALL_AT = 64
"""From so many files on one sync of the file system is cheaper; what they are called need not be known then."""


def files_share(part: int, most: int) -> int:
    """How many descriptors one user of them may hold: `1 / part` of the process's limit, `most` at most."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return most if limit == resource.RLIM_INFINITY else max(1, min(most, limit // part))


class OpenFile:
    """A descriptor, and the last that was read ahead of whoever reads the file from front to back."""

    __slots__ = ("ahead", "ahead_at", "fd", "is_whole", "read_to")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.is_whole = False
        """Whether it is known to have its full size: nobody else makes it shorter."""
        self.forget_ahead()

    def forget_ahead(self) -> None:
        """Drop what was read ahead, because the file changes."""
        self.ahead = b""
        self.ahead_at = self.read_to = 0

    def read(self, size: int, at: int) -> bytes:
        """Up to `size` bytes; the end of the file gives fewer."""
        start = at - self.ahead_at
        if start >= 0 and start + size <= len(self.ahead):
            return self.ahead[start : start + size]
        if at != self.read_to or size > AHEAD_BYTES:
            self.read_to = at + size
            return pread(self.fd, size, at)
        self.ahead = pread(self.fd, AHEAD_BYTES, at)
        self.ahead_at, self.read_to = at, at + len(self.ahead)
        return self.ahead[:size]


class FileCache:
    """Positional reads and writes by path through at most `open_max` descriptors."""

    __slots__ = ("_files", "_many_unsynced", "_open_max", "_unsynced")

    def __init__(self, open_max: int | None = None) -> None:
        open_max = files_share(4, OPEN_FILES_MAX) if open_max is None else open_max
        assert open_max > 0
        self._files: dict[str, OpenFile] = {}  # in order of use: the first was used longest ago
        self._open_max = open_max
        self._unsynced: set[str] = set()
        self._many_unsynced = False
        """More than are remembered: a round over a million queues has no list of their files."""

    def __len__(self) -> int:
        return len(self._files)

    def read(self, path: str, size: int, at: int) -> bytes:
        """Up to `size` bytes; a file that is missing or shorter gives fewer."""
        file = self._files.pop(path, None)
        if file is None:
            try:
                file = self._open(path)
            except FileNotFoundError:
                return b""
        self._files[path] = file  # used last
        return file.read(size, at)

    def write(self, path: str, data: bytes | bytearray | memoryview, at: int, file_bytes: int) -> None:
        """Write all of `data`; a file that is missing is made, sparse and of its full size."""
        file = self._files.pop(path, None)
        if file is None:
            file = self._create(path)
        self._files[path] = file
        file.forget_ahead()
        if not file.is_whole:
            if (
                os.fstat(file.fd).st_size < file_bytes
            ):  # new, or left short by a crash: RocketMQ wants whole files
                os.ftruncate(file.fd, file_bytes)
                self._note(os.path.dirname(path))
            file.is_whole = True
        self._note(path)
        write_at(file.fd, data, at)

    def cut(self, path: str, at: int, file_bytes: int) -> None:
        """Turn everything from `at` on into zeros (a hole)."""
        file = self._open(path)
        file.forget_ahead()
        file.is_whole = False  # the second call may fail
        os.ftruncate(file.fd, at)
        os.ftruncate(file.fd, file_bytes)
        self._note(path)

    def note_change(self, folder: str) -> None:
        """Note that names in the folder changed: they are to be synced, too."""
        self._note(folder)

    def take_unsynced(self) -> list[str] | None:
        """Paths written since the last call, and folders of new files: for `sync_paths` in a thread.

        None: they are many, and the whole file system is to be synced.
        """
        paths = None if self._many_unsynced else sorted(self._unsynced)
        self._unsynced.clear()
        self._many_unsynced = False
        return paths

    def _note(self, path: str) -> None:
        if not self._many_unsynced:
            self._unsynced.add(path)
            self._many_unsynced = len(self._unsynced) >= SYNC_ALL_AT

    def forget(self, path: str) -> None:
        """Close a file that is about to be deleted."""
        file = self._files.pop(path, None)
        if file is not None:
            os.close(file.fd)
        self._unsynced.discard(path)

    def forget_below(self, folder: str) -> None:
        """Close all files below a folder (with a slash at its end) that is about to be deleted or moved away."""
        for path in [path for path in self._files if path.startswith(folder)]:
            os.close(self._files.pop(path).fd)

    def close(self) -> None:
        for file in self._files.values():
            os.close(file.fd)
        self._files.clear()

    def _open(self, path: str) -> OpenFile:
        file = self._files.pop(path, None)
        if file is None:
            file = OpenFile(os.open(path, os.O_RDWR | os.O_CLOEXEC))
            self._make_room()
        self._files[path] = file
        return file

    def _create(self, path: str) -> OpenFile:
        """Open the file; make it, and its folders, when they are not there."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            fd = os.open(path, flags, 0o644)
        except FileNotFoundError:
            self._make_folder(os.path.dirname(path))
            fd = os.open(path, flags, 0o644)
        self._make_room()
        return OpenFile(fd)

    def _make_folder(self, folder: str) -> None:
        try:
            os.mkdir(folder)  # mostly only the queue's own is missing
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)
            self._note(os.path.dirname(os.path.dirname(folder)))
        self._note(os.path.dirname(folder))

    def _make_room(self) -> None:
        while len(self._files) >= self._open_max:
            os.close(self._files.pop(next(iter(self._files))).fd)


def sync_paths(paths: Iterable[str]) -> None:
    """Make files and folders durable; for a worker thread. What was deleted meanwhile needs no sync."""
    for path in paths:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            sync_fd(fd)
        finally:
            os.close(fd)


def delete_paths(paths: Iterable[str | Path]) -> int:
    """Unlink files and say how many went; for a worker thread. One that cannot go is logged and left."""
    deleted = 0
    for path in paths:
        try:
            os.unlink(path)
            deleted += 1
            log.info("file deleted path=%s", path)
        except FileNotFoundError:
            continue
        except OSError as error:
            log.warning("file not deleted path=%s error=%s", path, error)
    return deleted
