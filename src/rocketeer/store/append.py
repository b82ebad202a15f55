"""The one writer: messages -> records in the log -> queue entries -> index, dispatchers, listeners.

The inner loop of the broker is `append_run`: one message, a batch or everything that one read of a socket
brought go through it alike, so they give the same bytes and derive the same.
Nothing here blocks or locks: it all runs on the event loop's thread.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rocketeer.clock import Clock
from rocketeer.errors import StoreRefused
from rocketeer.record.delay_levels import DelayLevels
from rocketeer.record.entry import DispatchEntry, derive
from rocketeer.record.flags import BORN_HOST_V6, STORE_HOST_V6
from rocketeer.record.hosts import V6_BYTES
from rocketeer.record.layout import HEADS, PROPERTIES_BYTES_MAX, PendingMessage
from rocketeer.record.speed import Lane, Layout, Row, SendRuns, lay_out, write_run
from rocketeer.store.commit_log import CommitLog
from rocketeer.store.consume_queue import ConsumeQueue
from rocketeer.store.dispatch import TX_UNSEEN, Dispatch

if TYPE_CHECKING:
    from rocketeer.record import _run

EXTRA_BYTES_MAX = 64 * 1024  # what a record may have besides the largest body


class _Lane:
    """What appends to one queue have in common."""

    __slots__ = ("fixed_bytes", "queue", "queue_id", "topic", "topic_part")

    def __init__(self, topic: str, queue_id: int, queue: ConsumeQueue) -> None:
        name = topic.encode()
        self.topic = topic
        self.queue_id = queue_id
        self.queue = queue
        self.topic_part = len(name).to_bytes(1, "big") + name
        self.fixed_bytes = len(self.topic_part) + 2
        """Of a record, besides its head, body and properties."""


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
        on_grown: Sequence[Callable[[], None]] = (),
    ) -> None:
        self._on_grown = on_grown
        self._log = log
        self._clock = clock
        self._levels = levels
        self._store_host = store_host
        self._store_bits = STORE_HOST_V6 if len(store_host) == V6_BYTES else 0
        self._message_bytes_max = message_bytes_max
        self._unchecked_bytes_max = min(message_bytes_max, PROPERTIES_BYTES_MAX)
        self._dispatch = dispatch
        self._index_extend = dispatch.index.extend if dispatch.index is not None else None
        self._dispatchers = dispatch.dispatchers
        self._listeners = dispatch.listeners
        self._lanes: dict[tuple[str, int], _Lane] = {}
        self.last_store_ms = 0

    def append(self, message: PendingMessage, store_ms: int | None = None) -> DispatchEntry:
        """Store one message; `store_ms` if the caller has read the clock already. Raises StoreRefused."""
        return self.append_batch((message,), store_ms)[0]

    def append_batch(
        self, messages: Sequence[PendingMessage], store_ms: int | None = None
    ) -> list[DispatchEntry]:
        """Store messages next to each other in one segment, all or none. Raises StoreRefused.

        A process that dies meanwhile may leave the first ones of them, each whole.
        """
        if store_ms is None:
            store_ms = self._clock.now_ms()
        bodies_bytes = sum([len(message.body) for message in messages])
        if bodies_bytes > self._message_bytes_max:
            raise _too_large(bodies_bytes, self._message_bytes_max)
        levels = self._levels
        rows: list[Row] = [
            (
                m.topic,
                m.queue_id,
                m.flag,
                m.sys_flag,
                m.born_ms,
                m.born_host,
                m.body,
                m.properties,
                m.reconsume_times,
                m.prepared_offset,
                *derive(m.topic, m.properties, store_ms, levels),
            )
            for m in messages
        ]
        return self.append_run(rows, store_ms)

    def append_run(self, rows: list[Row], store_ms: int) -> list[DispatchEntry]:
        """Store messages next to each other, all or none, for a caller that has parsed them. Raises StoreRefused."""
        if not rows:
            return []
        log = self._log
        lanes, topic_parts, sizes, queue_offsets, ends, total = self._lay_out(rows)
        first = log.max_offset
        if first + total > log.mark:
            first = log.make_room(total)
        records = bytearray(total)
        entries = write_run(
            records,
            0,
            rows,
            topic_parts,
            sizes,
            queue_offsets,
            first,
            store_ms,
            self._store_host,
            self._store_bits,
        )
        log.write(first, records)
        # Copied first, published second: readers trust every byte below `max_offset`, and nothing that is
        # derived points beyond it.
        log.max_offset = first + total
        self.last_store_ms = store_ms
        self._derive(lanes, entries)
        for lane, end in ends.items():
            for queues, listener in self._listeners:
                if (lane.topic, lane.queue_id) in queues:
                    listener(lane.topic, lane.queue_id, end)
        for grown in self._on_grown:
            grown()
        return entries

    def _derive(self, lanes: Sequence[_Lane], entries: Sequence[DispatchEntry]) -> None:
        if self._dispatch.queues.extension is not None:
            for lane, entry in zip(lanes, entries, strict=True):
                if not entry.sys_flag & TX_UNSEEN:
                    lane.queue.append(entry)
        else:
            for lane, entry in zip(lanes, entries, strict=True):
                if not entry[9] & TX_UNSEEN:
                    lane.queue.put(entry[4], entry[0], entry[1], entry[5])
        if self._index_extend is not None:
            self._index_extend(entries)
        for dispatcher in self._dispatchers:
            for entry in entries:
                dispatcher(entry)

    def send_runs(
        self,
        qualify: Callable[[str], int | None],
        *,
        claims: frozenset[str],
        cluster_property: str,
        pieces: tuple[bytes, ...],
    ) -> "_run.SendRuns[Any] | None":
        """The compiled way for runs of sends, if it is installed.

        `qualify` says how many queues of a topic plain sends may go to, None if they may not.
        """
        if (
            SendRuns is None
            or Lane is None
            or self._store_bits
            or self._dispatch.queues.extension is not None
        ):
            return None
        new_lane, get_or_make = Lane, self._dispatch.queues.get_or_make
        return SendRuns(
            qualify=qualify,
            lane_of=lambda topic, queue_id: new_lane(topic, queue_id, get_or_make(topic, queue_id)),
            writer=self,
            log=self._log,
            index=self._dispatch.index,
            listeners=self._listeners,
            claims=claims,
            cluster_property=cluster_property,
            store_host=self._store_host,
            pieces=pieces,
            message_bytes_max=self._message_bytes_max,
        )

    def forget(self, topic: str) -> None:
        """The topic's queues are gone; its next message makes new ones."""
        for key in [key for key in self._lanes if key[0] == topic]:
            del self._lanes[key]

    def _lay_out(self, rows: list[Row]) -> Layout:
        """Lane, topic part, size and queue offset of every row, the queues' new ends, and the bytes of it all.

        Raises StoreRefused for a row that may not be stored.
        """
        if lay_out is not None and not self._store_bits:
            layout = lay_out(rows, self._lanes, self._unchecked_bytes_max)
            if layout is not None:
                return layout
        lanes: list[_Lane] = []
        sizes: list[int] = []
        queue_offsets: list[int] = []
        ends: dict[_Lane, int] = {}
        for row in rows:
            key = row[:2]
            lane = self._lanes.get(key) or self._lane(*key)
            bits = self._store_bits if len(row[5]) != V6_BYTES else self._store_bits | BORN_HOST_V6
            size = HEADS[bits >> 4].size + lane.fixed_bytes + len(row[6]) + len(row[7])
            if size > self._unchecked_bytes_max:
                self._check(size, len(row[6]), len(row[7]))
            queue_offset = 0
            if not row[3] & TX_UNSEEN:
                queue_offset = ends.get(lane, lane.queue.max_offset)
                ends[lane] = queue_offset + 1
            lanes.append(lane)
            sizes.append(size)
            queue_offsets.append(queue_offset)
        return lanes, [lane.topic_part for lane in lanes], sizes, queue_offsets, ends, sum(sizes)

    def _lane(self, topic: str, queue_id: int) -> _Lane:
        lane = _Lane(topic, queue_id, self._dispatch.queues.get_or_make(topic, queue_id))
        self._lanes[topic, queue_id] = lane
        return lane

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
