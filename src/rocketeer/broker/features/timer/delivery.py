"""Moves timed messages back to their topic and queue when they are due, and forward before their file goes.

A slice at a time, a few milliseconds each, so that fifty thousand messages due in one second hold up nobody.
"""

import logging
from collections.abc import Sequence
from typing import Final

from rocketeer.broker.features.timer.block import Timer, TimerRows
from rocketeer.broker.features.timer.pending import PendingTimers
from rocketeer.broker.features.timer.restore import key_hash, timer_of
from rocketeer.broker.writer import OnWritten, Writer, WriteResult
from rocketeer.clock import Clock
from rocketeer.model.offsets import LogOffset
from rocketeer.model.topic import TIMER_TOPIC
from rocketeer.observe.counters import Histogram
from rocketeer.protocol.codes import ResponseCode
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.layout import PendingMessage
from rocketeer.record.timers import delivered, due_ms, rolled_forward
from rocketeer.store.message_store import MessageStore

log = logging.getLogger(__name__)

TAKE: Final = 64  # messages that are taken together
SLICE_S: Final = 0.003
ROUNDS: Final = 8  # of a slice, however slowly the clock goes
PAUSE_S: Final = 0.5  # after the store refused a message: the disk is full
ROLL_TAKE: Final = 128


AHEAD_BUCKETS_S: Final = (60, 600, 3_600, 43_200, 86_400, 259_200)


class TimerDelivery:
    """The loop thread's: `tick` delivers, `roll` saves from deletion."""

    def __init__(self, pending: PendingTimers, store: MessageStore, writer: Writer, clock: Clock) -> None:
        self.pending = pending
        self._changes = 0
        self._store = store
        self._writer = writer
        self._clock = clock
        self._paused_until_s = 0.0
        self._ending = 0
        self.delivered = 0
        self.ahead_s = Histogram(AHEAD_BUCKETS_S)
        """How far ahead messages were timed."""

    @property
    def changes(self) -> int:
        """Timers that began or ended since the last snapshot."""
        return self._changes

    def restore(self, waiting: TimerRows, changes: int) -> None:
        """Begin with the timers that wait; so many changed since the snapshot they were read from."""
        self.pending.load(waiting)
        self._changes = changes

    def snapshot_begins(self) -> None:
        """From here on changes are those since the snapshot that is being written."""
        self._changes = 0

    def snapshot_failed(self) -> None:
        """There is something to note again."""
        self._changes += 1

    def stored(self, entry: DispatchEntry) -> None:
        """The dispatcher: a message that waits is a timer; one that somebody else ended no longer."""
        if entry.prepared_offset < 0 and entry.prepared_offset != self._ending:
            self._ended_elsewhere(LogOffset(~entry.prepared_offset))
        timer = timer_of(entry)
        if timer is not None:
            self.pending.add(timer)
            self._changes += 1
            self.ahead_s.add(max(0, timer.due_ms - entry.store_ms) // 1000)

    def store_recall(self, message: PendingMessage, done: OnWritten) -> None:
        """Store the record that recalls a timer, and wait until that is durable; it waits no longer by now."""
        self._changes += 1
        self._store_end(message, done, wait=True)

    def _store_end(self, message: PendingMessage, done: OnWritten, *, wait: bool) -> None:
        """Store a record that ends a timer; that waits no longer by now."""
        self._ending = message.prepared_offset
        self._writer.put(message, done, wait=wait, internal=True)
        self._ending = 0

    def _ended_elsewhere(self, log_offset: LogOffset) -> None:
        """Remove a timer that another broker has ended: a slave's master."""
        message = self._store.message_at(log_offset)
        if message is None or message.topic != TIMER_TOPIC:
            return
        timer = Timer(due_ms(message.properties), log_offset, key_hash(message.uniq_key))
        self._changes += self.pending.remove(timer)

    def tick(self) -> bool:
        """Deliver what is due, for a few milliseconds; True when more is due."""
        until_s = self._clock.monotonic_s() + SLICE_S
        if until_s - SLICE_S < self._paused_until_s:
            return False
        for _ in range(ROUNDS):
            now_ms = self._clock.now_ms()
            timers = self.pending.take(now_ms, TAKE)
            for at, timer in enumerate(timers):
                if not self._deliver(timer, now_ms):
                    self._take_back(timers[at:])
                    self._paused_until_s = self._clock.monotonic_s() + PAUSE_S
                    return False
                if self._clock.monotonic_s() >= until_s and at + 1 < len(timers):  # they may be large
                    self._take_back(timers[at + 1 :])
                    return True
            if len(timers) < TAKE:
                return False
            if self._clock.monotonic_s() >= until_s:
                break
        return True

    def oldest(self) -> LogOffset | None:
        """The oldest log offset that is still needed."""
        return self.pending.oldest()

    def roll(self, below: LogOffset) -> bool:
        """Store again what waits below that log offset; True when nothing there waits any more."""
        until_s = self._clock.monotonic_s() + SLICE_S
        timers = self.pending.take_below(below, ROLL_TAKE)
        for at, timer in enumerate(timers):
            if at and self._clock.monotonic_s() >= until_s:
                self._take_back(timers[at:])
                return False
            message = self._store.message_at(timer.log_offset)
            if message is None:
                self._gone(timer)
            elif not self._put(rolled_forward(message), "rolled forward"):
                self._take_back(timers[at:])
                return False
        oldest = self.pending.oldest()
        return oldest is None or oldest >= below

    def _take_back(self, timers: Sequence[Timer]) -> None:
        for timer in timers:
            self.pending.add(timer)

    def _deliver(self, timer: Timer, now_ms: int) -> bool:
        """Store a message whose time has come in its own topic; False when the store refuses it now."""
        message = self._store.message_at(timer.log_offset)
        if message is None:
            self._gone(timer)
            return True
        due = delivered(message, now_ms)
        if due is None:
            log.error("timed message without a target dropped log_offset=%d", timer.log_offset)
            return True
        self.delivered += 1
        return self._put(due, "delivered")

    def _put(self, message: PendingMessage, what: str) -> bool:
        """Store it; False when to try again: one that the store will never take must not hold up those behind it."""
        outcome: list[WriteResult] = []
        self._store_end(message, outcome.append, wait=False)
        (put,) = outcome
        self._changes += put.stored
        if put.code == ResponseCode.MESSAGE_ILLEGAL:
            log.error(
                "timed message not %s topic=%s log_offset=%d reason=%s",
                what, message.topic, ~message.prepared_offset, put.remark,
            )  # fmt: skip
            return True
        return put.stored

    def _gone(self, timer: Timer) -> None:
        log.error("timed message gone due_ms=%d log_offset=%d", timer.due_ms, timer.log_offset)
