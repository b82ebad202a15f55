"""From a stored message to everything derived from it: its consume queue, the index, features, held pulls.

Append, replication and recovery all end here with the same entries, so they derive the same.
"""

from collections.abc import Callable

from rocketeer.record.entry import DispatchEntry
from rocketeer.record.flags import TX_PREPARED, TX_ROLLBACK
from rocketeer.store.index import Index
from rocketeer.store.queue_table import QueueTable

Listener = Callable[[str, int, int], None]
"""(topic, queue id, the queue's new end) after a message became visible."""

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
        self.listeners: list[Listener] = []

    def apply(self, entry: DispatchEntry) -> None:
        """A message that is new in the log."""
        seen = not entry.sys_flag & TX_UNSEEN
        if seen:
            self.queues.get_or_make(entry.topic, entry.queue_id).append(entry)
        self.beyond_queue(entry)
        if seen:
            for listener in self.listeners:
                listener(entry.topic, entry.queue_id, entry.queue_offset + 1)

    def beyond_queue(self, entry: DispatchEntry) -> None:
        if self.index is not None:
            self.index.add(entry)
        for dispatcher in self.dispatchers:
            dispatcher(entry)

    def redo(self, entry: DispatchEntry) -> None:
        """A message found in the log at recovery: derived files may have it already and then stay as they are."""
        if not entry.sys_flag & TX_UNSEEN:
            self.queues.get_or_make(entry.topic, entry.queue_id).append(entry)
        self.beyond_queue(entry)
