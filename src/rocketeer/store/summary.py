"""What the derived files held at the checkpoint, kept beside it: so that recovery sees when some went missing.

    128  magic i32 | queue ends, summed i64 | last indexed log offset i64 | crc32 u32
    (in the checkpoint file, big-endian; RocketMQ ignores it)

The checksum covers the checkpoint's own part too: a summary speaks for exactly one checkpoint.
"""

import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from rocketeer.model.offsets import LogOffset
from rocketeer.store.checkpoint import CHECKPOINT_BYTES, Checkpoint, encode_checkpoint, read_checkpoint
from rocketeer.store.index import Index
from rocketeer.store.kernel import sync_fd

AT = 128
FIELDS = struct.Struct(">iqq")
CRC = struct.Struct(">I")
MAGIC = 0x53554D53  # "SUMS"


@dataclass(frozen=True, slots=True)
class Summary:
    """`queue_offsets_sum`: of all queues' ends for messages below the checkpoint's offset. `index_last_offset`
    is -1 for an index without entries."""

    queue_offsets_sum: int
    index_last_offset: LogOffset


class SavedSummary:
    """The summary on disk: it is saved by a worker thread, and forgotten on the loop before derived files go."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.generation = 0
        """Grows when the summary is forgotten: one that was noted before speaks of files that are gone."""
        self._lock = Lock()  # between `forget` and the worker that is about to write
        self._may_be_forgotten = False

    def recovered(self) -> None:
        """The derived files are whole. Until then nothing is forgotten, whatever recovery deletes: the summary of the
        earlier life is what says that they are not."""
        self._may_be_forgotten = True

    def forget(self) -> None:
        """Derived files are about to be deleted on purpose; the next checkpoint notes what is left."""
        if self._may_be_forgotten:
            with self._lock:
                self.generation += 1
                forget(self.path)

    def write(self, checkpoint: Checkpoint, summary: Summary, generation: int) -> int:
        """Write both in place, no summary if `generation` is forgotten; the file, open, which is to be synced.

        Syncing is left to the caller, without the lock: the loop would wait for the disk. Whoever forgets the summary
        then writes to the file behind us, and does not sync that, whether we have synced ours or not.
        """
        with self._lock:
            return write(self.path, checkpoint, summary if generation == self.generation else None)


def last_indexed(index: Index) -> LogOffset:
    """Log offset of the newest message in the index; -1 if it has none."""
    store_ms, log_offset = index.last_update
    return log_offset if store_ms else LogOffset(-1)


def save(path: Path, checkpoint: Checkpoint, summary: Summary | None) -> None:
    """Write checkpoint and summary in place, durably: call it from a worker thread."""
    fd = write(path, checkpoint, summary)
    try:
        sync_fd(fd)
    finally:
        os.close(fd)


def write(path: Path, checkpoint: Checkpoint, summary: Summary | None) -> int:
    """Write checkpoint and summary in place; the file, open, which is to be synced."""
    raw = bytearray(encode_checkpoint(checkpoint))
    if summary is not None:
        FIELDS.pack_into(raw, AT, MAGIC, summary.queue_offsets_sum, summary.index_last_offset)
        CRC.pack_into(raw, AT + FIELDS.size, zlib.crc32(raw[: AT + FIELDS.size]))
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.pwrite(fd, raw, 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


def load(path: Path) -> tuple[Checkpoint, Summary | None]:
    """The checkpoint, and its summary if there is one that belongs to it."""
    checkpoint = read_checkpoint(path)
    try:
        raw = path.read_bytes()[:CHECKPOINT_BYTES].ljust(CHECKPOINT_BYTES, b"\0")
    except OSError:
        return checkpoint, None
    magic, offsets_sum, last_offset = FIELDS.unpack_from(raw, AT)
    (crc,) = CRC.unpack_from(raw, AT + FIELDS.size)
    if magic != MAGIC or crc != zlib.crc32(raw[: AT + FIELDS.size]) or checkpoint.dispatched_offset is None:
        return checkpoint, None
    return checkpoint, Summary(offsets_sum, LogOffset(last_offset))


def forget(path: Path) -> None:
    """Derived files are about to be deleted on purpose: the summary does not speak for them any more."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.pwrite(fd, bytes(FIELDS.size + CRC.size), AT)
    finally:
        os.close(fd)
