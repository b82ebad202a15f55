"""Who is connected in a consumer group, and how the group consumes (203); in a producer group (204), as JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rocketeer.model.java_types import I32, JavaValue, java
from rocketeer.model.subscription import Subscription
from rocketeer.protocol.bodies.long_body import LongBody, encoding_list, writing_values
from rocketeer.protocol.bodies.subscription import (
    SubscriptionWire,
    subscription_from_wire,
    subscription_to_wire,
)
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_with_nulls
from rocketeer.steps import Steps


class ClientConnection(JavaValue, frozen=True):
    """One connection of a client."""

    address: str = java("clientAddr", "")
    client_id: str = ""
    language: str = ""
    version: I32 = 0


@dataclass(frozen=True, slots=True)
class GroupConnections:
    """A consumer group as a broker sees it."""

    connections: tuple[ClientConnection, ...]
    consume_from_where: str | None
    consume_type: str | None
    message_model: str | None
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)


class _GroupWire(Wire):
    connection_set: list[ClientConnection] | None = None
    consume_from_where: str | None = None
    consume_type: str | None = None
    message_model: str | None = None
    subscription_table: dict[str, SubscriptionWire] | None = None


class _ProducersWire(Wire):
    connection_set: list[ClientConnection] | None = None


_decoder = decoder(_GroupWire)
_producers_decoder = decoder(_ProducersWire)


def encoding_group_connections(
    group: GroupConnections, connections: Iterable[ClientConnection] | None = None
) -> Steps[bytes]:
    """The answer to 203, in steps. `connections`: instead of the group's, made when they are written."""
    body = LongBody()
    body.write(b'{"connectionSet":[')
    yield from writing_values(body, group.connections if connections is None else connections)
    how = (group.consume_from_where, group.consume_type, group.message_model)
    body.write(b'],"consumeFromWhere":%b,"consumeType":%b,"messageModel":%b,' % tuple(map(encode, how)))
    body.write(b'"subscriptionTable":{')
    comma = b""
    for topic, each in list(group.subscriptions.items()):
        body.write(b"%b%b:%b" % (comma, encode(topic), encode(subscription_to_wire(each))))
        comma = b","
        yield
    body.write(b"}}")
    return (yield from body.joining())


def decode_group_connections(data: bytes) -> GroupConnections:
    wire = load_with_nulls(_decoder, data)
    return GroupConnections(
        tuple(wire.connection_set or ()),
        wire.consume_from_where,
        wire.consume_type,
        wire.message_model,
        {topic: subscription_from_wire(each) for topic, each in (wire.subscription_table or {}).items()},
    )


def encoding_producer_connections(connections: Iterable[ClientConnection]) -> Steps[bytes]:
    """The answer to 204, in steps."""
    return encoding_list("connectionSet", connections)


def decode_producer_connections(data: bytes) -> tuple[ClientConnection, ...]:
    return tuple(load_with_nulls(_producers_decoder, data).connection_set or ())
