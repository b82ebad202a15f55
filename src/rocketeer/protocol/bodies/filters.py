"""The consumers that filter by expression, as JSON: config/consumerFilter.json under RocketMQ's names."""

from dataclasses import dataclass

from msgspec import field

from rocketeer.model.java_types import I32, I64
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_as


@dataclass(frozen=True, slots=True)
class FilterRecord:
    """One group's filter on one topic, as the file has it."""

    topic: str
    group: str
    expression: str
    kind: str
    born_ms: int
    dead_ms: int
    client_version: int
    positions: tuple[int, ...]
    bits: int


class _BloomWire(Wire):
    bit_num: I32 = 0
    bit_pos: list[I32] = field(default_factory=list)


class _FilterWire(Wire):
    bloom_filter_data: _BloomWire | None = None
    born_time: I64 = 0
    client_version: I64 = 0
    consumer_group: str | None = None
    dead: bool = False
    dead_time: I64 = 0
    expression: str | None = None
    expression_type: str | None = None
    topic: str | None = None


class _TopicWire(Wire):
    group_filter_data: dict[str, _FilterWire | None] | None = None
    topic: str | None = None


class _FilterTableWire(Wire):
    filter_data_by_topic: dict[str, _TopicWire | None] | None = None


_decoder = decoder(_FilterTableWire)


def filters_ends() -> tuple[bytes, bytes]:
    """What stands before and behind the topics of a table."""
    return b'{"filterDataByTopic":{', b"}}"


def topic_filters_ends(topic: str) -> tuple[bytes, bytes]:
    """What stands before and behind the entries of a topic in a table."""
    name = encode(topic)
    return b'%b:{"groupFilterData":{' % name, b'},"topic":%b}' % name


def encode_filter_entry(record: FilterRecord) -> bytes:
    """What stands for one group in its topic."""
    return b"%b:%b" % (encode(record.group), encode(_to_wire(record)))


def encode_filter(record: FilterRecord) -> bytes:
    """One group's filter, as 321 tells it."""
    return encode(_to_wire(record))


def _to_wire(record: FilterRecord) -> _FilterWire:
    return _FilterWire(
        _BloomWire(record.bits, list(record.positions)),
        record.born_ms,
        record.client_version,
        record.group,
        record.dead_ms >= record.born_ms,
        record.dead_ms,
        record.expression,
        record.kind,
        record.topic,
    )


def decode_filters(data: bytes) -> list[FilterRecord]:
    """The filters of a table; BadBody when it is none; entries without an expression are left out."""
    records: list[FilterRecord] = []
    for topic, groups in (load_as(_decoder, data).filter_data_by_topic or {}).items():
        if groups is None:
            continue
        for group, wire in (groups.group_filter_data or {}).items():
            if wire is None or wire.expression is None:
                continue
            bloom = wire.bloom_filter_data or _BloomWire()
            records.append(
                FilterRecord(
                    topic,
                    group,
                    wire.expression,
                    wire.expression_type or "SQL92",
                    wire.born_time,
                    wire.dead_time,
                    wire.client_version,
                    tuple(bloom.bit_pos),
                    bloom.bit_num,
                )
            )
    return records
