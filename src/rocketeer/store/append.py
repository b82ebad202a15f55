"""The one writer: messages -> records at the end of the log -> dispatch.

The general way in, for one message or for a batch that is stored whole or not at all; plain sends take the compiled
way. Nothing here blocks or locks: it all runs on the event loop's thread.
"""

from collections.abc import Sequence
from time import monotonic
from typing import Final, NamedTuple

from rocketeer.clock import Clock
from rocketeer.errors import StoreRefused
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.topic import SCHEDULE_TOPIC
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entry import DispatchEntry, derive
from rocketeer.record.layout import (
    PendingMessage,
    PlacelessRecord,
    encode_head,
    without_place,
)
from rocketeer.record.properties import PROPERTIES_BYTES_MAX
from rocketeer.steps import Steps
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.dispatch import TX_UNSEEN, Dispatch

EXTRA_BYTES_MAX = 64 * 1024  # what a record may have besides the largest body
_new: Final = tuple.__new__  # makes a NamedTuple in half the time of calling its class


class Prepared(NamedTuple):
    """A message of which all is made that can be before its place in the log is known."""

    message: PendingMessage
    record: PlacelessRecord
    tag_code: int
    keys: str
    uniq_key: str | None


class Appender:
    """Writes records at the end of the log; what is derived from them goes where `dispatch` says.

    Two steps: `preparing` takes most of the time and may be interrupted, `append_prepared` is one piece.
    """

    def __init__(
        self,
        log: CommitLog,
        dispatch: Dispatch,
        *,
        clock: Clock,
        levels: DelayLevels,
        store_host: bytes,
        message_bytes_max: int,
    ) -> None:
        self._log = log
        self._dispatch = dispatch
        self._clock = clock
        self._levels = levels
        self._store_host = store_host
        self._message_bytes_max = message_bytes_max

    def append(self, message: PendingMessage, store_ms: int | None = None) -> DispatchEntry:
        """Store one message; `store_ms` if the caller has read the clock already. Raises StoreRefused."""
        self._check_bodies(len(message.body))
        return self.append_prepared((self._prepare(message),), store_ms)[0]

    def preparing(self, messages: Sequence[PendingMessage]) -> Steps[list[Prepared]]:
        """Make all of them that needs no place in the log. Raises StoreRefused for what breaks RocketMQ's limits."""
        self._check_bodies(sum([len(message.body) for message in messages]))
        prepared = []
        for message in messages:
            prepared.append(self._prepare(message))
            yield
        return prepared

    def append_prepared(
        self, messages: Sequence[Prepared], store_ms: int | None = None
    ) -> list[DispatchEntry]:
        """Store them next to each other in one segment, all or none. Raises StoreRefused.

        A process that dies meanwhile may leave the first ones of them, each whole.
        """
        if not messages:
            return []
        if store_ms is None:
            store_ms = self._clock.now_ms()
        queue_offsets = self._queue_offsets(messages)
        log = self._log
        began_s = monotonic()
        entries = self._write(messages, queue_offsets, store_ms)
        log.append_took(monotonic() - began_s)
        # Copied first, published second: readers trust every byte below `max_offset`, and nothing that is
        # derived points beyond it.
        log.max_offset = entries[-1].end
        self._dispatch.apply(entries)
        return entries

    def _prepare(self, message: PendingMessage) -> Prepared:
        if len(message.properties) > PROPERTIES_BYTES_MAX:
            raise StoreRefused(
                StoreRefused.PROPERTIES_TOO_LONG,
                f"properties of {len(message.properties)} bytes, at most {PROPERTIES_BYTES_MAX} fit",
            )
        if not message.sys_flag & TX_UNSEEN:
            self._dispatch.queues.get_or_make(
                message.topic, message.queue_id
            )  # or the topic's name is refused
        record = without_place(message, self._store_host)
        limit = self._message_bytes_max + EXTRA_BYTES_MAX
        if record.size > limit:
            raise _too_large(record.size, limit)
        return Prepared(message, record, *derive(message.topic, message.properties, 0, self._levels))

    def _write(
        self, messages: Sequence[Prepared], queue_offsets: Sequence[QueueOffset], store_ms: int
    ) -> list[DispatchEntry]:
        """Write the records where the log ends; their entries, as `entry_at` would make them (tested)."""
        log, host = self._log, self._store_host
        total = sum([each.record.size for each in messages])
        first = log.max_offset
        if first + total > log.mark:
            first = log.make_room(total)
        parts: list[bytes] = []
        entries: list[DispatchEntry] = []
        at = LogOffset(first)
        for (message, record, tag_code, keys, uniq_key), queue_offset in zip(
            messages, queue_offsets, strict=True
        ):
            topic, properties = message.topic, message.properties
            if topic == SCHEDULE_TOPIC:  # due so long after it was stored
                tag_code, _, _ = derive(topic, properties, store_ms, self._levels)
            parts += (
                encode_head(message, record, queue_offset, at, store_ms, host),
                message.body,
                record.tail,
            )
            entry = (
                at,
                record.size,
                topic,
                message.queue_id,
                queue_offset,
                tag_code,
                store_ms,
                keys,
                uniq_key,
                record.sys_flag,
                message.prepared_offset,
                properties,
            )
            entries.append(_new(DispatchEntry, entry))
            at = LogOffset(at + record.size)
        log.write(first, b"".join(parts))
        return entries

    def _queue_offsets(self, messages: Sequence[Prepared]) -> list[QueueOffset]:
        """The next offsets of their queues; 0 for a message that no queue will have."""
        queues = self._dispatch.queues
        ends: dict[tuple[str, int], int] = {}
        offsets: list[QueueOffset] = []
        for prepared in messages:
            message = prepared.message
            if message.sys_flag & TX_UNSEEN:
                offsets.append(QueueOffset(0))
                continue
            key = (message.topic, message.queue_id)
            offset = ends.get(key)
            if offset is None:
                offset = queues.get_or_make(*key).max_offset
            ends[key] = offset + 1
            offsets.append(QueueOffset(offset))
        return offsets

    def _check_bodies(self, size: int) -> None:
        if size > self._message_bytes_max:
            raise _too_large(size, self._message_bytes_max)


def _too_large(size: int, limit: int) -> StoreRefused:
    return StoreRefused(
        StoreRefused.TOO_LARGE, f"{size} bytes are more than the limit of {limit} (maxMessageSize)"
    )
