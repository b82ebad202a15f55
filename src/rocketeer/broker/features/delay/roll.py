"""Long delay levels (days): before the file of a message that waits in its level goes, a timer takes it over.

It cannot be stored in its level's queue again: there it would wait its whole time anew, behind others. As a timer
it keeps its time; the record of it names the one it replaces, as every record does that ends a waiting message.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from rocketeer.broker.writer import Writer
from rocketeer.clock import Clock
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.topic import SCHEDULE_TOPIC
from rocketeer.protocol.codes import ResponseCode
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.timers import handed_over
from rocketeer.store.message_store import MessageStore

log = logging.getLogger(__name__)

ROLL_COUNT = 128
ROLL_S = 0.003
"""Both bound one slice: messages may be large."""


class Delivered(Protocol):
    """How far each level was delivered."""

    @property
    def delivered(self) -> Mapping[int, QueueOffset]: ...

    @property
    def has_place(self) -> bool:
        """Whether a start after a crash will see what is handed over from now on."""
        ...

    def advance(self, level: int, offset: QueueOffset) -> None: ...


class DelayLevelProgress(Protocol):
    """Which levels there are, and what was delivered out of turn, by level."""

    @property
    def levels(self) -> Sequence[int]: ...

    @property
    def extra(self) -> Mapping[int, set[int]]: ...


class DelayRoll:
    """`roll` is what the delay feature does for its messages before their file goes."""

    def __init__(
        self,
        levels: DelayLevels,
        offsets: Delivered,
        progress: DelayLevelProgress,
        store: MessageStore,
        writer: Writer,
        clock: Clock,
    ) -> None:
        self._levels = levels
        self._offsets = offsets
        self._progress = progress
        self._store = store
        self._writer = writer
        self._clock = clock

    def roll(self, below: LogOffset) -> bool:
        """Hand over what waits below that log offset; True when nothing there waits any more."""
        if not self._offsets.has_place:  # a crash now would find the message in its level and as a timer
            return False
        left, until_s = ROLL_COUNT, self._clock.monotonic_s() + ROLL_S
        for level in self._progress.levels:
            extra = self._progress.extra.get(level, set())
            offset = self._next(level)
            for log_offset, _, due_ms in self._store.entries(SCHEDULE_TOPIC, level - 1, offset, left):
                if log_offset >= below:
                    break
                if offset in extra:
                    extra.discard(offset)
                elif not self._hand_over(level, log_offset, due_ms):
                    return False
                offset = QueueOffset(offset + 1)
                self._offsets.advance(level, offset)
                left -= 1
                if self._clock.monotonic_s() >= until_s:
                    return False
            if left <= 0:
                return False
        return True

    def _next(self, level: int) -> QueueOffset:
        delivered = QueueOffset(self._offsets.delivered.get(level, 0))
        return max(delivered, self._store.min_queue_offset(SCHEDULE_TOPIC, level - 1))

    def _hand_over(self, level: int, log_offset: LogOffset, due_ms: int) -> bool:
        """Hand a waiting message over to the timers; False when the store refuses it now."""
        message = self._store.message_at(log_offset)
        if message is None:
            log.warning("delayed message gone level=%d log_offset=%d", level, log_offset)
            return True
        # A clock that was set back, or shorter levels than when it was stored, must not hold it longer.
        due_ms = min(due_ms, self._clock.now_ms() + self._levels.delay_ms(level))
        put = self._writer.put_now(handed_over(message, due_ms))
        if put.code == ResponseCode.MESSAGE_ILLEGAL:
            log.error("delayed message not rolled forward level=%d log_offset=%d reason=%s",
                      level, log_offset, put.remark)  # fmt: skip
            return True
        return put.stored
