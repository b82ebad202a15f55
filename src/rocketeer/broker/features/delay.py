"""Delayed messages, 18 levels: they wait in SCHEDULE_TOPIC_XXXX, one queue a level, and go back when due.

All messages of a level wait equally long, so each queue is in the order of its delivery times: only its head
needs watching. A queue's consume-queue entries carry the delivery time where others carry the tag's hash.
"""

import logging
from collections.abc import Callable
from typing import Protocol

from rocketeer.broker.feature import Feature, Periodic
from rocketeer.broker.writer import Put, Writer
from rocketeer.clock import Clock
from rocketeer.model.topic import SCHEDULE_TOPIC
from rocketeer.protocol.bodies.offsets import decode_delay_offsets, encode_delay_offsets
from rocketeer.protocol.codes import ResponseCode
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.flags import TX_MASK
from rocketeer.record.layout import PendingMessage, StoredMessage
from rocketeer.record.properties import (
    DELAY,
    REAL_QID,
    REAL_TOPIC,
    decode_properties,
    encode_properties,
    find_property,
)

log = logging.getLogger(__name__)

TICK_S = 0.02
MESSAGES_PER_TICK = 256
"""Bounds one slice of delivery, so that a burst of due messages does not hold up the loop."""


class ScheduleLog(Protocol):
    """What delivery asks of the store."""

    def entries(self, topic: str, queue_id: int, offset: int, max_count: int) -> list[tuple[int, int, int]]:
        """(log offset, size, tag code) of the queue's entries from `offset` on."""
        ...

    def min_queue_offset(self, topic: str, queue_id: int) -> int: ...

    def message_at(self, log_offset: int) -> StoredMessage | None: ...


class DelayOffsets:
    """How far each level was delivered: config/delayOffset.json."""

    file_name = "delayOffset.json"

    def __init__(self) -> None:
        self.delivered: dict[int, int] = {}
        self._dirty = False

    def advance(self, level: int, offset: int) -> None:
        self.delivered[level] = offset
        self._dirty = True

    def encode(self) -> str:
        return encode_delay_offsets(self.delivered).decode()

    def decode(self, text: str) -> None:
        self.delivered = decode_delay_offsets(text.encode())

    def take_dirty(self) -> bool:
        dirty, self._dirty = self._dirty, False
        return dirty


class DelayService:
    """Moves messages into their level's queue, and back to their own when due."""

    def __init__(self, levels: DelayLevels, clock: Clock) -> None:
        self._levels = levels
        self._clock = clock
        self._next_due_ms: dict[int, int] = {}
        self.offsets = DelayOffsets()

    def rewrite(self, message: PendingMessage) -> None:
        """Send a message with a delay level to the schedule topic, remembering where it belongs."""
        if message.sys_flag & TX_MASK not in (0, 0x8):
            return
        raw = find_property(message.properties, DELAY.encode())
        if raw is None or not raw.isdigit() or int(raw) == 0:
            return
        level = min(int(raw), self._levels.max_level)
        properties = decode_properties(message.properties)
        properties[DELAY] = str(level)
        properties[REAL_TOPIC] = message.topic
        properties[REAL_QID] = str(message.queue_id)
        message.properties = encode_properties(properties)
        message.topic = SCHEDULE_TOPIC
        message.queue_id = level - 1

    def deliver(self, store: ScheduleLog, writer: Writer) -> None:
        """Deliver what is due, a bounded slice of it."""
        now_ms = self._clock.now_ms()
        for level in range(1, self._levels.max_level + 1):
            due_ms = self._next_due_ms.get(level, 0)
            # Further away than the level is long: the clock was set back meanwhile.
            if due_ms <= now_ms or due_ms > now_ms + self._levels.delay_ms(level):
                self._deliver_level(level, store, writer, now_ms)

    def _deliver_level(self, level: int, store: ScheduleLog, writer: Writer, now_ms: int) -> None:
        delay_ms = self._levels.delay_ms(level)
        queue_id = level - 1
        offset = max(self.offsets.delivered.get(level, 0), store.min_queue_offset(SCHEDULE_TOPIC, queue_id))
        for log_offset, _, deliver_ms in store.entries(SCHEDULE_TOPIC, queue_id, offset, MESSAGES_PER_TICK):
            # A clock that was set back, or shorter levels than when it was stored, must not hold it longer.
            due_ms = deliver_ms if deliver_ms <= now_ms + delay_ms else now_ms
            if due_ms > now_ms:
                self._next_due_ms[level] = due_ms
                break
            message = store.message_at(log_offset)
            if message is None:
                log.warning("delayed message gone level=%d log_offset=%d", level, log_offset)
            elif not _put_back(message, writer):
                self._next_due_ms[level] = now_ms + 1_000
                break
            offset += 1
        if offset != self.offsets.delivered.get(level, 0):
            self.offsets.advance(level, offset)


def _put_back(message: StoredMessage, writer: Writer) -> bool:
    """Store a due message in its own topic and queue; False when the store refuses it now.

    One that the store will never take must not hold up those behind it.
    """
    properties = message.properties_dict()
    topic = properties.get(REAL_TOPIC)
    queue = properties.get(REAL_QID, "")
    if topic is None or not queue.isdigit():
        log.error("delayed message without a target dropped log_offset=%d", message.log_offset)
        return True
    outcome: list[Put] = []
    due = PendingMessage(
        topic=topic,
        queue_id=int(queue),
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_ms=message.born_ms,
        born_host=message.born_host,
        body=message.body,
        properties=message.properties,
        reconsume_times=message.reconsume_times,
    )
    writer.put(due, outcome.append, wait=False, as_it_is=True)
    (put,) = outcome
    if put.code == ResponseCode.MESSAGE_ILLEGAL:
        log.error("delayed message not delivered topic=%r log_offset=%d reason=%s",
                  topic, message.log_offset, put.remark)  # fmt: skip
        return True
    return put.stored


def delay_feature(
    levels: DelayLevels, clock: Clock, store: ScheduleLog, writer: Callable[[], Writer]
) -> Feature:
    """`writer` is asked for at run time: it is made from the features' own rewrites."""
    service = DelayService(levels, clock)
    return Feature(
        "delay",
        claims=(DELAY,),
        rewrites=(service.rewrite,),
        services=(Periodic("deliver delayed messages", TICK_S, lambda: service.deliver(store, writer())),),
        state=(service.offsets,),
    )
