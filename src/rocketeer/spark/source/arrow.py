"""From records in a buffer to Arrow columns, whole replies at a time: only the columns asked for are made."""

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rocketeer.model.offsets import LogOffset
from rocketeer.record.columns import (
    Bytes,
    PartSpans,
    Spans,
    TextColumn,
    find_parts,
    find_property,
    gather,
    hex_text,
    split_properties,
)
from rocketeer.record.compression import decompress
from rocketeer.record.flags import BORN_HOST_V6, COMPRESSED, HOSTS_V6, STORE_HOST_V6
from rocketeer.record.hosts import host_text
from rocketeer.record.ids import offset_msg_id
from rocketeer.record.layout import HEADS
from rocketeer.record.vectorised import OffsetArray, fixed_fields

Array: TypeAlias = Any  # pyarrow has no types of its own for mypy
Keep: TypeAlias = Callable[[NDArray[Any]], NDArray[np.bool_]]
"""Which records to keep, from their heads."""

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


class Decoder:
    """Makes record batches of one schema."""

    def __init__(self, schema: Array) -> None:
        self._schema = schema
        self._names = tuple(schema.names)
        unknown = [name for name in self._names if name not in _MAKERS]
        assert not unknown, f"checked before: {unknown}"

    def decode(
        self,
        data: Any,
        offsets: OffsetArray,
        topic: str,
        broker: str,
        keep: Keep | None = None,
        tags: Array = None,
    ) -> Array | None:
        """The records at `offsets` of the buffer, in order; None if none is kept. `tags`: exactly these tags."""
        view = np.frombuffer(data, dtype=np.uint8)
        rows = fixed_fields(view.data, offsets)
        if keep is not None:
            kept = keep(rows)
            if not kept.all():
                rows, offsets = rows[kept], offsets[kept]
        if not len(rows):
            return None
        records = Records(view, rows, offsets, topic, broker)
        if tags is not None:
            # Brokers compare hashes, which may collide.
            same = pc.fill_null(pc.is_in(records.tags(), value_set=tags), False).to_numpy(
                zero_copy_only=False
            )
            if not same.all():
                if not same.any():
                    return None
                records = Records(view, rows[same], offsets[same], topic, broker)
        arrays = [_MAKERS[name](records) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class Records:
    """The records of one buffer; what several columns need is made once."""

    def __init__(
        self, data: Bytes, rows: NDArray[Any], offsets: OffsetArray, topic: str, broker: str
    ) -> None:
        self.data = data
        self.rows = rows
        self.offsets = offsets
        self.topic = topic
        self.broker = broker

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def parts(self) -> PartSpans:
        return find_parts(self.data, self.rows, self.offsets)

    @cached_property
    def wide(self) -> NDArray[np.int64]:
        """The few with IPv6 hosts."""
        return np.flatnonzero(self.rows["sys_flag"] & HOSTS_V6)

    @cached_property
    def _repaired(self) -> tuple[Bytes, Spans]:
        """The properties with U+FFFD for what is no text, as every reader of RocketMQ sees them."""
        ends, packed = gather(self.data, self.parts.properties)
        marks = np.frombuffer(ends, dtype=np.int32).tolist()
        texts = [packed[a:b].decode("utf-8", "replace").encode() for a, b in pairwise(marks)]
        stops = np.cumsum([len(text) for text in texts], dtype=np.int64)
        begins = np.concatenate([np.zeros(1, dtype=np.int64), stops[:-1]])
        return np.frombuffer(b"".join(texts), dtype=np.uint8), Spans(begins, stops)

    def property(self, name: bytes) -> Array:
        """One property of every record; null where it is missing."""
        values, missing = self._values(self.data, self.parts.properties, name)
        if not _is_utf8(values[1]):
            values, missing = self._values(*self._repaired, name)
        return _column(pa.string(), values, missing)

    def _values(self, data: Bytes, spans: Spans, name: bytes) -> tuple[TextColumn, NDArray[np.bool_] | None]:
        found, missing = find_property(data, spans, name)
        if not missing:
            return gather(data, found), None
        lacks = found.begin < 0
        return gather(data, Spans(np.maximum(found.begin, 0), np.maximum(found.end, 0))), lacks

    def properties_map(self) -> Array:
        starts, names, values = split_properties(self.data, self.parts.properties)
        if not (_is_utf8(names[1]) and _is_utf8(values[1])):
            starts, names, values = split_properties(*self._repaired)
        return pa.MapArray.from_arrays(
            pa.Array.from_buffers(pa.int32(), len(self) + 1, [None, pa.py_buffer(starts)]),
            _column(pa.string(), names),
            _column(pa.string(), values),
        )

    def tags(self) -> Array:
        return self.property(b"TAGS")

    def msg_id(self) -> Array:
        """The sender's id; the place in the store for senders that give none."""
        ids = self.property(b"UNIQ_KEY")
        return pc.coalesce(ids, self.offset_msg_id()) if ids.null_count else ids

    def body(self) -> Array:
        spans = self.parts.body
        flags = self.rows["sys_flag"].astype(np.int32)
        if not (flags & COMPRESSED).any():
            return _column(pa.binary(), gather(self.data, spans))
        data = self.data
        bodies = [
            decompress(data[begin:end].tobytes(), flag)
            for begin, end, flag in zip(spans.begin.tolist(), spans.end.tolist(), flags.tolist(), strict=True)
        ]
        return pa.array(bodies, type=pa.binary())

    def host(self, column: str, bit: int) -> Array:
        codes = np.ascontiguousarray(self.rows[column]).view(">u8").reshape(-1)
        unique, places = np.unique(codes, return_inverse=True)
        texts = pa.array([host_text(int(code).to_bytes(8, "big")) for code in unique], type=pa.string())
        hosts = texts.take(pa.array(places.astype(np.int32)))
        rows = [at for at in self.wide.tolist() if int(self.rows["sys_flag"][at]) & bit]
        return _patched(hosts, {at: host_text(self.wide_host(at, bit)) for at in rows})

    def wide_host(self, row: int, bit: int) -> bytes:
        """The bytes of a host of a record that has at least one IPv6 host."""
        head = HEADS[(int(self.rows["sys_flag"][row]) & HOSTS_V6) >> 4]
        _, _, _, _, _, _, _, _, _, born, _, store, *_ = head.unpack_from(
            self.data.data, int(self.offsets[row])
        )
        host: bytes = born if bit == BORN_HOST_V6 else store
        return host

    def offset_msg_id(self) -> Array:
        raw = np.empty((len(self), 16), dtype=np.uint8)
        raw[:, :8] = np.ascontiguousarray(self.rows["store_host"]).view(np.uint8).reshape(-1, 8)
        raw[:, 8:] = np.ascontiguousarray(self.rows["log_offset"]).view(np.uint8).reshape(-1, 8)
        ends = np.arange(0, 32 * (len(self) + 1), 32, dtype=np.int32)
        ids = pa.Array.from_buffers(
            pa.string(), len(self), [None, pa.py_buffer(ends), pa.py_buffer(hex_text(raw))]
        )
        rows = [at for at in self.wide.tolist() if int(self.rows["sys_flag"][at]) & STORE_HOST_V6]
        return _patched(
            ids,
            {
                at: offset_msg_id(
                    self.wide_host(at, STORE_HOST_V6), LogOffset(int(self.rows["log_offset"][at]))
                )
                for at in rows
            },
        )

    def number(self, column: str, kind: type[np.int32] | type[np.int64]) -> Array:
        return pa.array(self.rows[column].astype(kind))

    def time(self, column: str) -> Array:
        micros = self.rows[column].astype(np.int64) * 1000
        return pa.Array.from_buffers(_TIMESTAMP, len(self), [None, pa.py_buffer(micros)])


_MAKERS: Final[dict[str, Callable[[Records], Array]]] = {
    "topic": lambda records: pa.repeat(pa.scalar(records.topic), len(records)),
    "brokerName": lambda records: pa.repeat(pa.scalar(records.broker), len(records)),
    "queueId": lambda records: records.number("queue_id", np.int32),
    "queueOffset": lambda records: records.number("queue_offset", np.int64),
    "body": Records.body,
    "tags": Records.tags,
    "keys": lambda records: records.property(b"KEYS"),
    "properties": Records.properties_map,
    "msgId": Records.msg_id,
    "offsetMsgId": Records.offset_msg_id,
    "flag": lambda records: records.number("flag", np.int32),
    "sysFlag": lambda records: records.number("sys_flag", np.int32),
    "bornTimestamp": lambda records: records.time("born_ms"),
    "bornHost": lambda records: records.host("born_host", BORN_HOST_V6),
    "storeTimestamp": lambda records: records.time("store_ms"),
    "storeHost": lambda records: records.host("store_host", STORE_HOST_V6),
    "reconsumeTimes": lambda records: records.number("reconsume_times", np.int32),
}


def _column(kind: Array, values: TextColumn, missing: NDArray[np.bool_] | None = None) -> Array:
    ends, data = values
    present = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    count = len(ends) // 4 - 1
    return pa.Array.from_buffers(kind, count, [present, pa.py_buffer(ends), pa.py_buffer(data)])


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _patched(column: Array, texts: dict[int, str]) -> Array:
    if not texts:
        return column
    values = column.to_pylist()
    for at, text in texts.items():
        values[at] = text
    return pa.array(values, type=column.type)
