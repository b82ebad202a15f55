"""What is derived from log bytes: between `Replica` or recovery, which have them, and `Dispatch`.

Most messages are plain: nobody but their queue and the index wants to know of them. Compiled, these are read and
dispatched in runs (`_copied_run.pyx`); all others, and all of them without a compiler, become entries.

A message is plain when its queue is known; it is the next of its queue; it is no part of a transaction and
points to no other message; no dispatcher follows its topic or one of its properties; tags and keys are ASCII. A queue
is known once a message of it has gone the general way, so that every dispatcher has heard of the queue.
"""

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketeer.compiled import COMPILED
from rocketeer.model.offsets import LogOffset
from rocketeer.model.topic import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.entries import Rest, entries_in, next_entry
from rocketeer.record.layout import Buffer
from rocketeer.record.topic_end import ends_topic
from rocketeer.store.consume_queue import ConsumeQueue
from rocketeer.store.dispatch import TX_UNSEEN, Dispatch

if TYPE_CHECKING or COMPILED:
    from rocketeer.store._copied_run import CopiedRun


@dataclass(frozen=True, slots=True)
class CopiedPart:
    """Messages next to each other that are dispatched in one way."""

    first: LogOffset
    entries: list[DispatchEntry] | None = None
    run: tuple[int, int] = (0, 0)
    """Where the part begins and ends in the run that was read, if it has no entries."""


class Copied:
    """Reads records from log bytes and dispatches them. `read`, then `apply` for each part, then `clear`."""

    def __init__(self, dispatch: Dispatch, levels: DelayLevels) -> None:
        self._dispatch = dispatch
        self._levels = levels
        self._run: CopiedRun | None = None
        self._run_dispatchers = -1
        self._followed_topics: frozenset[str] = frozenset()
        self._removals = 0
        self._forget = False

    def forget_queues(self) -> None:
        """Topics changed: every queue goes the general way once more."""
        self._forget = True

    def read(self, buf: Buffer, base: LogOffset, file_end: LogOffset) -> tuple[deque[CopiedPart], Rest]:
        """The whole records of `buf`, which begins at the log offset `base`; BadRecord for bytes that are none."""
        if not COMPILED:
            entries, rest = entries_in(buf, base, file_end, self._levels)
            return deque([CopiedPart(entries[0].log_offset, entries)] if entries else []), rest
        run = self._ready_run()
        parts: deque[CopiedPart] = deque()
        at = 0
        general = False  # behind the end of a topic: its queues start again, and nothing that was known holds
        while True:
            if not general:
                before, began = len(run), at
                at = run.read(buf, at, base)
                if at > began:
                    parts.append(CopiedPart(LogOffset(base + began), None, (before, len(run))))
            found = next_entry(buf, at, base, file_end, self._levels)
            if isinstance(found, Rest):
                return parts, found
            at += found.size
            if not found.sys_flag & TX_UNSEEN:
                run.passed(found.topic, found.queue_id, found.queue_offset)
            general = general or ends_topic(found)
            last = parts[-1].entries if parts else None
            if last is None:
                parts.append(CopiedPart(found.log_offset, [found]))
            else:
                last.append(found)

    def apply(self, part: CopiedPart) -> None:
        """Dispatch one part; what raises may be called again."""
        if part.entries is not None:
            self._dispatch.apply(part.entries)
            if COMPILED:
                self._admit(part.entries)
        else:
            assert self._run is not None
            self._run.apply(self._dispatch, *part.run)

    def take(self, buf: Buffer, start: int, base: LogOffset, count: int) -> tuple[int, int]:
        """Dispatch up to `count` plain messages from `start` on; where the next record begins, and how many."""
        if not COMPILED:
            return start, 0
        run = self._ready_run()
        end = run.read(buf, start, base, count)
        if end > start:
            run.apply(self._dispatch, 0, len(run))
        taken = len(run)
        run.clear()
        return end, taken

    def met(self, entry: DispatchEntry) -> None:
        """A message was dispatched the general way: those that follow in its queue may be plain."""
        if COMPILED:
            self._ready_run()
            self._admit([entry])

    def clear(self) -> None:
        """What was read is dispatched, or was not stored."""
        if self._run is not None and len(self._run):
            self._run.clear()

    def _ready_run(self) -> "CopiedRun":
        dispatchers, queues = self._dispatch.dispatchers, self._dispatch.queues
        if self._run is None or self._run_dispatchers != len(dispatchers):
            self._run = CopiedRun({name for each in dispatchers for name in each.properties})
            self._run_dispatchers = len(dispatchers)
            self._followed_topics = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC}).union(
                *(each.topics for each in dispatchers)
            )
        if self._forget or self._removals != queues.removals:
            self._run.forget()
            self._forget = False
            self._removals = queues.removals
        self._run.clear()
        return self._run

    def _admit(self, entries: list[DispatchEntry]) -> None:
        run, by_key = self._run, self._dispatch.queues.by_key
        assert run is not None
        for key in {(entry.topic, entry.queue_id) for entry in entries if not entry.sys_flag & TX_UNSEEN}:
            queue = by_key.get(key)
            if type(queue) is ConsumeQueue and key[0] not in self._followed_topics:  # no units beside it
                run.admit(*key, queue)
