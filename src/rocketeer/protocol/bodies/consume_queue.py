"""Entries of a consume queue and how a group's filter sees them (321), as JSON."""

from dataclasses import dataclass

from rocketeer.model.subscription import Subscription
from rocketeer.protocol.bodies.subscription import (
    SubscriptionWire,
    subscription_from_wire,
    subscription_to_wire,
)
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_as
from rocketeer.protocol.java_types import I32, I64


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One entry; `matches` is what the asked group's filter says of it."""

    log_offset: int
    size: int
    tags_code: int
    matches: bool = False
    extension: str | None = None
    """The unit of consumequeue_ext as JSON."""
    bits: str | None = None
    """The bloom filter's bits as lines of 0 and 1."""
    message: str | None = None
    """What could not be read, in words."""


@dataclass(frozen=True, slots=True)
class QueueEntries:
    """A range of a queue; `filter_data` and `subscription` are those of the asked group."""

    min_index: int
    max_index: int
    entries: tuple[QueueEntry, ...]
    filter_data: str | None = None
    subscription: Subscription | None = None


class _EntryWire(Wire, omit_defaults=True):
    physic_offset: I64
    physic_size: I32
    tags_code: I64
    eval: bool
    extend_data_json: str | None = None
    bit_map: str | None = None
    msg: str | None = None


class _EntriesWire(Wire, omit_defaults=True):
    max_queue_index: I64
    min_queue_index: I64
    queue_data: list[_EntryWire] | None = None
    filter_data: str | None = None
    subscription_data: SubscriptionWire | None = None


_decoder = decoder(_EntriesWire)


def encode_queue_entries(entries: QueueEntries) -> bytes:
    subscription = entries.subscription
    return encode(
        _EntriesWire(
            entries.max_index,
            entries.min_index,
            [
                _EntryWire(
                    each.log_offset,
                    each.size,
                    each.tags_code,
                    each.matches,
                    each.extension,
                    each.bits,
                    each.message,
                )
                for each in entries.entries
            ],
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
        tuple(
            QueueEntry(
                each.physic_offset,
                each.physic_size,
                each.tags_code,
                each.eval,
                each.extend_data_json,
                each.bit_map,
                each.msg,
            )
            for each in wire.queue_data or ()
        ),
        wire.filter_data,
        None if told is None else subscription_from_wire(told),
    )
