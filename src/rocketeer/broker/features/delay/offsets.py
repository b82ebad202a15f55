"""How far each delay level was delivered: config/delayOffset.json, which Java reads, too.

What is written is what holds for the log on disk: deliveries whose copies are not there yet are left out. Beside it
stands where that log ends ("logOffset", which Java ignores): what lies behind is looked at again after a crash.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.protocol.bodies.offsets import (
    decode_delay_log_offset,
    decode_delay_offsets,
    encode_delay_offsets,
)
from rocketeer.steps import Steps

SAVE_AFTER_BYTES: Final = 64 << 20
"""Most log that is walked over at start."""
STEP: Final = 512
"""Deliveries that a step looks at: two hundred thousand may reach the disk together."""


class FlushedLog(Protocol):
    """Where the log ends, and up to where it is on disk."""

    @property
    def max_log_offset(self) -> LogOffset: ...

    @property
    def flushed_log_offset(self) -> LogOffset: ...


class DelayOffsets:
    """How far each level is delivered: `delivered` holds the current offsets, the file may lag behind."""

    file_name = "delayOffset.json"

    def __init__(self, log: FlushedLog, *, save_every_s: float, now_s: Callable[[], float]) -> None:
        self._log = log
        self._save_every_s = save_every_s
        self._now_s = now_s
        self._save_s = 0.0
        self.delivered: dict[int, QueueOffset] = {}
        self.log_offset: LogOffset | None = None
        """Where the log ended when the loaded file was written; None if it did not say."""
        self._on_disk: dict[int, QueueOffset] = {}
        self._unflushed: deque[tuple[LogOffset, int, QueueOffset]] = deque()
        self._saved_at = 0
        self._dirty = True  # so that there is a file with a place
        self.has_place = False
        """Whether the file says up to where in the log it holds: without that a crash cannot be told apart."""

    def advance(self, level: int, offset: QueueOffset) -> None:
        """Record that the level is delivered up to `offset`; saved once the present end of the log is on disk."""
        self.delivered[level] = offset
        self._unflushed.append((self._log.max_log_offset, level, offset))
        self._dirty = True

    def recovered(self, delivered: dict[int, QueueOffset]) -> None:
        """Replace the offsets by those that the replay of the log found at start; all of that log is on disk."""
        self._dirty = self._dirty or delivered != self._on_disk
        self.delivered = delivered
        self._on_disk = dict(delivered)
        self._unflushed.clear()

    def saved(self) -> None:
        self.has_place = True

    def refresh(self) -> Steps[None]:
        """Take in what has reached the disk, in steps: little is left for `encode`."""
        while self._take_flushed(self._log.flushed_log_offset, STEP):
            yield

    def _take_flushed(self, flushed: LogOffset, count: int) -> bool:
        """Take up to `count` offsets whose log is flushed; True when there may be more."""
        for _ in range(count):
            if not self._unflushed or self._unflushed[0][0] > flushed:
                return False
            _, level, offset = self._unflushed.popleft()
            self._on_disk[level] = offset
        return True

    def encode(self) -> str:
        flushed = self._log.flushed_log_offset
        while self._take_flushed(flushed, STEP):
            pass
        self._dirty = bool(self._unflushed)
        self._saved_at = flushed
        return encode_delay_offsets(self._on_disk, flushed).decode()

    def decode(self, text: str) -> None:
        data = text.encode()
        self.delivered = decode_delay_offsets(data)
        self._on_disk = dict(self.delivered)
        self.log_offset = decode_delay_log_offset(data)
        self.has_place = self.log_offset is not None
        self._saved_at = self.log_offset or 0

    def take_dirty(self) -> bool:
        if self._log.flushed_log_offset - self._saved_at < SAVE_AFTER_BYTES:
            if not (self._dirty or self._unflushed):
                return False
            if self.has_place and self._now_s() < self._save_s:
                return False  # a crash costs nothing: the log behind the file's place is walked over
        self._dirty = False
        self._save_s = self._now_s() + self._save_every_s
        return True
