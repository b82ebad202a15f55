"""A store as a backup reads it, while its broker may go on appending, rolling, deleting and writing its tables.

The order of copying makes the copy consistent. Whatever is derived speaks of log bytes that were written before it:

    checkpoint -> tables, timers and the rest -> queues and index -> find the end of the log -> the log below it

The checkpoint says up to where queues and index are whole: they are read after it, so they are at least that. All of
them speak of a log that ends at or before the end found after them. Of the last file only what is below that end is
taken: whoever reads on while the broker appends would find records behind zeros. So a copy looks like a store whose
broker died: recovery makes the tails of queues and index again.
"""

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from rocketeer.errors import BackupError
from rocketeer.model.offsets import LogOffset
from rocketeer.record.walk import Stop, walk
from rocketeer.record.walk_plain import Topics
from rocketeer.store.base_names import is_base_name

LOG: Final = "commitlog"
CHECKPOINT: Final = "checkpoint"
ABORT: Final = "abort"
LOCK: Final = "lock"
DERIVED: Final = ("consumequeue", "consumequeue_ext", "index")
_STEP_BYTES: Final = 64 << 20
_LOOK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SegmentFile:
    base: LogOffset
    path: Path
    size: int


class Source:
    """The folder of a store; `log_folder` if its log lies elsewhere (storePathCommitLog)."""

    def __init__(self, store: Path, log_folder: Path | None = None) -> None:
        self.store = store
        self.log_folder = log_folder or store / LOG
        if not self.log_folder.is_dir():
            hint = (
                ""
                if log_folder
                else "; if its log lies elsewhere (storePathCommitLog), name it with --commitlog"
            )
            raise BackupError(f"{store} is not a store: there is no folder {self.log_folder}{hint}")

    def tables(self) -> Iterator[str]:
        """Everything but the log and what is derived in bulk; the checkpoint comes first."""
        if (self.store / CHECKPOINT).is_file():
            yield CHECKPOINT
        for entry in sorted(os.scandir(self.store), key=lambda found: found.name):
            if entry.name in (LOG, LOCK, CHECKPOINT, ABORT, *DERIVED) or (Path(entry.path) / LOG).is_dir():
                continue  # a folder with a log of its own is another broker's store (`rocketeer up --brokers`)
            if entry.is_file(follow_symlinks=False):
                yield entry.name
            elif entry.is_dir(follow_symlinks=False):
                yield from self._files_below(entry.name)

    def derived(self) -> Iterator[str]:
        """The files of consume queues and index."""
        for name in DERIVED:
            yield from self._files_below(name)

    def _files_below(self, name: str) -> Iterator[str]:
        for folder, folders, files in os.walk(self.store / name):
            folders.sort()
            inside = os.path.relpath(folder, self.store)
            for file in sorted(files):
                if not file.endswith(".tmp"):  # on its way to another name, or left by a crash
                    yield os.path.join(inside, file)

    @property
    def is_unclean(self) -> bool:
        """Whether a broker runs here, or died."""
        return (self.store / ABORT).exists()

    # --- the log -----------------------------------------------------------------------------

    def segments(self) -> list[SegmentFile]:
        """The files of the log, without those made ahead; BackupError when one is missing in between."""
        found = []
        for path in sorted(self.log_folder.iterdir()):
            if is_base_name(path.name):
                try:
                    found.append(SegmentFile(LogOffset(int(path.name)), path, path.stat().st_size))
                except FileNotFoundError:
                    continue  # retention was faster
        for before, after in pairwise(found):
            if after.base != before.base + before.size:
                raise BackupError(f"{after.path} does not follow {before.path}: a file of the log is missing")
        return found


def end_of_log(segments: list[SegmentFile]) -> LogOffset:
    """Behind the last whole record now; the start of the first file if there is none."""
    for segment in reversed(segments):
        try:
            end = _end_in(segment)
        except FileNotFoundError:  # retention: it was not the last one, then
            continue
        if end:
            return LogOffset(segment.base + end)
    return LogOffset(segments[0].base if segments else 0)


def _end_in(segment: SegmentFile) -> int:
    """Where the records of a file end, within the file. Begins at its start, which is a record's for sure."""
    with segment.path.open("rb") as file:
        if not segment.size:
            return 0
        view = mmap.mmap(file.fileno(), segment.size, access=mmap.ACCESS_READ)
    topics = Topics()
    at = end = 0
    while True:
        step = walk(view, at, min(at + _STEP_BYTES, segment.size), segment.base, topics)
        whole = [row for row in range(len(step.rows)) if not step.rows["faults"][row]]
        if whole:  # one that is not may be half written yet; damage further in front is kept as it is
            last = step.rows[whole[-1]]
            end = int(last["at"]) + int(last["size"])
        if step.stop is Stop.BLANK:
            return segment.size
        if step.stop is Stop.BAD:
            return _used(view)  # damage, or one half written: recovery knows what to do with either
        if step.stop is not Stop.RANGE or step.end >= segment.size:
            return end
        at = step.end


def _used(view: mmap.mmap) -> int:
    """Behind the last byte that is not zero."""
    for high in range(len(view), 0, -_LOOK_BYTES):
        low = max(0, high - _LOOK_BYTES)
        used = len(view[low:high].rstrip(b"\0"))
        if used:
            return low + used
    return 0
