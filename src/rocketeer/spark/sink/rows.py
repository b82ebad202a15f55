"""Arrow in, messages out: every row of a record batch checked and encoded; the first that does not fit is named."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise, repeat
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from rocketeer.errors import InvalidTopic, RocketeerError
from rocketeer.model import property_names as names
from rocketeer.model.topic import may_not_be_sent_to, validate_topic_name
from rocketeer.record.compression import compress
from rocketeer.record.ids import UniqKeys
from rocketeer.record.properties import PROPERTIES_BYTES_MAX, is_unambiguous
from rocketeer.spark.sink.columns import Columns
from rocketeer.spark.sink.options import SinkOptions

_ID_BYTES: Final = 16
_PREVIEW_CHARS: Final = 40
_I32_MAX: Final = (1 << 31) - 1

Body: TypeAlias = bytes | memoryview


class BadRow(RocketeerError, ValueError):
    """A row that cannot be a message; the text says which row and why, and never shows its body."""


class RowMessage(NamedTuple):
    """One row, ready to be put into a request. `alone`: brokers do not take it inside a batch."""

    topic: str
    sharding_key: str | None
    digest: bytes | None
    body: Body
    properties: bytes
    alone: bool
    sys_flag: int
    row: int


def row_label(partition: int, row: int, **hints: object) -> str:
    """`row 7 of partition 0 (keys 'order-7')`: rows count from 1; long values are cut."""
    shown = ", ".join(
        f"{name} {_short(value)}" for name, value in hints.items() if value not in (None, "", [])
    )
    return f"row {row + 1} of partition {partition}" + (f" ({shown})" if shown else "")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _PREVIEW_CHARS else f"{text[:_PREVIEW_CHARS]}..."


class RowEncoder:
    """One per task; `row` counts over all record batches of the partition."""

    def __init__(
        self,
        columns: Columns,
        options: SinkOptions,
        partition: int,
        producer_id: str | None,
        uniq_keys: UniqKeys,
    ) -> None:
        self._columns = columns
        self._options = options
        self._partition = partition
        self._producer = f"{names.PRODUCER_ID}\x01{producer_id}" if producer_id is not None else None
        self._next_id = uniq_keys.next
        self._row = 0
        self._seen: dict[bytes, int] = {}
        self._good_topics: set[str] = set()

    def label(self, row: int) -> str:
        """How a row of this task is named."""
        return row_label(self._partition, row)

    def skip(self, rows: int) -> int:
        """Count rows that were sent another way; returns the number of the first of them."""
        first = self._row
        self._row += rows
        return first

    def encode(self, batch: pa.RecordBatch) -> Iterator[RowMessage]:
        """The messages of a record batch, in order; raises BadRow at the first that is none."""
        columns, options = self._columns, self._options
        bodies = _slices(batch.column(columns.body))
        topics = _values(batch, columns.topic)
        tags = _values(batch, columns.tags)
        keys = _values(batch, columns.keys)
        maps = _values(batch, columns.properties)
        shards = _values(batch, columns.sharding_key)
        levels = _values(batch, columns.delay_level)
        times = _times_ms(batch, columns.deliver_at)
        ids = _values(batch, columns.identity if columns.id is None else columns.id)
        compression = options.compression
        first = self._row
        for at, (body, topic, tag, key, pairs, shard, level, due, row_id) in enumerate(
            zip(bodies, topics, tags, keys, maps, shards, levels, times, ids, strict=False), first
        ):
            self._row = at + 1
            try:
                if topic is None and (topic := options.topic) is None:
                    raise BadRow("has no topic, and there is no option topic")
                if topic not in self._good_topics:
                    self._check_topic(topic)
                if not body:
                    raise BadRow(f"has {'no' if body is None else 'an empty'} body: brokers take none")
                if len(body) > options.message_bytes_max:
                    raise BadRow(
                        f"has a body of {len(body)} bytes, over the limit of {options.message_bytes_max}"
                    )
                parts = self._parts(tag, key, pairs, shard)
                if level or due is not None:
                    parts.append(_delay(level, due))
                digest = self._digest(topic, parts, body, row_id) if self._producer is not None else None
                sys_flag = 0
                if compression is not None and len(body) >= options.compress_over_bytes:
                    packed = compress(bytes(body), compression)
                    if len(packed) < len(body):
                        body, sys_flag = packed, compression.sys_flag
                properties = self._joined(parts, digest)
            except BadRow as problem:
                label = row_label(self._partition, at, id=None if columns.id is None else row_id, keys=key)
                raise BadRow(f"{label} {problem}") from None
            yield RowMessage(
                topic,
                None if shard is None or shard == "" else str(shard),
                digest,
                body,
                properties,
                bool(level or due is not None),
                sys_flag,
                at,
            )

    def _check_topic(self, topic: str) -> None:
        try:
            validate_topic_name(topic)
        except InvalidTopic as error:
            raise BadRow(f"names a topic that cannot be: {error}") from None
        if may_not_be_sent_to(topic):
            raise BadRow(f"is for topic {topic!r}, which belongs to the system")
        self._good_topics.add(topic)

    def _parts(self, tag: str | None, key: Any, pairs: Any, shard: Any) -> list[str]:
        """Pieces and not a dict: their digest is made before the last ones are known, and two may have one name."""
        parts = []
        if pairs:
            parts = [f"{name}\x01{value}" for name, value in sorted(self._own_properties(pairs))]
        if tag:
            parts.append(f"TAGS\x01{tag}")
        if key:
            parts.append(f"KEYS\x01{key if type(key) is str else _joined_keys(key)}")
        if shard is not None and shard != "":
            parts.append(f"{names.SHARDING_KEY}\x01{shard}")
        return parts

    def _own_properties(self, pairs: Iterable[tuple[str, str | None]]) -> Iterator[tuple[str, str]]:
        """Without those that have no value: RocketMQ cannot tell an empty property from none."""
        for name, value in pairs:
            if name in names.NOT_SENT_AGAIN:
                if self._options.reserved_properties == "drop":
                    continue
                raise BadRow(
                    f"has the property {name!r}, which has a meaning of its own: use the column for it, "
                    "or the option reservedProperties=drop"
                )
            if not name:
                raise BadRow("has a property without a name")
            if value:
                yield name, value

    def _digest(self, topic: str, parts: list[str], body: Body, row_id: Any) -> bytes:
        """What tells this row from all others of the write, whichever attempt sends it, in whichever order."""
        if self._columns.id is not None:
            if row_id is None:
                raise BadRow(f"has no {self._columns.id_name!r}, which is to tell it from other rows")
            mark = row_id if isinstance(row_id, bytes) else str(row_id).encode()
            return blake2b(b"%b\0%b" % (topic.encode(), mark), digest_size=_ID_BYTES).digest()
        # With the identity Spark gave it: rows it holds for different, and may have put into different tasks, differ
        # here, too (no tags and empty tags make the same message).
        hashed = blake2b("\x02".join((str(row_id), topic, *parts, "")).encode(), digest_size=_ID_BYTES)
        hashed.update(body)
        digest = hashed.digest()
        # Equal rows are told apart by counting them. It does not matter which of them is which.
        count = self._seen.get(digest, 0)
        self._seen[digest] = count + 1
        if not count:
            return digest
        return blake2b(b"%b%d" % (digest, count), digest_size=_ID_BYTES).digest()

    def _joined(self, parts: list[str], digest: bytes | None) -> bytes:
        if digest is not None:
            assert self._producer is not None
            parts += (self._producer, f"{names.DEDUP_ID}\x01{digest.hex()}")
        parts.append(f"UNIQ_KEY\x01{self._next_id()}")
        text = "\x02".join(parts)
        if not is_unambiguous(text, len(parts)):
            raise BadRow(
                "has \\x01 or \\x02, which separate properties, in its tags, keys, shardingKey or properties"
            )
        raw = text.encode()
        if len(raw) > PROPERTIES_BYTES_MAX:
            raise BadRow(f"has properties of {len(raw)} bytes, over the limit of {PROPERTIES_BYTES_MAX}")
        return raw


def _joined_keys(keys: Sequence[str | None]) -> str:
    for key in keys:
        if not key or names.KEY_SEPARATOR in key:
            raise BadRow(f"has the key {key!r} in its list, which is empty or has a space in it")
    return names.KEY_SEPARATOR.join(key for key in keys if key)


def _delay(level: int | None, due_ms: int | None) -> str:
    if level and due_ms is not None:
        raise BadRow("has both a delayLevel and a deliverAt")
    if level:
        if not 0 < level <= _I32_MAX:
            raise BadRow(f"has the delayLevel {level}: levels are 1, 2 ...")
        return f"{names.DELAY}\x01{level}"
    assert due_ms is not None
    return f"{names.TIMER_DELIVER_MS}\x01{max(due_ms, 0)}"


def _values(batch: pa.RecordBatch, at: int | None) -> Iterable[Any]:
    if at is None:
        return repeat(None)
    values: list[Any] = batch.column(at).to_pylist()
    return values


def _times_ms(batch: pa.RecordBatch, at: int | None) -> Iterable[int | None]:
    if at is None:
        return repeat(None)
    column = batch.column(at)
    rounded = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    values: list[int | None] = rounded.cast(pa.int64()).to_pylist()
    return values


def _slices(column: pa.Array) -> list[Any]:
    """The bodies as views of Arrow's own bytes; a text's bytes are its UTF-8."""
    large = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    _, offsets, data = column.buffers()
    count = len(column)
    if not count:
        return []
    places = np.frombuffer(offsets, np.int64 if large else np.int32, count + 1 + column.offset)[
        column.offset :
    ]
    view = memoryview(data) if data is not None else memoryview(b"")
    slices: list[Any] = [view[start:end] for start, end in pairwise(places.tolist())]
    if column.null_count:
        return [
            piece if there else None
            for piece, there in zip(slices, column.is_valid().to_pylist(), strict=True)
        ]
    return slices
