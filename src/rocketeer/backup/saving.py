"""One run of a backup: what changed since the last run is copied, then the manifest says what belongs to it."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketeer.backup.contents import Contents
from rocketeer.backup.manifest import Manifest, SavedFile, read_manifest, write_manifest
from rocketeer.backup.source import ABORT, LOG, SegmentFile, Source, end_of_log
from rocketeer.errors import BackupError
from rocketeer.store.kernel import sync_file_system
from rocketeer.whole_file import is_temporary

RACY_NS: Final = 2_000_000_000
"""A file written so shortly before it was read may have been written again with the same time."""

OnCopied = Callable[[str, int], None]
"""Told what is being copied, and how many bytes of it more."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What a run did."""

    manifest: Manifest
    copied_files: int
    copied_bytes: int
    kept_files: int


def save(source: Source, backup: Path, progress: OnCopied = lambda name, done: None) -> Saved:
    """Bring the backup up to the store of now; durable on return. Killed in the middle, the last one stays.

    Raises BackupError, and OSError (a full disk).
    """
    if source.store.resolve() in (backup.resolve(), *backup.resolve().parents):
        raise BackupError(f"the backup {backup} lies in the store {source.store}: choose a folder outside it")
    if backup.exists() and not _is_backup(backup):
        raise BackupError(f"{backup} is not empty and not a backup: choose another folder")
    backup.mkdir(parents=True, exist_ok=True)
    with _locked(backup) as fd:
        return _Run(source, backup, progress).run(fd)


def _is_backup(folder: Path) -> bool:
    """Empty, or made by us; a first run that was killed has no manifest yet."""
    names = {path.name for path in folder.iterdir() if not is_temporary(path.name)}
    return names <= {"manifest.json", "manifest.json.tmp", "contents", "lock"}


@contextmanager
def _locked(backup: Path) -> Iterator[int]:
    """A descriptor of the backup's file system, held as long as the lock: it learns of every failed write."""
    with (backup / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BackupError(f"another backup into {backup} is running: wait until it is done") from None
        yield file.fileno()


class _Run:
    def __init__(self, source: Source, backup: Path, progress: OnCopied) -> None:
        self._source = source
        self._backup = backup
        self._progress = progress
        self._contents = Contents(backup)
        before = read_manifest(backup)
        self._before = {} if before is None else before.files
        self._files: dict[str, SavedFile] = {}
        self._copied = self._copied_bytes = self._kept = 0

    def run(self, fd: int) -> Saved:
        made_ms = time.time_ns() // 1_000_000
        source = self._source
        unclean = source.is_unclean
        for name in source.tables():
            self._take(name, source.store / name)
        for name in source.derived():
            self._take(name, source.store / name)
        segments = source.segments()
        end = end_of_log(segments)
        taken = [segment for segment in segments if self._take_segment(segment, end)]
        if unclean or source.is_unclean:  # a broker ran at some time of it: the tails are not whole
            self._files[ABORT] = self._empty()
        manifest = Manifest(
            made_ms,
            log_begin=taken[0].base if taken else end,
            log_end=end,
            segment_bytes=segments[0].size if segments else 0,
            files=self._files,
        )
        sync_file_system(fd)  # the contents first: a manifest must not name what a crash took
        write_manifest(self._backup, manifest)
        self._contents.keep_only({file.digest for file in self._files.values()})
        return Saved(manifest, self._copied, self._copied_bytes, self._kept)

    def _take_segment(self, segment: SegmentFile, end: int) -> bool:
        if segment.base >= end:
            return False
        name = f"{LOG}/{segment.path.name}"
        return self._take(name, segment.path, below=min(end - segment.base, segment.size))

    def _take(self, name: str, path: Path, below: int | None = None) -> bool:
        """Copy a file, or take over the last run's copy if it was not changed; False if it is gone meanwhile."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            began_ns = time.time_ns()
            stat = os.fstat(fd)
            source = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            known = self._before.get(name)
            if known is not None and known.source == source and self._contents.has(known.digest, known.size):
                self._files[name] = known
                self._kept += 1
                return True
            self._progress(name, 0)
            digest = self._contents.save(
                fd,
                stat.st_size,
                stat.st_size if below is None else below,
                lambda done: self._more(name, done),
            )
            racy = stat.st_mtime_ns > began_ns - RACY_NS
            self._files[name] = SavedFile(stat.st_size, digest, None if racy else source)
            self._copied += 1
            return True
        finally:
            os.close(fd)

    def _more(self, name: str, done: int) -> None:
        self._copied_bytes += done
        self._progress(name, done)

    def _empty(self) -> SavedFile:
        with open(os.devnull, "rb") as nothing:
            return SavedFile(0, self._contents.save(nothing.fileno(), 0, 0, lambda done: None))
