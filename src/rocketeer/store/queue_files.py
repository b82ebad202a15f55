"""The files of one consume queue, addressed by entry: under `ConsumeQueue`, above the shared `FileCache`.

TOPIC/QUEUE/ holds files of one size, named by the byte offset of their first entry (20 digits)
"""

import logging
import os

from rocketeer.model.offsets import QueueOffset
from rocketeer.store.base_names import base_name, is_base_name
from rocketeer.store.file_cache import FileCache
from rocketeer.store.queue_entry import ENTRY, ENTRY_BYTES, QueueEntry, rounded_file_bytes

log = logging.getLogger(__name__)


class QueueFiles:
    """Entries on disk; knows nothing of which of them are alive. Makes its folder at the first write."""

    __slots__ = ("_cache", "_last_path", "_last_start", "folder", "per_file")

    def __init__(self, folder: str | os.PathLike[str], file_bytes: int, cache: FileCache) -> None:
        self.folder = os.fspath(folder)
        self.per_file = rounded_file_bytes(file_bytes) // ENTRY_BYTES
        self._cache = cache
        self._last_start = -1
        self._last_path = ""

    def read(self, start: QueueOffset, count: int) -> bytes:
        """Return `count` entries from `start` on, over file borders; fewer if a file is missing or lost its end."""
        at = start % self.per_file
        if count <= self.per_file - at:
            path = self._last_path if start - at == self._last_start else self._path(start - at)
            return self._cache.read(path, count * ENTRY_BYTES, at * ENTRY_BYTES)
        parts: list[bytes] = []
        while count > 0:
            at = start % self.per_file
            here = min(count, self.per_file - at)
            part = self._cache.read(self._path(start - at), here * ENTRY_BYTES, at * ENTRY_BYTES)
            parts.append(part)
            if len(part) < here * ENTRY_BYTES:
                break
            start = QueueOffset(start + here)
            count -= here
        return b"".join(parts)

    def write(self, start: QueueOffset, data: bytes | bytearray) -> None:
        """Write entries that all belong into one file."""
        at = start % self.per_file
        assert at * ENTRY_BYTES + len(data) <= self._file_bytes
        self._cache.write(self._path(start - at), data, at * ENTRY_BYTES, self._file_bytes)

    def clear_from(self, start: QueueOffset) -> None:
        """Write zeros from `start` on. Old bytes must not wait where new entries will stand: a later load would
        take them for entries."""
        at = start % self.per_file
        if at:
            self._cache.cut(self._path(start - at), at * ENTRY_BYTES, self._file_bytes)
        for base in self._starts():
            if base >= start:
                path = self._path(base)
                log.info("queue file dropped path=%s", path)
                self._cache.forget(path)
                os.unlink(path)

    def release_below(self, first: QueueOffset, start: QueueOffset) -> list[str]:
        """Paths of the files from entry `first` up to `start`, closed and ready to be deleted."""
        paths = [self._path(base) for base in range(first, start, self.per_file)]
        for path in paths:
            self._cache.forget(path)
        return paths

    def remove(self) -> None:
        """Delete the files and the folder."""
        self.clear_from(QueueOffset(0))
        self._cache.note_change(
            os.path.dirname(self.folder)
        )  # it must not come back after the next checkpoint
        try:
            os.rmdir(self.folder)
        except FileNotFoundError:
            pass
        except OSError as error:  # something that is not ours lies there
            log.warning("queue folder not removed path=%s error=%s", self.folder, error)

    # --- loading -----------------------------------------------------------------------------

    def find_entries(self) -> tuple[QueueOffset, QueueOffset, list[str]]:
        """First entry, end, and in words what was wrong. After a hole nothing counts, as with RocketMQ."""
        starts = self._starts()
        problems: list[str] = []
        aligned = [start for start in starts if start % self.per_file == 0]
        if len(aligned) != len(starts):
            problems.append(f"files that do not start at a multiple of {self._file_bytes} bytes")
        while aligned and not self._is_written(aligned[-1]):
            aligned.pop()  # made ahead, or emptied by a crash: nothing in it
        for at in range(len(aligned) - 1, 0, -1):
            here = aligned[at]
            if aligned[at - 1] + self.per_file != here or not self._is_written(QueueOffset(here - 1)):
                problems.append(f"a hole before entry {here}")
                aligned = aligned[:at]
        if problems:
            log.warning("queue files damaged folder=%s problems=%s", self.folder, "; ".join(problems))
        if not aligned:
            return QueueOffset(0), QueueOffset(0), problems
        end = self._end_of(aligned[-1])
        if problems:
            self.clear_from(end)
        return aligned[0], end, problems

    def _end_of(self, start: QueueOffset) -> QueueOffset:
        """The first entry not written of a file whose first one is (written ones stand before all others)."""
        low, high = start + 1, start + self.per_file
        while low < high:
            middle = (low + high) // 2
            if self._is_written(QueueOffset(middle)):
                low = middle + 1
            else:
                high = middle
        return QueueOffset(low)

    def _is_written(self, entry: QueueOffset) -> bool:
        raw = self.read(entry, 1)
        return len(raw) == ENTRY_BYTES and QueueEntry._make(ENTRY.unpack(raw)).is_written

    def _starts(self) -> list[QueueOffset]:
        """First entries of the files there are, in order; other names are nobody's business here."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        numbers = [name for name in names if is_base_name(name)]
        for name in set(names).difference(numbers):
            log.warning("queue file ignored path=%s/%s: not named by an offset", self.folder, name)
        return sorted(
            QueueOffset(int(name) // ENTRY_BYTES) for name in numbers if int(name) % ENTRY_BYTES == 0
        )

    @property
    def _file_bytes(self) -> int:
        return self.per_file * ENTRY_BYTES

    def _path(self, start: int) -> str:
        """The file whose first entry is `start`."""
        if start != self._last_start:  # one reader asks for the same file again and again
            self._last_start = start
            self._last_path = f"{self.folder}/{base_name(start * ENTRY_BYTES)}"
        return self._last_path
