"""The pending timers on disk: how the log stood when they were noted; what came later is replayed from the log.

    file, little-endian: "RKTTIMER" | version i32 | crc32 of the rest u32 | log offset i64 | entries (`block.py`)

Written beside the old one and renamed, after the log below its offset is on disk: a snapshot never knows of an
end that the log has lost. One that is missing or broken costs a walk over the whole log, and nothing else.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
from isal import isal_zlib

from rocketeer.broker.features.timer.block import ENTRY, ROW, TimerRows
from rocketeer.model.offsets import LogOffset
from rocketeer.store.kernel import make_folder, sync_folder
from rocketeer.whole_file import write_synced

log = logging.getLogger(__name__)

HEAD: Final = Struct("<8siIq")
assert HEAD.size == 24
_OFFSET: Final = Struct("<q")
MAGIC: Final = b"RKTTIMER"
VERSION: Final = 1


class Snapshot(NamedTuple):
    """The timers that waited when the log ended at `log_offset`."""

    log_offset: LogOffset
    rows: TimerRows


NOTHING: Final = Snapshot(LogOffset(0), np.empty(0, ROW))


def write_snapshot(path: Path, log_offset: LogOffset, pieces: Sequence[bytes]) -> None:
    """Durable on return. Blocks on the disk: call it from a worker thread."""
    crc = isal_zlib.crc32(_OFFSET.pack(log_offset))
    for piece in pieces:
        crc = isal_zlib.crc32(piece, crc)
    make_folder(path.parent)
    temporary = path.with_name(path.name + ".tmp")
    write_synced(temporary, (HEAD.pack(MAGIC, VERSION, crc, log_offset), *pieces))
    os.replace(temporary, path)
    sync_folder(str(path.parent))


def read_snapshot(path: Path) -> Snapshot:
    """What was written last; NOTHING, with a word in the log, if that cannot be used."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return NOTHING
    except OSError as error:
        log.error("timer snapshot unreadable path=%s error=%s: the log is read instead", path, error)
        return NOTHING
    problem = _problem(raw)
    if problem is not None:
        log.error("timer snapshot broken path=%s problem=%s: the log is read instead", path, problem)
        return NOTHING
    *_, log_offset = HEAD.unpack_from(raw)
    rows = np.frombuffer(raw, ROW, offset=HEAD.size) if len(raw) > HEAD.size else NOTHING.rows
    return Snapshot(log_offset, rows)


def _problem(raw: bytes) -> str | None:
    if len(raw) < HEAD.size or (len(raw) - HEAD.size) % ENTRY.size:
        return f"{len(raw)} bytes are no whole file"
    magic, version, crc, _ = HEAD.unpack_from(raw)
    if magic != MAGIC or version != VERSION:
        return f"it begins with {magic!r} version {version}"
    if isal_zlib.crc32(memoryview(raw)[HEAD.size - _OFFSET.size :]) != crc:
        return "its checksum is wrong"
    return None
