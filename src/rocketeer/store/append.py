"""The one writer: message -> record in the log -> queue entry -> index, dispatchers, listeners.

The inner loop of the broker. `append_parts` is for a caller that has parsed the properties already, `append`
parses them, `append_batch` writes many in one go; all give the same bytes and derive the same.
Nothing here blocks or locks: it all runs on the event loop's thread.
"""

from collections.abc import Sequence
from struct import Struct

import msgspec
from isal.isal_zlib import crc32

from rocketeer.clock import Clock
from rocketeer.errors import StoreRefused
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entry import DispatchEntry, derive
from rocketeer.record.flags import BORN_HOST_V6, HOSTS_V6, STORE_HOST_V6
from rocketeer.record.hosts import V6_BYTES
from rocketeer.record.layout import HEADS, PROPERTIES_BYTES_MAX, PendingMessage
from rocketeer.store.commit_log import MAGIC_BYTES, CommitLog
from rocketeer.store.consume_queue import ConsumeQueue
from rocketeer.store.dispatch import TX_UNSEEN, Dispatch

EXTRA_BYTES_MAX = 64 * 1024  # what a record may have besides the largest body

_length = Struct(">h").pack
_join = b"".join
_new = tuple.__new__  # makes a NamedTuple in half the time of calling its class


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where a message went; `end` is the log offset behind it."""

    log_offset: int
    size: int
    queue_offset: int
    store_ms: int
    end: int
    tag_code: int = 0


class _Lane(msgspec.Struct):
    """What appends to one queue have in common."""

    queue: ConsumeQueue
    topic_part: bytes  # topic length u8 | topic


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
        self._clock = clock
        self._levels = levels
        self._store_host = store_host
        self._store_bits = STORE_HOST_V6 if len(store_host) == V6_BYTES else 0
        self._message_bytes_max = message_bytes_max
        self._unchecked_bytes_max = min(message_bytes_max, PROPERTIES_BYTES_MAX)
        self._dispatch = dispatch
        self._index_add = dispatch.index.add if dispatch.index is not None else None
        self._dispatchers = dispatch.dispatchers
        self._listeners = dispatch.listeners
        self._lanes: dict[tuple[str, int], _Lane] = {}
        self.last_store_ms = 0

    def append(self, message: PendingMessage, store_ms: int | None = None) -> Appended:
        """Store one message; `store_ms` if the caller has read the clock already. Raises StoreRefused."""
        if store_ms is None:
            store_ms = self._clock.now_ms()
        topic = message.topic
        properties = message.properties
        tag_code, keys, uniq_key = derive(topic, properties, store_ms, self._levels)
        return self.append_parts(
            topic,
            message.queue_id,
            message.flag,
            message.sys_flag,
            message.born_ms,
            message.born_host,
            message.body,
            properties,
            message.reconsume_times,
            message.prepared_offset,
            store_ms,
            tag_code,
            keys,
            uniq_key,
        )

    def append_parts(
        self,
        topic: str,
        queue_id: int,
        flag: int,
        sys_flag: int,
        born_ms: int,
        born_host: bytes,
        body: bytes,
        properties: bytes,
        reconsume_times: int,
        prepared_offset: int,
        store_ms: int,
        tag_code: int,
        keys: str,
        uniq_key: str | None,
    ) -> Appended:
        """As `append`, for a caller that knows what `derive` finds in the properties."""
        lane = self._lanes.get((topic, queue_id)) or self._lane(topic, queue_id)
        queue = lane.queue
        topic_part = lane.topic_part
        bits = self._store_bits if len(born_host) != V6_BYTES else self._store_bits | BORN_HOST_V6
        sys_flag = sys_flag & ~HOSTS_V6 | bits
        head = HEADS[bits >> 4]
        body_bytes = len(body)
        properties_bytes = len(properties)
        size = head.size + 2 + body_bytes + len(topic_part) + properties_bytes
        if size > self._unchecked_bytes_max:
            self._check(size, body_bytes, properties_bytes)
        unseen = sys_flag & TX_UNSEEN
        queue_offset = 0 if unseen else queue.max_offset

        log = self._log
        offset = log.max_offset
        if offset + size > log.mark:
            offset = log.make_room(size)
        end = offset + size
        at = offset - log.base
        mapping = log.map
        mapping[at : at + size] = _join(  # type: ignore[index]  # make_room has seen to it
            (
                head.pack(
                    size,
                    0,
                    crc32(body) & 0x7FFFFFFF,
                    queue_id,
                    flag,
                    queue_offset,
                    offset,
                    sys_flag,
                    born_ms,
                    born_host,
                    store_ms,
                    self._store_host,
                    reconsume_times,
                    prepared_offset,
                    body_bytes,
                ),
                body,
                topic_part,
                _length(properties_bytes),
                properties,
            )
        )
        # The magic makes it a record: a process that dies before this leaves none, never a torn one.
        mapping[at + 4 : at + 8] = MAGIC_BYTES  # type: ignore[index]
        # Copied first, published second: readers trust every byte below `max_offset`.
        log.max_offset = end
        self.last_store_ms = store_ms

        appended = Appended(offset, size, queue_offset, store_ms, end, tag_code)
        if not unseen:
            queue.append(appended)
        index_add = self._index_add
        if index_add is not None or self._dispatchers:
            entry: DispatchEntry = _new(
                DispatchEntry,
                (
                    offset,
                    size,
                    topic,
                    queue_id,
                    queue_offset,
                    tag_code,
                    store_ms,
                    keys,
                    uniq_key,
                    sys_flag,
                    prepared_offset,
                ),
            )
            if index_add is not None:
                index_add(entry)
            for dispatcher in self._dispatchers:
                dispatcher(entry)
        if not unseen:
            for listener in self._listeners:
                listener(topic, queue_id, queue_offset + 1)
        return appended

    def append_batch(self, messages: Sequence[PendingMessage], store_ms: int | None = None) -> list[Appended]:
        """Store messages next to each other in one segment, all or none. Raises StoreRefused.

        A process that dies meanwhile may leave the first ones of them, each whole.
        """
        if store_ms is None:
            store_ms = self._clock.now_ms()
        if not messages:
            return []
        bodies_bytes = sum([len(message.body) for message in messages])
        if bodies_bytes > self._message_bytes_max:
            raise _too_large(bodies_bytes, self._message_bytes_max)
        lanes = [
            self._lanes.get((message.topic, message.queue_id)) or self._lane(message.topic, message.queue_id)
            for message in messages
        ]
        sizes = list(map(self._size, messages, lanes))
        log = self._log
        total = sum(sizes)
        fits = log.max_offset + total <= log.mark
        offset = first = log.max_offset if fits else log.make_room(total)
        entries: list[DispatchEntry] = []
        parts: list[bytes] = []
        ends: dict[int, int] = {}  # of queues, by identity: what earlier messages of the batch made them
        for message, lane, size in zip(messages, lanes, sizes, strict=True):
            tag_code, keys, uniq_key = derive(message.topic, message.properties, store_ms, self._levels)
            bits = self._host_bits(message)
            sys_flag = message.sys_flag & ~HOSTS_V6 | bits
            queue_offset = 0
            if not sys_flag & TX_UNSEEN:
                queue_offset = ends.get(id(lane), lane.queue.max_offset)
                ends[id(lane)] = queue_offset + 1
            parts += (
                HEADS[bits >> 4].pack(
                    size,
                    0,
                    crc32(message.body) & 0x7FFFFFFF,
                    message.queue_id,
                    message.flag,
                    queue_offset,
                    offset,
                    sys_flag,
                    message.born_ms,
                    message.born_host,
                    store_ms,
                    self._store_host,
                    message.reconsume_times,
                    message.prepared_offset,
                    len(message.body),
                ),
                message.body,
                lane.topic_part,
                _length(len(message.properties)),
                message.properties,
            )
            entries.append(
                DispatchEntry(
                    offset,
                    size,
                    message.topic,
                    message.queue_id,
                    queue_offset,
                    tag_code,
                    store_ms,
                    keys,
                    uniq_key,
                    sys_flag,
                    message.prepared_offset,
                )
            )
            offset += size
        log.put(_join(parts), [entry.log_offset - first for entry in entries])
        self.last_store_ms = store_ms
        for entry in entries:
            self._dispatch.apply(entry)
        return [
            Appended(entry[0], entry[1], entry.queue_offset, store_ms, entry[0] + entry[1], entry.tag_code)
            for entry in entries
        ]

    def forget(self, topic: str) -> None:
        """The topic's queues are gone; its next message makes new ones."""
        for key in [key for key in self._lanes if key[0] == topic]:
            del self._lanes[key]

    def _lane(self, topic: str, queue_id: int) -> _Lane:
        queue = self._dispatch.queues.get_or_make(topic, queue_id)
        name = topic.encode()
        lane = self._lanes[topic, queue_id] = _Lane(queue, len(name).to_bytes(1, "big") + name)
        return lane

    def _host_bits(self, message: PendingMessage) -> int:
        return self._store_bits | (BORN_HOST_V6 if len(message.born_host) == V6_BYTES else 0)

    def _size(self, message: PendingMessage, lane: _Lane) -> int:
        body_bytes, properties_bytes = len(message.body), len(message.properties)
        size = (
            HEADS[self._host_bits(message) >> 4].size
            + 2
            + body_bytes
            + len(lane.topic_part)
            + properties_bytes
        )
        if size > self._unchecked_bytes_max:
            self._check(size, body_bytes, properties_bytes)
        return size

    def _check(self, size: int, body_bytes: int, properties_bytes: int) -> None:
        """RocketMQ's limits, looked at only for records large enough to break one."""
        if properties_bytes > PROPERTIES_BYTES_MAX:
            raise StoreRefused(
                StoreRefused.PROPERTIES_TOO_LONG,
                f"properties of {properties_bytes} bytes, at most {PROPERTIES_BYTES_MAX} fit",
            )
        if body_bytes > self._message_bytes_max:
            raise _too_large(body_bytes, self._message_bytes_max)
        if size > self._message_bytes_max + EXTRA_BYTES_MAX:
            raise _too_large(size, self._message_bytes_max + EXTRA_BYTES_MAX)


def _too_large(size: int, limit: int) -> StoreRefused:
    return StoreRefused(
        StoreRefused.TOO_LARGE, f"{size} bytes are more than the limit of {limit} (maxMessageSize)"
    )
