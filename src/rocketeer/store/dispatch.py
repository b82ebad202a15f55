"""From a stored message to everything derived from it: its consume queue, the index, features, held pulls.

Append, replication and recovery all end here with the same entries, so they derive the same.
"""

import logging
from collections.abc import Callable, Container, Sequence

from rocketeer.errors import StoreRefused
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.flags import TX_PREPARED, TX_ROLLBACK
from rocketeer.record.topic_end import ends_topic
from rocketeer.store.consume_queue import ConsumeQueue
from rocketeer.store.index import Index
from rocketeer.store.queue_table import QueueTable

log = logging.getLogger(__name__)

Listener = Callable[[str, int, int], None]
"""(topic, queue id, the queue's new end) after a message became visible."""

Listening = tuple[Container[tuple[str, int]], Listener]
"""Which queues somebody listens to now, by topic and id, and whom to tell: most messages are awaited by nobody."""

Dispatcher = Callable[[DispatchEntry], None]

TX_UNSEEN = TX_PREPARED
"""The bit that prepared and rolled-back messages share: consumers never see them, no queue has them."""
assert TX_PREPARED & TX_ROLLBACK == TX_UNSEEN


class Dispatch:
    """Where entries go. The two lists are open: features add themselves."""

    __slots__ = ("dispatchers", "index", "listeners", "queues")

    def __init__(self, queues: QueueTable, index: Index | None) -> None:
        self.queues = queues
        self.index = index
        self.dispatchers: list[Dispatcher] = []
        self.listeners: list[Listening] = []

    def apply_run(self, entries: Sequence[DispatchEntry]) -> None:
        """Messages that are new in the log, one behind the other."""
        ends: dict[tuple[str, int], int] = {}
        by_key = self.queues.by_key
        for entry in entries:
            if not entry.sys_flag & TX_UNSEEN:
                key = (entry.topic, entry.queue_id)
                queue = by_key.get(key) or self._queue(entry)
                if queue is not None:
                    queue.append(entry)
                    ends[key] = entry.queue_offset + 1
            elif ends_topic(entry):
                self.queues.remove_topic(entry.topic)
        if self.index is not None:
            self.index.extend(entries)
        for dispatcher in self.dispatchers:
            for entry in entries:
                dispatcher(entry)
        for queues, listener in self.listeners:
            for key, end in ends.items():
                if key in queues:
                    listener(*key, end)

    def redo(
        self,
        entry: DispatchEntry,
        put: Callable[[ConsumeQueue, DispatchEntry], object] = lambda queue, entry: queue.append(entry),
    ) -> None:
        """A message found in the log: derived files that have it already stay as they are."""
        if not entry.sys_flag & TX_UNSEEN:
            queue = self._queue(entry)
            if queue is None:
                return
            put(queue, entry)
        elif ends_topic(entry):
            self.queues.remove_topic(entry.topic)
        if self.index is not None:
            self.index.add(entry)
        for dispatcher in self.dispatchers:
            dispatcher(entry)

    def _queue(self, entry: DispatchEntry) -> ConsumeQueue | None:
        """The message's queue, made if there is none; None when there can be none."""
        try:
            return self.queues.get_or_make(entry.topic, entry.queue_id)
        except StoreRefused as refused:
            log.error("message not dispatched log_offset=%d reason=%s", entry.log_offset, refused)
            return None
