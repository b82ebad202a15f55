"""Who is connected in a consumer group, and how the group consumes (203); in a producer group (204), as JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rocketeer.model.java_types import I32
from rocketeer.model.subscription import Subscription
from rocketeer.protocol.bodies.long_body import LongBody, encoding_list, writing_values
from rocketeer.protocol.bodies.subscription import (
    SubscriptionWire,
    subscription_from_wire,
    subscription_to_wire,
)
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_as
from rocketeer.steps import Steps


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """One connection of a client."""

    address: str
    client_id: str
    language: str
    version: int


@dataclass(frozen=True, slots=True)
class GroupConnections:
    """A consumer group as a broker sees it."""

    connections: tuple[ClientConnection, ...]
    consume_from_where: str | None
    consume_type: str | None
    message_model: str | None
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)


class _ConnectionWire(Wire):
    client_addr: str | None = None
    client_id: str | None = None
    language: str | None = None
    version: I32 = 0


class _GroupWire(Wire):
    connection_set: list[_ConnectionWire] | None = None
    consume_from_where: str | None = None
    consume_type: str | None = None
    message_model: str | None = None
    subscription_table: dict[str, SubscriptionWire] | None = None


class _ProducersWire(Wire):
    connection_set: list[_ConnectionWire] | None = None


_decoder = decoder(_GroupWire)
_producers_decoder = decoder(_ProducersWire)


def encoding_group_connections(
    group: GroupConnections, connections: Iterable[ClientConnection] | None = None
) -> Steps[bytes]:
    """In steps: members and subscriptions may be very many. `connections`: instead of the group's."""
    body = LongBody()
    body.write(b'{"connectionSet":[')
    yield from writing_values(body, map(_wire_of, group.connections if connections is None else connections))
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
    wire = load_as(_decoder, data)
    return GroupConnections(
        _from_wire(wire.connection_set),
        wire.consume_from_where,
        wire.consume_type,
        wire.message_model,
        {topic: subscription_from_wire(each) for topic, each in (wire.subscription_table or {}).items()},
    )


def encoding_producer_connections(connections: Iterable[ClientConnection]) -> Steps[bytes]:
    """The answer to 204, in steps."""
    return encoding_list("connectionSet", map(_wire_of, connections))


def decode_producer_connections(data: bytes) -> tuple[ClientConnection, ...]:
    return _from_wire(load_as(_producers_decoder, data).connection_set)


def _wire_of(connection: ClientConnection) -> _ConnectionWire:
    return _ConnectionWire(connection.address, connection.client_id, connection.language, connection.version)


def _from_wire(wires: list[_ConnectionWire] | None) -> tuple[ClientConnection, ...]:
    return tuple(
        ClientConnection(wire.client_addr or "", wire.client_id or "", wire.language or "", wire.version)
        for wire in wires or ()
    )
