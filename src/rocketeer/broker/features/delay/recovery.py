"""What was delivered behind the saved offsets: after a crash the log tells, so that no delay ends twice.

A delivered message is stored with all the properties it waited with, so it says which level it waited in; each
cancels the earliest message of its level that is like it. The walk starts where the log ended when the offsets were
saved.

Java writes the offsets without that place (and leaves the last delivered message of a level in). Then each message
that was due before the log ends is looked for in its own queue, around the time it was due.
"""

import logging
from collections.abc import Iterator
from typing import Final

from rocketeer.broker.features.delay.offsets import DelayOffsets
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.property_names import DELAY, REAL_QID, REAL_TOPIC
from rocketeer.model.topic import SCHEDULE_TOPIC
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.layout import StoredMessage
from rocketeer.record.properties import QUEUE_DIGITS_MAX, target_of, whole_number
from rocketeer.record.timers import ended_by
from rocketeer.store.message_store import MessageStore

log = logging.getLogger(__name__)

READ_COUNT: Final = 256
AHEAD_MAX: Final = 10_000
"""How many waiting messages a delivered one is compared with: nearly always it is the first."""
LOOK_FOR_MS: Final = 600_000
"""How long after it was due a message is looked for in its own queue."""
BACK_COUNT: Final = 64
"""A time is found in a queue to about this many messages."""

Identity = tuple[object, ...]


class DelayRecovery:
    """Brings the offsets up to the end of the log; `extra` has what was delivered out of turn."""

    def __init__(self, levels: DelayLevels, offsets: DelayOffsets, store: MessageStore) -> None:
        self._offsets = offsets
        self._store = store
        self._delivered: dict[int, QueueOffset] = {}
        self._waiting = False
        self.levels: tuple[int, ...] = tuple(range(1, levels.max_level + 1))
        """All levels that messages wait in, also those the table had when it was longer."""
        self.extra: dict[int, set[int]] = {}

    # --- the replay --------------------------------------------------------------------------

    def since(self) -> LogOffset:
        """The log offset at which the replay has to begin."""
        end = self._store.max_log_offset
        self._open_levels()
        if not self._waiting:
            return end
        saved = self._offsets.log_offset
        if saved is None or saved > end:
            self._look_up_all()
            return end
        return saved

    def on_message(self, entry: DispatchEntry) -> None:
        if not self._waiting or entry.topic == SCHEDULE_TOPIC:
            return
        ended = ended_by(entry.prepared_offset)
        if ended is not None:
            self._taken_over(ended)
            return
        message = self._store.message_at(entry.log_offset)
        level = None if message is None else _level_of(message)
        if message is None or level not in self._delivered:
            return
        wanted = _identity(message)
        for offset, log_offset, _ in self._not_delivered(level):
            if log_offset >= entry.log_offset:
                return
            waiting = self._store.message_at(log_offset)
            if waiting is not None and _identity(waiting) == wanted:
                self._note(level, offset)
                return

    def finish(self) -> None:
        before = self._offsets.delivered
        for level, offset in self._delivered.items():
            if offset > before.get(level, 0):
                log.info("delayed messages found delivered level=%d from=%d to=%d",
                         level, before.get(level, 0), offset)  # fmt: skip
        self._offsets.recovered({level: offset for level, offset in self._delivered.items() if offset})

    # --- what waits --------------------------------------------------------------------------

    def _open_levels(self) -> None:
        seen = {queue_id + 1 for topic, queue_id in self._store.queues() if topic == SCHEDULE_TOPIC}
        self.levels = tuple(sorted(seen.union(self.levels)))
        for level in self.levels:
            low = self._store.min_queue_offset(SCHEDULE_TOPIC, level - 1)
            high = self._store.max_queue_offset(SCHEDULE_TOPIC, level - 1)
            saved = self._offsets.delivered.get(level, 0)
            offset = min(max(QueueOffset(saved), low), high)
            if saved > high:
                log.error("delay offset beyond its queue level=%d saved=%d max=%d", level, saved, high)
            elif saved < low:
                log.error("delayed messages expired undelivered level=%d from=%d to=%d", level, saved, low)
            self._delivered[level] = offset
            self._waiting = self._waiting or offset < high

    def _not_delivered(self, level: int) -> Iterator[tuple[QueueOffset, LogOffset, int]]:
        """(queue offset, log offset, when it is due) of what waits in the level, oldest first; not without end."""
        offset = self._delivered[level]
        stop = offset + AHEAD_MAX
        extra = self.extra.setdefault(level, set())
        while offset < stop:
            entries = self._store.entries(SCHEDULE_TOPIC, level - 1, offset, READ_COUNT)
            if not entries:
                return
            for log_offset, _, due_ms in entries:
                if offset not in extra:
                    yield offset, log_offset, due_ms
                offset = QueueOffset(offset + 1)

    def _taken_over(self, log_offset: LogOffset) -> None:
        """Note a delayed message that a timer took over: its record names the one it ends."""
        message = self._store.message_at(log_offset)
        if message is not None and message.topic == SCHEDULE_TOPIC:
            level = message.queue_id + 1
            if message.queue_offset >= self._delivered.get(level, 0):
                self._note(level, message.queue_offset)

    def _note(self, level: int, offset: QueueOffset) -> None:
        extra = self.extra.setdefault(level, set())
        extra.add(offset)
        while self._delivered[level] in extra:
            extra.discard(self._delivered[level])
            self._delivered[level] = QueueOffset(self._delivered[level] + 1)

    # --- without a place in the log ----------------------------------------------------------

    def _look_up_all(self) -> None:
        for level in self.levels:
            for offset, log_offset, due_ms in self._not_delivered(level):
                waiting = self._store.message_at(log_offset)
                if waiting is not None and not self._look_up(level, offset, waiting, due_ms):
                    break

    def _look_up(self, level: int, offset: QueueOffset, waiting: StoredMessage, due_ms: int) -> bool:
        """False when the message cannot have been delivered yet, and so none behind it in its level either."""
        where = target_of(waiting.properties)
        if where is None:
            return True
        wanted = _identity(waiting)
        at = max(self._store.offset_by_time(*where, due_ms) - BACK_COUNT, 0)
        at = max(at, self._store.min_queue_offset(*where))
        is_past = False
        while entries := self._store.entries(*where, QueueOffset(at), READ_COUNT):
            for log_offset, _, _ in entries:
                message = self._store.message_at(log_offset)
                if message is None or log_offset <= waiting.log_offset:
                    continue
                is_past = is_past or message.store_ms >= due_ms
                if message.store_ms > due_ms + LOOK_FOR_MS:
                    return True
                if _identity(message) == wanted and _level_of(message) == level:
                    self._note(level, offset)
                    return True
            at += len(entries)
        return is_past


def _level_of(message: StoredMessage) -> int | None:
    """The level a delivered message waited in; None for any other message."""
    properties = message.properties_dict()
    if properties.get(REAL_TOPIC) != message.topic or properties.get(REAL_QID) != str(message.queue_id):
        return None
    return whole_number(properties.get(DELAY), QUEUE_DIGITS_MAX)


def _identity(message: StoredMessage) -> Identity:
    """What a delivered message has in common with itself when it waited. (Java writes properties in any order.)"""
    return (
        message.born_ms,
        message.born_host,
        message.body_crc,
        len(message.body),
        message.flag,
        message.reconsume_times,
        frozenset(message.properties_dict().items()),
    )
