"""Delayed messages, 18 levels: they wait in SCHEDULE_TOPIC_XXXX, one queue a level, and go back when due.

All messages of a level wait equally long, so each queue is in the order of its delivery times: only its head
needs watching. A queue's consume-queue entries carry the delivery time where others carry the tag's hash.

Each is delivered once, also over a crash: `recovery` finds in the log what was delivered before it.
"""

import asyncio
import logging
from collections.abc import Awaitable

from rocketeer.broker.feature import Feature, IdlePause, Periodic, Replay
from rocketeer.broker.features.delay.offsets import DelayOffsets
from rocketeer.broker.features.delay.recovery import DelayRecovery
from rocketeer.broker.features.delay.roll import DelayRoll
from rocketeer.broker.writer import Writer
from rocketeer.clock import Clock
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.property_names import DELAY
from rocketeer.model.topic import SCHEDULE_TOPIC
from rocketeer.protocol.codes import ResponseCode
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.layout import StoredMessage
from rocketeer.record.properties import (
    target_of,
)
from rocketeer.record.skip import SkipFilter
from rocketeer.store.message_store import MessageStore

log = logging.getLogger(__name__)

TICK_S = 0.02
REST_S = 0.2  # while nothing waits; the shortest level is a second
MESSAGES_PER_TICK = 256
SLICE_S = 0.002
"""Both bound one slice of delivery, of all levels: messages due together may be many, or large."""


class DelayService:
    """Moves messages back to their own queue when due."""

    def __init__(
        self, levels: DelayLevels, clock: Clock, store: MessageStore, writer: Writer, *, save_every_s: float
    ) -> None:
        self._levels = levels
        self._clock = clock
        self._store = store
        self._writer = writer
        self._next_due_ms: dict[int, int] = {}
        self._at_level = 0
        """Where the next slice begins."""
        self.offsets = DelayOffsets(store, save_every_s=save_every_s, now_s=clock.monotonic_s)
        self.recovery = DelayRecovery(levels, self.offsets, store)

    def run(self) -> Awaitable[None] | None:
        """Deliver all that is due; whoever waits for the loop comes in between."""
        return self._go_on() if self.deliver() else None

    async def _go_on(self) -> None:
        more = True
        while more:
            await asyncio.sleep(0)
            more = self.deliver()

    def deliver(self) -> bool:
        """Deliver what is due, a bounded slice of it; True when the slice ended before that was done."""
        now_ms = self._clock.now_ms()
        until_s = self._clock.monotonic_s() + SLICE_S
        first = next((at for at, level in enumerate(self.recovery.levels) if level >= self._at_level), 0)
        for level in (*self.recovery.levels[first:], *self.recovery.levels[:first]):
            due_ms = self._next_due_ms.get(level, 0)
            # Further away than the level is long: the clock was set back meanwhile.
            if due_ms <= now_ms or due_ms > now_ms + self._levels.delay_ms(level):
                self._deliver_level(level, now_ms, until_s)
                if self._clock.monotonic_s() >= until_s:
                    self._at_level = level + 1  # the others have their turn, too
                    return True
        return False

    def oldest_needed(self) -> LogOffset | None:
        """The log offset of the oldest message that waits."""
        heads = [self._waiting(level, 1) for level in self.recovery.levels]
        return min((entries[0][0] for entries in heads if entries), default=None)

    def _waiting(self, level: int, count: int) -> list[tuple[LogOffset, int, int]]:
        return self._store.entries(SCHEDULE_TOPIC, level - 1, QueueOffset(self._next(level)), count)

    def _next(self, level: int) -> int:
        """The queue offset of the next message to deliver; one whose file was deleted is not there any more."""
        low = self._store.min_queue_offset(SCHEDULE_TOPIC, level - 1)
        return max(self.offsets.delivered.get(level, 0), low)

    def _deliver_level(self, level: int, now_ms: int, until_s: float) -> None:
        delay_ms = self._levels.delay_ms(level)
        extra = self.recovery.extra.get(level, set())
        offset = self._next(level)
        for log_offset, _, deliver_ms in self._waiting(level, MESSAGES_PER_TICK):
            if offset in extra:  # delivered before a crash, out of turn
                extra.discard(offset)
            else:
                # A clock that was set back, or shorter levels than when it was stored, must not hold it longer.
                due_ms = deliver_ms if deliver_ms <= now_ms + delay_ms else now_ms
                if due_ms > now_ms:
                    self._next_due_ms[level] = due_ms
                    return
                message = self._store.message_at(log_offset)
                if message is None:
                    log.warning("delayed message gone level=%d log_offset=%d", level, log_offset)
                elif not _put_back(message, self._writer):
                    self._next_due_ms[level] = now_ms + 1_000
                    return
            offset = QueueOffset(offset + 1)
            self.offsets.advance(
                level, offset
            )  # at once: whatever fails next, this one is not delivered again
            if self._clock.monotonic_s() >= until_s:
                return


def _put_back(message: StoredMessage, writer: Writer) -> bool:
    """Store a due message in its own topic and queue; False when the store refuses it now.

    One that the store will never take must not hold up those behind it.
    """
    where = target_of(message.properties)
    if where is None:
        log.error("delayed message without a target dropped log_offset=%d", message.log_offset)
        return True
    put = writer.put_now(message.pending(*where, message.properties))
    if put.code == ResponseCode.MESSAGE_ILLEGAL:
        log.error("delayed message not delivered topic=%r log_offset=%d reason=%s",
                  where[0], message.log_offset, put.remark)  # fmt: skip
        return True
    return put.stored


def delay_feature(
    levels: DelayLevels, clock: Clock, store: MessageStore, writer: Writer, *, save_every_s: float
) -> Feature:
    service = DelayService(levels, clock, store, writer, save_every_s=save_every_s)
    recovery = service.recovery
    roll = DelayRoll(levels, service.offsets, recovery, store, writer, clock)

    def progress() -> dict[str, str]:
        return {
            f"scheduleMessageOffset_{level}": f"{offset},{store.max_queue_offset(SCHEDULE_TOPIC, level - 1)}"
            for level, offset in sorted(service.offsets.delivered.items())
        }

    return Feature(
        "delay",
        internal_topics=(SCHEDULE_TOPIC,),
        services=(
            Periodic(
                "deliver delayed messages",
                TICK_S,
                service.run,
                IdlePause(lambda: service.oldest_needed() is None, REST_S),
            ),
        ),
        replays=(
            Replay(recovery.since, recovery.on_message, recovery.finish, SkipFilter(properties=(DELAY,))),
        ),
        state=(service.offsets,),
        needs=(service.oldest_needed,),
        rolls=(roll.roll,),
        runtime_info=(progress,),
    )
