"""The checkpoint file: up to where log, queues and index were known to be on disk.

    0   physic ms i64 | 8 logics ms i64 | 16 index ms i64        RocketMQ's three store times
    64  magic i32 | dispatched log offset i64 | index log offset i64 | crc32 u32     ours
    192 magic i32 | verify-from log offset i64 | believed time ms i64 | crc32 u32       ours, newer
    (4096 bytes in all, big-endian)

RocketMQ ignores our parts. Each crc covers RocketMQ's part too: when a Java broker has written the file in
between, our offsets no longer speak for the store and are dropped.
"""

import logging
import struct
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

from rocketeer.model.offsets import LogOffset

log = logging.getLogger(__name__)

CHECKPOINT_BYTES = 4096
TIMES = struct.Struct(">qqq")
OFFSETS_AT = 64
OFFSETS = struct.Struct(">iqq")
CRC = struct.Struct(">I")
MAGIC = 0x524F434B  # "ROCK"
VERIFY_AT = 192  # the summary stands between: see summary.py
VERIFY = struct.Struct(">iqq")
VERIFY_MAGIC = 0x424E4453  # "BNDS"
SAFETY_MS = 3_000  # RocketMQ starts recovery this much before the oldest of its times

assert TIMES.size == 24, "the file interoperates with RocketMQ's"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Store times of the last message that was flushed to log, queues and index; 0 when nothing was.

    `dispatched_offset`: every record below it is in queue files on disk. `index_offset`: and in index files.
    `verify_from`: a record boundary before them, from where on the log is read again at start. None when unknown.
    `believed_ms`: see `expiry_clock.py`.
    """

    physic_ms: int = 0
    logics_ms: int = 0
    index_ms: int = 0
    dispatched_offset: LogOffset | None = None
    index_offset: LogOffset | None = None
    verify_from: LogOffset | None = None
    believed_ms: int = 0

    @property
    def recover_from_ms(self) -> int:
        """Records stored before this are whole in log and queues."""
        return max(0, min(self.physic_ms, self.logics_ms) - SAFETY_MS)

    @property
    def recover_index_from_ms(self) -> int:
        """Records stored before this are whole in log, queues and index."""
        return min(self.recover_from_ms, self.index_ms)

    def within(self, log_end: LogOffset) -> "Checkpoint":
        """The same, without offsets if they are ahead of the log (they belong to another one)."""
        for name, offset in (("dispatched", self.dispatched_offset), ("index", self.index_offset)):
            if offset is not None and offset > log_end:
                log.warning("checkpoint ahead of log %s_offset=%d log_end=%d: ignored", name, offset, log_end)
                return Checkpoint(self.physic_ms, self.logics_ms, self.index_ms)
        return self


def decode_checkpoint(raw: bytes) -> Checkpoint:
    """Zeros or a short file give an empty checkpoint, a wrong crc one without offsets."""
    raw = raw.ljust(CHECKPOINT_BYTES, b"\0")
    physic_ms, logics_ms, index_ms = TIMES.unpack_from(raw, 0)
    times_only = Checkpoint(physic_ms, logics_ms, index_ms)
    magic, dispatched, index = OFFSETS.unpack_from(raw, OFFSETS_AT)
    (crc,) = CRC.unpack_from(raw, OFFSETS_AT + OFFSETS.size)
    if magic != MAGIC:
        return times_only
    if crc != _crc(raw):
        log.info("checkpoint offsets ignored reason=%s", "written by another program since, or torn")
        return times_only
    verify_from, believed_ms = _newer_part(raw)
    return replace(
        times_only,
        dispatched_offset=dispatched if dispatched >= 0 else None,
        index_offset=index if index >= 0 else None,
        verify_from=verify_from,
        believed_ms=believed_ms,
    )


def _newer_part(raw: bytes) -> tuple[LogOffset | None, int]:
    magic, verify_from, believed_ms = VERIFY.unpack_from(raw, VERIFY_AT)
    (crc,) = CRC.unpack_from(raw, VERIFY_AT + VERIFY.size)
    if magic != VERIFY_MAGIC or crc != _verify_crc(raw):
        return None, 0
    return verify_from, believed_ms


def _verify_crc(raw: bytes | bytearray) -> int:
    return zlib.crc32(raw[VERIFY_AT : VERIFY_AT + VERIFY.size], _crc(raw))


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    raw = bytearray(CHECKPOINT_BYTES)
    TIMES.pack_into(raw, 0, checkpoint.physic_ms, checkpoint.logics_ms, checkpoint.index_ms)
    dispatched, index = checkpoint.dispatched_offset, checkpoint.index_offset
    OFFSETS.pack_into(
        raw, OFFSETS_AT, MAGIC, -1 if dispatched is None else dispatched, -1 if index is None else index
    )
    CRC.pack_into(raw, OFFSETS_AT + OFFSETS.size, _crc(raw))
    if checkpoint.verify_from is not None:
        VERIFY.pack_into(raw, VERIFY_AT, VERIFY_MAGIC, checkpoint.verify_from, checkpoint.believed_ms)
        CRC.pack_into(raw, VERIFY_AT + VERIFY.size, _verify_crc(raw))
    return bytes(raw)


def read_checkpoint(path: Path) -> Checkpoint:
    """What the file says; a missing or unreadable file says nothing."""
    try:
        return decode_checkpoint(path.read_bytes()[:CHECKPOINT_BYTES])
    except FileNotFoundError:
        return Checkpoint()
    except OSError as error:
        log.warning("checkpoint unreadable path=%s error=%s", path, error)
        return Checkpoint()


def _crc(raw: bytes | bytearray) -> int:
    return zlib.crc32(raw[OFFSETS_AT : OFFSETS_AT + OFFSETS.size], zlib.crc32(raw[: TIMES.size]))
