"""Record batches into requests, by one of two ways that make the same requests.

    general   RowEncoder -> RequestBatcher: every kind of row, one by one
    plain     RowPacker, compiled: one topic for all rows, whose bodies, tags, keys and ids are copied as they are

A row that the plain way leaves (it cannot be a message, or fits into no batch) goes the general way, which words what
is wrong with it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from rocketeer.compiled import COMPILED
from rocketeer.errors import InvalidTopic, NoRoute
from rocketeer.model.property_names import PRODUCER_ID
from rocketeer.model.topic import may_not_be_sent_to, validate_topic_name
from rocketeer.record.ids import UniqKeys
from rocketeer.spark.sink.columns import Columns
from rocketeer.spark.sink.options import SinkOptions
from rocketeer.spark.sink.requests import Request, RequestBatcher
from rocketeer.spark.sink.rows import BadRow, RowEncoder

if TYPE_CHECKING or COMPILED:
    from rocketeer.spark.sink._row_packer import BytesColumn, RowPacker

Ship = Callable[[Request], None]
_NOTHING: Final = memoryview(b"\0")


class Rows(Protocol):
    """Where a task's record batches go."""

    def add(self, batch: pa.RecordBatch) -> None: ...

    def flush(self) -> None:
        """Ship what is left."""
        ...


class GeneralRows:
    """One row after the other."""

    def __init__(self, encoder: RowEncoder, batcher: RequestBatcher) -> None:
        self.encoder = encoder
        self.batcher = batcher

    def add(self, batch: pa.RecordBatch) -> None:
        for message in self.encoder.encode(batch):
            try:
                self.batcher.add(message)
            except NoRoute as error:
                raise no_topic(self.encoder, message.row, error) from error

    def flush(self) -> None:
        self.batcher.flush()


class PlainRows:
    """Runs of rows that need nothing but copying; others in between go the general way."""

    def __init__(
        self,
        general: GeneralRows,
        ship: Ship,
        columns: Columns,
        options: SinkOptions,
        producer: str | None,
        uniq_keys: UniqKeys,
    ) -> None:
        assert options.topic is not None
        self._general = general
        self._encoder = general.encoder
        self._batcher = general.batcher
        self._ship = ship
        self._columns = columns
        self._options = options
        self._topic = options.topic
        self._producer = producer
        self._uniq_keys = uniq_keys
        self._packer: RowPacker | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        columns, count = self._columns, batch.num_rows
        try:
            bodies = _bytes_column(batch.column(columns.body))
            tags, keys, ids = (
                None if at is None else _bytes_column(batch.column(at))
                for at in (columns.tags, columns.keys, columns.id if self._producer is not None else None)
            )
        except NotBytes:
            self._general.add(batch)
            return
        uniq_prefix, counters = self._uniq_keys.take_parts(count)
        at = 0
        while at < count:
            if self._packer is None:
                self._packer = self._make_packer()
            first = self._encoder.skip(0) - at
            stop = self._packer.pack(
                at, count, first, bodies, tags, keys, ids, uniq_prefix.encode(), counters
            )
            self._encoder.skip(stop - at)
            self._ship_full(self._packer)
            if stop < count:
                self._general.add(batch.slice(stop, 1))
                stop += 1
            at = stop

    def flush(self) -> None:
        if self._packer is not None:
            self._packer.flush()
            self._ship_full(self._packer)
        self._general.flush()

    def _make_packer(self) -> "RowPacker":
        options, producer = self._options, self._producer
        try:
            queues, by_id = self._batcher.queues_of(self._topic)
        except NoRoute as error:
            raise no_topic(self._encoder, self._encoder.skip(0), error) from error
        return RowPacker(
            topic=self._topic.encode(),
            producer=None if producer is None else f"{PRODUCER_ID}\x01{producer}".encode(),
            queues=1 if producer is None else len(queues),
            index=None if by_id.one_broker else by_id.index,
            batch_bytes=options.batch_bytes,
            batch_rows=options.batch_rows,
            message_bytes_max=options.message_bytes_max,
        )

    def _ship_full(self, packer: "RowPacker") -> None:
        queues, _ = self._batcher.queues_of(self._topic)
        for at, body, rows in packer.full:
            queue = None if self._producer is None else queues[at]
            self._ship(Request(self._topic, queue, ordered=False, body=body, rows=rows))
        packer.full.clear()


def choose_rows(
    encoder: RowEncoder,
    batcher: RequestBatcher,
    ship: Ship,
    columns: Columns,
    options: SinkOptions,
    producer: str | None,
    uniq_keys: UniqKeys,
) -> Rows:
    """The plain way where rows are likely to be so, else the general one."""
    general = GeneralRows(encoder, batcher)
    if not COMPILED or options.topic is None or options.compression is not None:
        return general
    others = (columns.properties, columns.sharding_key, columns.delay_level, columns.deliver_at)
    if any(at is not None for at in others) or (producer is not None and columns.id is None):
        return general
    try:
        validate_topic_name(options.topic)
    except InvalidTopic:
        return general
    if may_not_be_sent_to(options.topic):
        return general
    return PlainRows(general, ship, columns, options, producer, uniq_keys)


def no_topic(encoder: RowEncoder, row: int, error: NoRoute) -> BadRow:
    """The error of the first row for a topic that is nowhere."""
    return BadRow(f"{encoder.label(row)} is for a topic that does not exist: {error}")


class NotBytes(Exception):
    """A column whose values are not simply bytes: lists of keys, dictionaries."""


def _bytes_column(column: pa.Array) -> "BytesColumn":
    kind = column.type
    if pa.types.is_integer(kind):
        column = column.cast(pa.string())
        kind = column.type
    wide = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    if not wide and not pa.types.is_binary(kind) and not pa.types.is_string(kind):
        raise NotBytes
    valid, offsets, data = column.buffers()
    if offsets is None or not len(column):
        raise NotBytes
    return BytesColumn(
        _view(offsets),
        _view(data),
        None if not column.null_count else _view(valid),
        column.offset,
        len(column),
        wide,
    )


def _view(buffer: pa.Buffer | None) -> "memoryview[int]":
    return memoryview(buffer).cast("B") if buffer is not None and buffer.size else _NOTHING
