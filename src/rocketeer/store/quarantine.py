"""Bytes of the log that cannot be used, but must not be lost: copied into `corrupt/` before the log is cut."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from rocketeer.model.offsets import LogOffset
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.kernel import make_folder, sync_folder

log = logging.getLogger(__name__)

_COPY_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class QuarantinedBytes:
    """A file with bytes of the log from `offset` on."""

    path: Path
    offset: LogOffset
    size: int


def quarantine(
    commit_log: CommitLog, start: LogOffset, folder: Path, *, end: LogOffset | None = None
) -> list[QuarantinedBytes]:
    """Copy everything from `start` (to `end`) up to the last byte that is not zero, one file per segment; durable
    on return."""
    make_folder(folder)
    copies: list[QuarantinedBytes] = []
    for segment in commit_log.segments:
        low = max(start - segment.base, 0)
        if low >= segment.size:
            continue
        high = segment.used_until(low)
        if end is not None:
            high = min(high, end - segment.base)
        if high <= low:
            continue
        place = LogOffset(segment.base + low)
        path = _free_name(folder, place)
        temporary = path.with_name(path.name + ".tmp")
        with temporary.open("wb") as file:
            for at in range(low, high, _COPY_BYTES):
                file.write(segment.copy(at, min(at + _COPY_BYTES, high)))
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        log.error("log bytes set aside offset=%d bytes=%d path=%s", place, high - low, path)
        copies.append(QuarantinedBytes(path, place, high - low))
    sync_folder(str(folder))
    return copies


def _free_name(folder: Path, offset: LogOffset) -> Path:
    """<offset>.bin; never over one that is there from another accident."""
    path = folder / f"{offset}.bin"
    number = 1
    while path.exists():
        path = folder / f"{offset}.{number}.bin"
        number += 1
    return path
