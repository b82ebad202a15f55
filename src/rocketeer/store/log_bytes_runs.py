"""Dispatches log bytes in compiled runs: the twin of `log_bytes_plain.py`, which says what each method does."""

from collections import deque

from rocketeer.model.offsets import LogOffset
from rocketeer.model.topic import WAITING_TOPICS
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.dispatch_entry import DispatchEntry
from rocketeer.record.entries import IncompleteTail, next_entry
from rocketeer.record.layout import Buffer
from rocketeer.record.topic_end import ends_topic
from rocketeer.store import log_bytes_plain
from rocketeer.store._copied_run import CopiedRun
from rocketeer.store.consume_queue import ConsumeQueue
from rocketeer.store.dispatch import TX_UNSEEN, Dispatch, followed_by
from rocketeer.store.log_bytes_plain import LogPart


class LogBytesDispatcher(log_bytes_plain.LogBytesDispatcher):
    """Dispatches plain messages in runs, the others entry by entry."""

    def __init__(self, dispatch: Dispatch, levels: DelayLevels) -> None:
        super().__init__(dispatch, levels)
        self._run: CopiedRun | None = None
        self._run_dispatchers = -1
        self._followed_topics: frozenset[str] = frozenset()
        self._removals = 0
        self._forget = False

    def forget_queues(self) -> None:
        self._forget = True

    def read(
        self, buf: Buffer, base: LogOffset, file_end: LogOffset
    ) -> tuple[deque[LogPart], IncompleteTail]:
        run = self._ready_run()
        parts: deque[LogPart] = deque()
        at = 0
        general = False  # behind the end of a topic: its queues start again, and nothing that was known holds
        while True:
            if not general:
                before, began = len(run), at
                at = run.read(buf, at, base)
                if at > began:
                    parts.append(LogPart(LogOffset(base + began), None, (before, len(run))))
            found = next_entry(buf, at, base, file_end, self._levels)
            if isinstance(found, IncompleteTail):
                return parts, found
            at += found.size
            if not found.sys_flag & TX_UNSEEN:
                run.passed(found.topic, found.queue_id, found.queue_offset)
            general = general or ends_topic(found)
            last = parts[-1].entries if parts else None
            if last is None:
                parts.append(LogPart(found.log_offset, [found]))
            else:
                last.append(found)

    def apply(self, part: LogPart) -> None:
        if part.entries is not None:
            self._dispatch.apply(part.entries)
            self._admit(part.entries)
        else:
            assert self._run is not None
            self._run.apply(self._dispatch, *part.run)

    def take(self, buf: Buffer, start: int, base: LogOffset, count: int) -> tuple[int, int]:
        run = self._ready_run()
        end = run.read(buf, start, base, count)
        if end > start:
            run.apply(self._dispatch, 0, len(run))
        taken = len(run)
        run.clear()
        return end, taken

    def note_dispatched(self, entry: DispatchEntry) -> None:
        self._ready_run()
        self._admit([entry])

    def clear(self) -> None:
        if self._run is not None and len(self._run):
            self._run.clear()

    def _ready_run(self) -> CopiedRun:
        dispatchers, queues = self._dispatch.dispatchers, self._dispatch.queues
        if self._run is None or self._run_dispatchers != len(dispatchers):
            followed = followed_by(dispatchers)
            self._run = CopiedRun(followed.properties)
            self._run_dispatchers = len(dispatchers)
            self._followed_topics = WAITING_TOPICS | followed.topics
        if self._forget or self._removals != queues.removals:
            self._run.forget()
            self._forget = False
            self._removals = queues.removals
        self._run.clear()
        return self._run

    def _admit(self, entries: list[DispatchEntry]) -> None:
        run = self._run
        assert run is not None
        for key in {(entry.topic, entry.queue_id) for entry in entries if not entry.sys_flag & TX_UNSEEN}:
            queue = self._dispatch.queues.get(*key)
            if type(queue) is ConsumeQueue and key[0] not in self._followed_topics:  # no units beside it
                run.admit(*key, queue)
