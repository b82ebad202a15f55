"""What a client says of itself every 30 s (34), its groups and subscriptions; the check of a filter (46)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from msgspec import field

from rocketeer.errors import BadBody
from rocketeer.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel, Subscription
from rocketeer.protocol.bodies.subscription import (
    RawSubscription,
    reading_subscription,
    subscription_wire,
)
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_request, loading_request
from rocketeer.steps import Steps, finish

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class ConsumerData:
    """One consumer group inside a client."""

    group: str
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    subscriptions: tuple[Subscription, ...] = ()
    unit_mode: bool = False


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One client: its id, producer groups and consumer groups."""

    client_id: str
    producer_groups: tuple[str, ...] = ()
    consumers: tuple[ConsumerData, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientCheck:
    """The question whether the broker can filter so."""

    client_id: str
    group: str
    subscription: Subscription


class _ConsumerWire(Wire):
    group_name: str
    consume_type: str | int | None = None
    message_model: str | int | None = None
    consume_from_where: str | int | None = None
    subscription_data_set: list[RawSubscription] | None = None
    unit_mode: bool = False


class _ProducerWire(Wire):
    group_name: str


class _HeartbeatWire(Wire):
    client_id: str = field(name="clientID")
    producer_data_set: list[_ProducerWire] | None = None
    consumer_data_set: list[_ConsumerWire] | None = None


class _CheckWire(Wire):
    client_id: str
    group: str
    subscription_data: RawSubscription


_heartbeat_decoder = decoder(_HeartbeatWire)
_check_decoder = decoder(_CheckWire)


def _name(kind: type[E], value: str | int | None, default: E) -> E:
    """An enum by its name or, as the C++ client sends it, by its place."""
    if value is None:
        return default
    try:
        return dict(enumerate(kind))[value] if isinstance(value, int) else kind(value)
    except (ValueError, KeyError):
        raise BadBody(f"{value!r:.80} is no {kind.__name__}; there are {', '.join(kind)}") from None


def _consumer(wire: _ConsumerWire, subscriptions: tuple[Subscription, ...]) -> ConsumerData:
    return ConsumerData(
        wire.group_name,
        _name(ConsumeType, wire.consume_type, ConsumeType.CONSUME_PASSIVELY),
        _name(MessageModel, wire.message_model, MessageModel.CLUSTERING),
        _name(ConsumeFromWhere, wire.consume_from_where, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET),
        subscriptions,
        wire.unit_mode,
    )


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    return encode(
        _HeartbeatWire(
            heartbeat.client_id,
            [_ProducerWire(group) for group in heartbeat.producer_groups],
            [
                _ConsumerWire(
                    consumer.group,
                    str(consumer.consume_type),
                    str(consumer.message_model),
                    str(consumer.consume_from_where),
                    [subscription_wire(item) for item in consumer.subscriptions],
                    consumer.unit_mode,
                )
                for consumer in heartbeat.consumers
            ],
        )
    )


class HeartbeatParts:
    """A heartbeat whose consumers are read one by one: there may be many."""

    def __init__(self, wire: _HeartbeatWire) -> None:
        self.client_id = wire.client_id
        self.producer_groups = [producer.group_name for producer in wire.producer_data_set or ()]
        self._consumers = wire.consumer_data_set or []

    @property
    def group_count(self) -> int:
        return len(self.producer_groups) + len(self._consumers)

    @property
    def subscription_count(self) -> int:
        return sum(len(consumer.subscription_data_set or ()) for consumer in self._consumers)

    def group_names(self) -> set[str]:
        return {*self.producer_groups, *(consumer.group_name for consumer in self._consumers)}

    def topics_and_kinds(self) -> tuple[set[str], set[str]]:
        """The topics of all subscriptions, and their expression types."""
        told = [item for consumer in self._consumers for item in consumer.subscription_data_set or ()]
        return {item.topic for item in told}, {item.expression_type or "" for item in told}

    def reading_consumers(self) -> Steps[list[ConsumerData]]:
        """Read the consumers one by one; raises BadBody at the first that cannot be understood."""
        consumers = []
        for wire in self._consumers:
            subscriptions: list[Subscription] = []
            for item in wire.subscription_data_set or ():
                subscriptions.append((yield from reading_subscription(item)))
            consumers.append(_consumer(wire, tuple(subscriptions)))
            yield
        return consumers


def opening_heartbeat(data: bytes) -> Steps[HeartbeatParts]:
    return HeartbeatParts((yield from loading_request(_heartbeat_decoder, data)))


def encode_client_check(check: ClientCheck) -> bytes:
    return encode(_CheckWire(check.client_id, check.group, subscription_wire(check.subscription)))


def decode_client_check(data: bytes) -> ClientCheck:
    wire = load_request(_check_decoder, data)
    return ClientCheck(wire.client_id, wire.group, finish(reading_subscription(wire.subscription_data)))
