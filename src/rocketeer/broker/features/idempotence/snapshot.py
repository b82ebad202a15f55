"""The tables of idempotent producers on disk: config/producers.bin, and how they are brought up to the log at start.

Content: length of the head u32 | head (msgpack) | slices of sequences (msgpack) | slices of ids
(hashes u64, offsets i64)

It is taken slice by slice, so that the loop is never held up; what is stored meanwhile is in it or in the log behind.

A snapshot is written only when the log it stands for is on disk, so it is never ahead of it. Should it be all the
same (another log was put in its place), that is noticed: what it says lies somewhere does not.
"""

import asyncio
import logging
import secrets
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final

import msgspec

from rocketeer.broker.features.idempotence.producer_marks import read_sent
from rocketeer.broker.features.idempotence.resends import Idempotence, IdempotenceLimits
from rocketeer.broker.features.idempotence.sequences import SavedSequence
from rocketeer.clock import Clock
from rocketeer.model.offsets import LogOffset
from rocketeer.remoting.slices import in_slices
from rocketeer.steps import finish
from rocketeer.store.message_store import MessageStore
from rocketeer.store.snapshot_file import load_snapshot, save_snapshot
from rocketeer.threads import finish_in_thread

log = logging.getLogger(__name__)

FILE_NAME: Final = "producers.bin"
VERSION: Final = 1
SAVE_AFTER_BYTES: Final = 64 << 20
"""Most log that a start walks over (or twice the snapshot's size, if that is more)."""
SAVE_AFTER_S: Final = 60.0
UNKNOWN_BYTES_MAX: Final = 1 << 30
"""A store without a snapshot never had such producers here: only so much of its log is looked at."""
_LENGTH: Final = Struct(">I")
_NEWEST_CHECKED: Final = 1_000


class _Head(msgspec.Struct, array_like=True):
    version: int
    log_offset: LogOffset
    salt: bytes
    sequences: list[int]
    """Bytes of each slice of sequences."""
    ids: list[int]
    """How many ids each slice has."""


class Snapshots:
    """Owns the file; `table` is what the broker asks."""

    def __init__(
        self, window: IdempotenceLimits, store: MessageStore, clock: Clock, *, path: Path, segment_bytes: int
    ) -> None:
        self._store = store
        self._clock = clock
        self._path = path
        self._segment_bytes = segment_bytes
        self._saved_at = 0
        self._saved_s = clock.monotonic_s()
        self._saved_bytes = 0
        self.table = Idempotence(window, store, salt=secrets.token_bytes(16))

    # --- at start ----------------------------------------------------------------------------

    def load(self) -> LogOffset:
        """Take over the snapshot, if it is of this log; returns the log offset from which on the log tells more."""
        content = load_snapshot(self._path)
        if content is not None:
            head = self._decode(content)
            if head is not None and self._fits(head.log_offset):
                self._saved_at, self._saved_bytes = head.log_offset, len(content)
                return head.log_offset
            log.error("producers' snapshot is of another log path=%s: made again from the log", self._path)
            self.table.reset(secrets.token_bytes(16))
            return self._store.min_log_offset
        if self._path.exists():
            return self._store.min_log_offset
        start = max(self._store.max_log_offset - UNKNOWN_BYTES_MAX, 0)
        return max(LogOffset(start - start % self._segment_bytes), self._store.min_log_offset)

    def loaded(self) -> None:
        """Finish loading after the replay; save a first snapshot if there is none or the replay was long."""
        finish(self.table.expiring())
        if not self._path.exists() or self._grown():
            self.save()

    def _decode(self, content: memoryview) -> _Head | None:
        try:
            (length,) = _LENGTH.unpack_from(content)
            head = msgspec.msgpack.decode(content[_LENGTH.size : _LENGTH.size + length], type=_Head)
            if head.version != VERSION:
                return None
            self._take_over(head, content[_LENGTH.size + length :])
        except (msgspec.MsgspecError, ValueError) as error:
            log.error("producers' snapshot cannot be understood path=%s error=%s", self._path, error)
            return None
        return head

    def _take_over(self, head: _Head, slices: memoryview) -> None:
        table = self.table
        table.reset(head.salt)
        at = 0
        for size in head.sequences:
            table.sequences.load(msgspec.msgpack.decode(slices[at : at + size], type=list[SavedSequence]))
            at += size
        hashes, offsets = [], []
        for count in head.ids:
            hashes.append(slices[at : at + 8 * count])
            offsets.append(slices[at + 8 * count : at + 16 * count])
            at += 16 * count
        table.ids.load(b"".join(hashes), b"".join(offsets))

    def _fits(self, log_offset: LogOffset) -> bool:
        """Whether the snapshot is of this log: the newest entries' messages are where it says.

        A damaged record is no sign of another log, and no reason to make the table again: that would lose the ids of
        messages whose file is gone, of which only the delivered copy is left.
        """
        low, high = self._store.min_log_offset, self._store.max_log_offset
        if log_offset > high:
            return False
        for number, (key, sequence, at) in enumerate(self.table.sequences.newest_first()):
            if number == _NEWEST_CHECKED:
                break
            if at < low:
                continue
            if self._store.is_damaged(LogOffset(at)):
                continue
            message = self._store.message_at(LogOffset(at))
            sent = None if message is None else read_sent(message)
            if sent is None or (sent.mark.producer, sent.topic, sent.queue_id) != key:
                return False
            if sent.mark.sequence != sequence:
                return False
        return True

    # --- while it runs -----------------------------------------------------------------------

    async def keep(self) -> None:
        """Forget old sequences and write a snapshot when one is due; called periodically on the loop."""
        await in_slices(self.table.expiring())
        waited_s = self._clock.monotonic_s() - self._saved_s
        if not self._grown() and not (self.table.changed and waited_s >= SAVE_AFTER_S):
            return
        at = self._store.whole_log_offset
        self.table.changed = False
        slices: list[bytes] = []
        for piece in self._slices():
            slices.append(piece)
            await asyncio.sleep(0)
        durable: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        # The slices may know of what was stored while they were taken.
        end = self._store.max_log_offset
        self._store.when_durable(end, lambda ok: None if durable.done() else durable.set_result(ok))
        if await durable:
            await finish_in_thread(self._write, at, slices)
        else:
            self.table.changed = True

    def save(self) -> None:
        """Write a snapshot immediately, if the whole log is on disk. Blocks; for start and stop, when nobody
        appends."""
        end = self._store.max_log_offset
        if (
            self._store.flushed_log_offset < end
        ):  # the disk failed: what is told now may not be true of the log
            log.error("producers' snapshot not saved path=%s: the log is not on disk", self._path)
            return
        self.table.changed = False
        self._write(self._store.whole_log_offset, list(self._slices()))

    def _grown(self) -> bool:
        grown = self._store.max_log_offset - self._saved_at
        return grown >= max(SAVE_AFTER_BYTES, 2 * self._saved_bytes)

    def _slices(self) -> Iterator[bytes]:
        """The content in slices with their kind in front, sequences (L), then ids (I): each takes well below 1 ms."""
        for sequences in self.table.sequences.dump_slices():
            yield b"L" + msgspec.msgpack.encode(sequences)
        for hashes, offsets in self.table.ids.dump_slices():
            yield b"I" + hashes + offsets

    def _write(self, at: LogOffset, slices: list[bytes]) -> None:
        sequences = [len(piece) - 1 for piece in slices if piece[:1] == b"L"]
        ids = [(len(piece) - 1) // 16 for piece in slices if piece[:1] == b"I"]
        head = msgspec.msgpack.encode(_Head(VERSION, at, self.table.ids.salt, sequences, ids))
        parts: list[bytes | memoryview] = [_LENGTH.pack(len(head)), head]
        parts += [memoryview(piece)[1:] for piece in slices]
        try:
            save_snapshot(self._path, parts)
        except OSError as error:  # a full disk: the next round may find room
            self.table.changed = True
            log.error("producers' snapshot not saved path=%s error=%s", self._path, error)
        else:
            self._saved_at, self._saved_bytes = at, sum(map(len, parts))
        self._saved_s = self._clock.monotonic_s()
