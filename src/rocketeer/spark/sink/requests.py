"""Messages in, requests out: rows collect per queue until a batch is full; what fits into no batch goes alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rocketeer.client.core.selectors import QueueById, hash_index
from rocketeer.model.queue import MessageQueue
from rocketeer.record.batch import ITEM_BYTES_MIN, BatchItem, encode_batch, iter_batch
from rocketeer.record.properties import find_property
from rocketeer.spark.sink.options import SinkOptions
from rocketeer.spark.sink.rows import RowMessage

QueuesOfTopic: TypeAlias = Callable[[str], Sequence[MessageQueue]]
"""All queues of a topic, in an order every attempt sees; asked once per topic and task."""


@dataclass(slots=True)
class Request:
    """One send: a batch, or a single message with `properties`. Without `queue` any will do."""

    topic: str
    queue: MessageQueue | None
    ordered: bool
    """Waits until the one before it in its queue is stored."""
    body: bytes
    rows: list[int]
    sys_flag: int = 0
    batch: bool = True
    properties: bytes = b""

    def halves(self) -> "tuple[Request, Request]":
        """Two smaller batches; half a batch of two is a batch of one."""
        items = list(iter_batch(self.body))
        middle = len(items) // 2
        first, second = (
            Request(self.topic, self.queue, self.ordered, encode_batch(part), rows, self.sys_flag)
            for part, rows in ((items[:middle], self.rows[:middle]), (items[middle:], self.rows[middle:]))
        )
        return first, second

    def keys(self) -> str | None:
        """KEYS of its first message, to name it by."""
        properties = next(iter_batch(self.body)).properties if self.batch else self.properties
        found = find_property(properties, b"KEYS")
        return None if found is None else found.decode("utf-8", "replace")


@dataclass(slots=True)
class _Open:
    """A batch that is not full yet."""

    topic: str
    queue: MessageQueue | None
    ordered: bool
    sys_flag: int
    items: list[BatchItem] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    size: int = 0

    def close(self) -> Request:
        return Request(
            self.topic, self.queue, self.ordered, encode_batch(self.items), self.rows, self.sys_flag
        )


class RequestBatcher:
    """Gathers a task's messages; `ship` gets each request as soon as it is full, the rest with `flush`.

    A message with a sharding key goes to the queue the key's hash names (the same one Java's
    SelectMessageQueueByHash takes), behind those of the key before it. One with a digest goes to the queue the
    digest names, so that the broker that may have it already is asked again. Any other may go anywhere.
    """

    def __init__(self, options: SinkOptions, queues: QueuesOfTopic, ship: Callable[[Request], None]) -> None:
        self._batch_bytes = options.batch_bytes
        self._batch_rows = options.batch_rows
        self._queues = queues
        self._ship = ship
        self._open: dict[tuple[str, int, int], _Open] = {}
        self._known: dict[str, tuple[Sequence[MessageQueue], QueueById]] = {}

    def queues_of(self, topic: str) -> tuple[Sequence[MessageQueue], QueueById]:
        """The topic's queues, and how an id chooses among them."""
        known = self._known.get(topic)
        if known is None:
            queues = self._queues(topic)
            known = self._known[topic] = (queues, QueueById(queues))
        return known

    def add(self, message: RowMessage) -> None:
        topic, sharding_key, digest, body, properties, alone, sys_flag, row = message
        queues, by_id = self.queues_of(topic)
        ordered = False
        at, kind = -1, sys_flag
        if sharding_key is not None:
            ordered = True
            # An ordered queue has one open batch at a time, whatever is in it; others have one per kind of packing.
            at, kind = hash_index(sharding_key, len(queues)), -1
        elif digest is not None:
            at = by_id.index(int.from_bytes(digest[:8], "big"))
        place = (topic, at, kind)
        size = ITEM_BYTES_MIN + len(body) + len(properties)
        batch = self._open.get(place)
        if alone or size > self._batch_bytes:
            if ordered and batch is not None:
                self._ship(self._open.pop(place).close())
            queue = queues[at] if at >= 0 else None
            properties += b"\x02WAIT\x01true"
            self._ship(Request(topic, queue, ordered, bytes(body), [row], sys_flag, False, properties))
            return
        if batch is not None and (
            batch.size + size > self._batch_bytes
            or len(batch.rows) >= self._batch_rows
            or batch.sys_flag != sys_flag
        ):
            self._ship(self._open.pop(place).close())
            batch = None
        if batch is None:
            queue = queues[at] if at >= 0 else None
            batch = self._open[place] = _Open(topic, queue, ordered, sys_flag)
        # A copy: a view would keep its whole record batch in memory until this batch is full.
        batch.items.append(BatchItem(0, bytes(body), properties))
        batch.rows.append(row)
        batch.size += size

    def flush(self) -> None:
        """Ship what is left."""
        while self._open:
            self._ship(self._open.pop(next(iter(self._open))).close())
