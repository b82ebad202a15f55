"""How far queues and their consumers are, as JSON: a topic's queues (202), a group's (208), all groups' (317)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rocketeer.model.java_types import I64, JavaValue, QueueOffsetI64, java
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.bodies.long_body import LongBody
from rocketeer.protocol.bodies.queue_keys import load_queue_keyed, queue_of, writing_queue_keyed
from rocketeer.protocol.bodies.wire import Wire, decoder, encode
from rocketeer.steps import Steps


class TopicQueueStats(JavaValue, frozen=True):
    """What a queue holds; `last_ms` is when its newest message was stored, 0 for an empty queue."""

    min_offset: QueueOffsetI64 = QueueOffset(0)
    max_offset: QueueOffsetI64 = QueueOffset(0)
    last_ms: I64 = java("lastUpdateTimestamp", 0)


class QueueProgress(JavaValue, frozen=True):
    """How far a group is in a queue; `last_ms` is when the message before its place was stored, 0 if unknown."""

    broker_offset: QueueOffsetI64 = QueueOffset(0)
    consumer_offset: QueueOffsetI64 = QueueOffset(0)
    last_ms: I64 = java("lastTimestamp", 0)

    @property
    def lag(self) -> int:
        return self.broker_offset - self.consumer_offset


@dataclass(frozen=True, slots=True)
class ConsumeStats:
    """A group's progress by queue; `tps` is what it consumes a second."""

    tps: float
    queues: Mapping[MessageQueue, QueueProgress] = field(default_factory=dict)

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.queues.values())


@dataclass(frozen=True, slots=True)
class BrokerConsumeStats:
    """The progress of every group of one broker: a ConsumeStats for each topic of the group."""

    broker_address: str
    total_lag: int
    groups: Mapping[str, Sequence[ConsumeStats]]


class _TopicStatsWire(Wire):
    offset_table: dict[str, TopicQueueStats] | None = None


class _ConsumeStatsWire(Wire):
    consume_tps: float = 0.0
    offset_table: dict[str, QueueProgress] | None = None


class _BrokerConsumeStatsWire(Wire):
    broker_address: str | None = java("brokerAddr", None)
    consume_stats_list: list[dict[str, list[_ConsumeStatsWire]]] | None = None
    total_diff: I64 = 0


_topic_decoder = decoder(_TopicStatsWire)
_group_decoder = decoder(_ConsumeStatsWire)
_broker_decoder = decoder(_BrokerConsumeStatsWire)


def encoding_topic_stats(queues: Iterable[tuple[MessageQueue, TopicQueueStats]]) -> Steps[bytes]:
    """The answer to 202, in steps."""
    body = LongBody()
    body.write(b'{"offsetTable":')
    yield from writing_queue_keyed(body, ((queue, encode(each)) for queue, each in queues))
    body.write(b"}")
    return (yield from body.joining())


def decode_topic_stats(data: bytes) -> dict[MessageQueue, TopicQueueStats]:
    table = load_queue_keyed(_topic_decoder, data).offset_table or {}
    return {queue_of(key): each for key, each in table.items()}


def writing_consume_stats(
    body: LongBody, tps: float, queues: Iterable[tuple[MessageQueue, QueueProgress]]
) -> Steps[None]:
    """The answer to 208, also as a part of a body, in steps."""
    body.write(b'{"consumeTps":%b,"offsetTable":' % encode(float(tps)))
    yield from writing_queue_keyed(body, ((queue, encode(each)) for queue, each in queues))
    body.write(b"}")


def decode_consume_stats(data: bytes) -> ConsumeStats:
    return _stats(load_queue_keyed(_group_decoder, data))


def encoding_broker_consume_stats(
    broker_address: str,
    total_lag: Callable[[], int],
    groups: Iterable[tuple[str, Iterable[tuple[float, Iterable[tuple[MessageQueue, QueueProgress]]]]]],
) -> Steps[bytes]:
    """The answer to 317, in steps; `total_lag` is asked for when all queues have been."""
    body = LongBody()
    body.write(b'{"brokerAddr":%b,"consumeStatsList":[' % encode(broker_address))
    group_comma = b""
    for group, topics in groups:
        body.write(b"%b{%b:[" % (group_comma, encode(group)))
        comma = b""
        for tps, queues in topics:
            body.write(comma)
            yield from writing_consume_stats(body, tps, queues)
            comma = b","
        body.write(b"]}")
        group_comma = b","
        yield
    body.write(b'],"totalDiff":%d}' % total_lag())
    return (yield from body.joining())


def decode_broker_consume_stats(data: bytes) -> BrokerConsumeStats:
    wire = load_queue_keyed(_broker_decoder, data)
    groups: dict[str, tuple[ConsumeStats, ...]] = {}
    for entry in wire.consume_stats_list or ():
        for group, topics in entry.items():
            groups[group] = groups.get(group, ()) + tuple(map(_stats, topics))
    return BrokerConsumeStats(wire.broker_address or "", wire.total_diff, groups)


def merge(parts: Iterable[ConsumeStats]) -> ConsumeStats:
    """One group's progress from several brokers' answers, or from several topics'."""
    tps = 0.0
    queues: dict[MessageQueue, QueueProgress] = {}
    for part in parts:
        tps += part.tps
        queues.update(part.queues)
    return ConsumeStats(tps, queues)


def _stats(wire: _ConsumeStatsWire) -> ConsumeStats:
    table = wire.offset_table or {}
    return ConsumeStats(wire.consume_tps, {queue_of(key): each for key, each in table.items()})
