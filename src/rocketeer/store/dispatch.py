"""From a stored message to everything derived from it: its consume queue, the index, features, held pulls.

Whichever way a message comes into the log, it ends here, and what is derived from it is the same. Whoever brings a
run has put its entries into their queues: all else is derived here.

    general append      apply(entries)     made by append from the messages
    copied log bytes    apply(entries)     made from the bytes; apply_run(...) for plain ones (`log_bytes_runs.py`)
    recovery            redo(entry, put)   made from the bytes; apply_run(...) for plain ones (`redo.py`)
    compiled sends      apply_run(...)     columns instead of entries: no dispatcher wants one of these messages

Recovery makes queues and index only: features add their dispatchers when the store is open. What was stored before
comes to a feature through its `Replay`, from where its own table ends.
"""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from rocketeer.errors import StoreError, StoreRefused
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.record.entry import DispatchEntry
from rocketeer.record.flags import TX_PREPARED, TX_ROLLBACK
from rocketeer.record.properties import find_property
from rocketeer.record.topic_end import ends_topic
from rocketeer.store.consume_queue import ConsumeQueue
from rocketeer.store.index import Index, KeyColumnTexts
from rocketeer.store.queue_table import QueueTable

log = logging.getLogger(__name__)

OnArrival = Callable[[str, int, QueueOffset], None]
"""(topic, queue id, the queue's new end) after a message became visible."""

Listening = tuple[Collection[tuple[str, int]], OnArrival]
"""Which queues somebody listens to now, by topic and id, and whom to tell: most messages are awaited by nobody."""

TX_UNSEEN = TX_PREPARED
"""The bit that prepared and rolled-back messages share: consumers never see them, no queue has them."""
assert TX_PREPARED & TX_ROLLBACK == TX_UNSEEN


@dataclass(frozen=True)
class Dispatcher:
    """Derived state of a feature, and which messages it is derived from: `on_message` is called for those only.

    A message is wanted if any of the four says so. Plain sends are none of them by construction: what is named
    here keeps a message off the compiled path.
    """

    on_message: Callable[[DispatchEntry], None]
    topics: frozenset[str] = frozenset()
    """Every message of these topics."""
    properties: tuple[str, ...] = ()
    """Every message that has one of these properties."""
    pointing: bool = False
    """Every message that points to another one (its prepared offset is not 0): it commits or ends that one."""
    each_queue: bool = False
    """Every queue there is: at least its first message since topics changed, however often others follow. Slaves need
    no more, and runs of copied bytes show it no more; no send goes the compiled way then."""

    def wants(self, entry: DispatchEntry) -> bool:
        return (
            self.each_queue
            or entry.topic in self.topics
            or (self.pointing and entry.prepared_offset != 0)
            or any(find_property(entry.properties, name.encode()) for name in self.properties)
        )

    def wanted(self, entries: Sequence[DispatchEntry]) -> Sequence[DispatchEntry]:
        """The messages that are wanted out of many; a slave asks this of all it copies."""
        if self.each_queue:
            return entries
        topics, pointing, names = self.topics, self.pointing, self._names
        return [
            each
            for each in entries
            if (
                each[2] in topics
                or (pointing and each[10])
                or (names is not None and names.search(each[11]) is not None)
            )
            and self.wants(each)
        ]

    @cached_property
    def _names(self) -> re.Pattern[bytes] | None:
        """Finds what may be one of the properties."""
        names = b"|".join(re.escape(name.encode()) for name in self.properties)
        return re.compile(names) if names else None


class Followed(NamedTuple):
    """What several dispatchers want together, as far as a message shows it before it is stored."""

    topics: frozenset[str]
    properties: frozenset[str]
    each_queue: bool
    """No message is of interest to nobody."""


def followed_by(dispatchers: Collection[Dispatcher]) -> Followed:
    """What keeps messages off the compiled ways: these lead past dispatchers."""
    return Followed(
        frozenset(topic for each in dispatchers for topic in each.topics),
        frozenset(name for each in dispatchers for name in each.properties),
        any(each.each_queue for each in dispatchers),
    )


class DispatchErrorGuard:
    """Calls those who derive state from messages; one that fails at a message is logged, and the message passed over.

    That is a bug of ours, but it must not keep a broker from starting, nor a slave from following its master: what
    is derived lacks one message, and the log says which. A disk or memory that fails is no message's fault: raised.
    """

    __slots__ = ("_logged",)

    def __init__(self) -> None:
        self._logged: set[Callable[[DispatchEntry], None]] = set()

    def call(self, on_message: Callable[[DispatchEntry], None], entry: DispatchEntry) -> None:
        try:
            on_message(entry)
        except (OSError, MemoryError, StoreError, StoreRefused):
            raise
        except Exception as error:
            # Where it happened once is enough: strangers may send many.
            log.error(
                "message passed over: what is derived from it is missing log_offset=%d topic=%s "
                "handler=%s reason=%.200r",
                entry.log_offset, entry.topic, getattr(on_message, "__qualname__", on_message), error,
                exc_info=on_message not in self._logged,
            )  # fmt: skip
            self._logged.add(on_message)


class Dispatch:
    """Where entries go. The lists are open: features add themselves.

                    queues                  dispatchers                 listeners
        apply       are filled here         see the messages they want  are told
        redo        `put` fills them        there are none yet          there are none yet
        apply_run   the caller filled them  want none of these, or      are told
                                            saw the queue (`each_queue`)

    All keys go to the index. `apply` and `apply_run` may be called again after they raised:
    no queue takes an entry twice.
    """

    __slots__ = ("_guard", "dispatchers", "index", "last_store_ms", "listeners", "on_grown", "queues")

    def __init__(self, queues: QueueTable, index: Index | None) -> None:
        self.queues = queues
        self.index = index
        self._guard = DispatchErrorGuard()
        self.dispatchers: list[Dispatcher] = []
        self.listeners: list[Listening] = []
        self.on_grown: list[Callable[[], None]] = []
        """Called when the log has grown, once for messages that came together."""
        self.last_store_ms = 0
        """When the newest message was stored."""

    def apply(self, entries: Sequence[DispatchEntry]) -> None:
        """Dispatch messages that are new in the log, one behind the other."""
        if not entries:
            return
        find = self.queues.get
        grown: dict[ConsumeQueue, None] = {}
        for entry in entries:
            if not entry.sys_flag & TX_UNSEEN:
                queue = find(entry.topic, entry.queue_id) or self._queue(entry)
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
        """Dispatch a message found in the log, `put` into its queue; derived files that have it already stay."""
        if not entry.sys_flag & TX_UNSEEN:
            queue = self._queue(entry)
            if queue is not None:
                put(queue, entry)
        elif ends_topic(entry):
            self.queues.remove_topic(entry.topic)
        if self.index is not None:
            self.index.add(entry)
        self.last_store_ms = entry.store_ms

    def apply_run(
        self,
        grown: Collection[ConsumeQueue],
        keys: KeyColumnTexts,
        messages: int,
        first: LogOffset,
        end: LogOffset,
        store_ms: int,
    ) -> None:
        """Dispatch what is new in the log from `first` to `end`: plain sends, whose entries the queues have.

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
                self._guard.call(dispatcher.on_message, entry)

    def _tell(self, grown: Iterable[ConsumeQueue]) -> None:
        for log_has_grown in self.on_grown:
            log_has_grown()
        for awaited, listener in self.listeners:
            if awaited:
                for queue in grown:
                    if (queue.topic, queue.queue_id) in awaited:
                        listener(queue.topic, queue.queue_id, queue.max_offset)
