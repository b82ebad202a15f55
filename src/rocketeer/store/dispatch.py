"""From a stored message to everything derived from it: its consume queue, the index, features, held pulls.

Whichever way a message comes into the log, it ends here, and what is derived from it is the same:

    general append      apply(entries)     made by append from the messages
    copied log bytes    apply(entries)     made from the bytes; apply_run(...) for plain ones (`copied.py`)
    recovery            redo(entry, put)   made from the bytes; apply_run(...) for plain ones (`redo.py`)
    compiled sends      apply_run(...)     columns instead of entries: no dispatcher wants one of these messages
"""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from rocketeer.errors import StoreError, StoreRefused
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.flags import TX_PREPARED, TX_ROLLBACK
from rocketeer.record.properties import find_property
from rocketeer.record.topic_end import ends_topic
from rocketeer.store.consume_queue import ConsumeQueue
from rocketeer.store.index import Index, KeyColumns
from rocketeer.store.queue_table import QueueTable

log = logging.getLogger(__name__)

Listener = Callable[[str, int, QueueOffset], None]
"""(topic, queue id, the queue's new end) after a message became visible."""

Listening = tuple[Collection[tuple[str, int]], Listener]
"""Which queues somebody listens to now, by topic and id, and whom to tell: most messages are awaited by nobody."""

TX_UNSEEN = TX_PREPARED
"""The bit that prepared and rolled-back messages share: consumers never see them, no queue has them."""
assert TX_PREPARED & TX_ROLLBACK == TX_UNSEEN


@dataclass(frozen=True)
class Dispatcher:
    """Derived state of a feature, and which messages it is derived from: `see` is called for those, and no others.

    A message is wanted if any of the four says so. Plain sends are none of them by construction: what is named
    here keeps a message off the compiled path.
    """

    see: Callable[[DispatchEntry], None]
    topics: frozenset[str] = frozenset()
    """Every message of these topics."""
    properties: tuple[str, ...] = ()
    """Every message that has one of these properties."""
    pointing: bool = False
    """Every message that points to another one (its prepared offset is not 0): it commits or ends that one."""
    each_queue: bool = False
    """Messages of every queue, at least one each since topics changed: for slaves, which take no sends themselves."""

    def wants(self, entry: DispatchEntry) -> bool:
        return (
            self.each_queue
            or entry.topic in self.topics
            or (self.pointing and entry.prepared_offset != 0)
            or any(find_property(entry.properties, name.encode()) for name in self.properties)
        )

    def wanted(self, entries: Sequence[DispatchEntry]) -> Sequence[DispatchEntry]:
        """Those of many messages that are wanted; a slave asks this of all it copies."""
        if self.each_queue:
            return entries
        topics, pointing = self.topics, self.pointing
        if not self.properties:
            return [each for each in entries if each[2] in topics or (pointing and each[10])]
        names = re.compile(b"|".join(re.escape(name.encode()) for name in self.properties))
        maybe = [
            each
            for each in entries
            if each[2] in topics or (pointing and each[10]) or names.search(each[11]) is not None
        ]
        return [each for each in maybe if self.wants(each)]


class Showing:
    """Shows messages to whoever derives state from them, and passes over one at which somebody fails.

    That is a bug of ours, but it must not keep a broker from starting, nor a slave from following its master: what
    is derived lacks one message, and the log says which. A disk or memory that fails is no message's fault: raised.
    """

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: set[Callable[[DispatchEntry], None]] = set()

    def show(self, see: Callable[[DispatchEntry], None], entry: DispatchEntry) -> None:
        try:
            see(entry)
        except (OSError, MemoryError, StoreError, StoreRefused):
            raise
        except Exception as error:
            # Where it happened once is enough: strangers may send many.
            log.error(
                "message passed over: what is derived from it is missing log_offset=%d topic=%s see=%s reason=%.200r",
                entry.log_offset, entry.topic, getattr(see, "__qualname__", see), error,
                exc_info=see not in self._told,
            )  # fmt: skip
            self._told.add(see)


class Dispatch:
    """Where entries go. The lists are open: features add themselves."""

    __slots__ = ("_showing", "dispatchers", "index", "last_store_ms", "listeners", "on_grown", "queues")

    def __init__(self, queues: QueueTable, index: Index | None) -> None:
        self.queues = queues
        self.index = index
        self._showing = Showing()
        self.dispatchers: list[Dispatcher] = []
        self.listeners: list[Listening] = []
        self.on_grown: list[Callable[[], None]] = []
        """Called when the log has grown, once for messages that came together."""
        self.last_store_ms = 0
        """When the newest message was stored."""

    def apply(self, entries: Sequence[DispatchEntry]) -> None:
        """Messages that are new in the log, one behind the other."""
        if not entries:
            return
        by_key = self.queues.by_key
        grown: dict[ConsumeQueue, None] = {}
        for entry in entries:
            if not entry.sys_flag & TX_UNSEEN:
                queue = by_key.get((entry.topic, entry.queue_id)) or self._queue(entry)
                if queue is not None:
                    queue.append(entry)
                    grown[queue] = None
            elif ends_topic(entry):
                self.queues.remove_topic(entry.topic)
        if self.index is not None:
            self.index.extend(entries)
        self._show(entries)
        self.last_store_ms = entries[-1].store_ms
        self._tell(grown)

    def redo(self, entry: DispatchEntry, put: Callable[[ConsumeQueue, DispatchEntry], object]) -> None:
        """A message found in the log, `put` into its queue: derived files that have it already stay as they are."""
        if not entry.sys_flag & TX_UNSEEN:
            queue = self._queue(entry)
            if queue is not None:
                put(queue, entry)
        elif ends_topic(entry):
            self.queues.remove_topic(entry.topic)
        if self.index is not None:
            self.index.add(entry)
        self._show((entry,))

    def apply_run(
        self,
        grown: Collection[ConsumeQueue],
        keys: KeyColumns,
        messages: int,
        first: LogOffset,
        end: LogOffset,
        store_ms: int,
    ) -> None:
        """Messages that are new in the log from `first` to `end`, all plain sends, whose entries the queues have.

        `keys` are the columns of their keys, as the index takes them.
        """
        if self.index is not None:
            self.index.extend_columns(keys, messages, first, end)
        self.last_store_ms = store_ms
        self._tell(grown)

    def _queue(self, entry: DispatchEntry) -> ConsumeQueue | None:
        """The message's queue, made if there is none; None when there can be none."""
        try:
            return self.queues.get_or_make(entry.topic, entry.queue_id)
        except StoreRefused as refused:
            log.error("message not dispatched log_offset=%d reason=%s", entry.log_offset, refused)
            return None

    def _show(self, entries: Sequence[DispatchEntry]) -> None:
        for dispatcher in self.dispatchers:
            for entry in dispatcher.wanted(entries):
                self._showing.show(dispatcher.see, entry)

    def _tell(self, grown: Iterable[ConsumeQueue]) -> None:
        for log_has_grown in self.on_grown:
            log_has_grown()
        for awaited, listener in self.listeners:
            if awaited:
                for queue in grown:
                    if (queue.topic, queue.queue_id) in awaited:
                        listener(queue.topic, queue.queue_id, queue.max_offset)
