"""Entries of a consume queue and how a group's filter sees them (321), as JSON."""

from dataclasses import dataclass

from msgspec import field

from rocketeer.model.java_types import I32, I64, JavaValue, LogOffsetI64, java
from rocketeer.model.subscription import Subscription
from rocketeer.protocol.bodies.subscription import (
    SubscriptionWire,
    subscription_from_wire,
    subscription_to_wire,
)
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_as


class QueueEntryView(JavaValue, frozen=True, omit_defaults=True):
    """One entry; `matches` is what the asked group's filter says of it."""

    log_offset: LogOffsetI64 = field(name="physicOffset")
    size: I32 = field(name="physicSize")
    tags_code: I64
    matches: bool = field(name="eval")
    extension: str | None = java("extendDataJson", None)
    """The unit of consumequeue_ext as JSON."""
    bits: str | None = java("bitMap", None)
    """The bloom filter's bits as lines of 0 and 1."""
    message: str | None = java("msg", None)
    """What could not be read, in words."""


@dataclass(frozen=True, slots=True)
class QueueEntries:
    """A range of a queue; `filter_data` and `subscription` are those of the asked group."""

    min_index: int
    max_index: int
    entries: tuple[QueueEntryView, ...]
    filter_data: str | None = None
    subscription: Subscription | None = None


class _EntriesWire(Wire, omit_defaults=True):
    max_queue_index: I64
    min_queue_index: I64
    queue_data: list[QueueEntryView] | None = None
    filter_data: str | None = None
    subscription_data: SubscriptionWire | None = None


_decoder = decoder(_EntriesWire)


def encode_queue_entries(entries: QueueEntries) -> bytes:
    subscription = entries.subscription
    return encode(
        _EntriesWire(
            entries.max_index,
            entries.min_index,
            list(entries.entries),
            entries.filter_data,
            None if subscription is None else subscription_to_wire(subscription),
        )
    )


def decode_queue_entries(data: bytes) -> QueueEntries:
    wire = load_as(_decoder, data)
    told = wire.subscription_data
    return QueueEntries(
        wire.min_queue_index,
        wire.max_queue_index,
        tuple(wire.queue_data or ()),
        wire.filter_data,
        None if told is None else subscription_from_wire(told),
    )
