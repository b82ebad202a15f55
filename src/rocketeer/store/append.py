"""The one writer: messages -> records at the end of the log -> dispatch.

The general way in, for one message or for a batch that is stored whole or not at all; plain sends take the compiled
way. Nothing here blocks or locks: it all runs on the event loop's thread.
"""

from collections.abc import Sequence
from time import monotonic

from rocketeer.clock import Clock
from rocketeer.errors import StoreRefused
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entry import DispatchEntry, derive
from rocketeer.record.layout import (
    PROPERTIES_BYTES_MAX,
    PendingMessage,
    encode_pending,
    pending_size,
    stored_sys_flag,
)
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.dispatch import TX_UNSEEN, Dispatch

EXTRA_BYTES_MAX = 64 * 1024  # what a record may have besides the largest body


class Appender:
    """Writes records at the end of the log; what is derived from them goes where `dispatch` says."""

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
        return self.append_batch((message,), store_ms)[0]

    def append_batch(
        self, messages: Sequence[PendingMessage], store_ms: int | None = None
    ) -> list[DispatchEntry]:
        """Store messages next to each other in one segment, all or none. Raises StoreRefused.

        A process that dies meanwhile may leave the first ones of them, each whole.
        """
        if not messages:
            return []
        if store_ms is None:
            store_ms = self._clock.now_ms()
        sizes = self._checked_sizes(messages)
        queue_offsets = self._queue_offsets(messages)
        log = self._log
        began_s = monotonic()
        entries = self._write(messages, sizes, queue_offsets, store_ms)
        log.append_took(monotonic() - began_s)
        # Copied first, published second: readers trust every byte below `max_offset`, and nothing that is
        # derived points beyond it.
        log.max_offset = entries[-1].end
        self._dispatch.apply(entries)
        return entries

    def _write(
        self,
        messages: Sequence[PendingMessage],
        sizes: Sequence[int],
        queue_offsets: Sequence[QueueOffset],
        store_ms: int,
    ) -> list[DispatchEntry]:
        """Write the records where the log ends; the entries of the messages."""
        log, total = self._log, sum(sizes)
        first = log.max_offset
        if first + total > log.mark:
            first = log.make_room(total)
        records: list[bytes] = []
        entries: list[DispatchEntry] = []
        log_offset = LogOffset(first)
        for message, size, queue_offset in zip(messages, sizes, queue_offsets, strict=True):
            records.append(
                encode_pending(
                    message,
                    queue_offset=queue_offset,
                    log_offset=log_offset,
                    store_ms=store_ms,
                    store_host=self._store_host,
                )
            )
            entries.append(self._entry(message, log_offset, size, queue_offset, store_ms))
            log_offset = LogOffset(log_offset + size)
        log.write(first, b"".join(records))
        return entries

    def _entry(
        self,
        message: PendingMessage,
        log_offset: LogOffset,
        size: int,
        queue_offset: QueueOffset,
        store_ms: int,
    ) -> DispatchEntry:
        """What `entry_at` would make of the record (tested)."""
        tag_code, keys, uniq_key = derive(message.topic, message.properties, store_ms, self._levels)
        return DispatchEntry(
            log_offset,
            size,
            message.topic,
            message.queue_id,
            queue_offset,
            tag_code,
            store_ms,
            keys,
            uniq_key,
            stored_sys_flag(message, self._store_host),
            message.prepared_offset,
            message.properties,
        )

    def _queue_offsets(self, messages: Sequence[PendingMessage]) -> list[QueueOffset]:
        """The next offsets of their queues; 0 for a message that no queue will have."""
        queues = self._dispatch.queues
        ends: dict[tuple[str, int], int] = {}
        offsets: list[QueueOffset] = []
        for message in messages:
            if message.sys_flag & TX_UNSEEN:
                offsets.append(QueueOffset(0))
                continue
            queue = queues.get_or_make(message.topic, message.queue_id)
            key = (message.topic, message.queue_id)
            offset = ends.get(key, queue.max_offset)
            ends[key] = offset + 1
            offsets.append(QueueOffset(offset))
        return offsets

    def _checked_sizes(self, messages: Sequence[PendingMessage]) -> list[int]:
        """The sizes of their records; StoreRefused for what is beyond RocketMQ's limits."""
        limit = self._message_bytes_max
        bodies_bytes = sum([len(message.body) for message in messages])
        if bodies_bytes > limit:
            raise _too_large(bodies_bytes, limit)
        sizes = []
        for message in messages:
            if len(message.properties) > PROPERTIES_BYTES_MAX:
                raise StoreRefused(
                    StoreRefused.PROPERTIES_TOO_LONG,
                    f"properties of {len(message.properties)} bytes, at most {PROPERTIES_BYTES_MAX} fit",
                )
            size = pending_size(message, self._store_host)
            if size > limit + EXTRA_BYTES_MAX:
                raise _too_large(size, limit + EXTRA_BYTES_MAX)
            sizes.append(size)
        return sizes


def _too_large(size: int, limit: int) -> StoreRefused:
    return StoreRefused(
        StoreRefused.TOO_LARGE, f"{size} bytes are more than the limit of {limit} (maxMessageSize)"
    )
