"""Who produces, as JSON: every producer group of a broker (328)."""

from collections.abc import Iterable

from rocketeer.model.java_types import I32, I64, JavaValue, java
from rocketeer.protocol.bodies.long_body import LongBody, writing_values
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_with_nulls
from rocketeer.steps import Steps


class ProducerClient(JavaValue, frozen=True):
    """One client of a producer group; `address` begins with a slash, as Java writes sockets' addresses."""

    client_id: str = ""
    language: str = ""
    last_update_ms: I64 = java("lastUpdateTimestamp", 0)
    address: str = java("remoteIP", "")
    version: I32 = 0


class _ProducerTableWire(Wire):
    data: dict[str, list[ProducerClient]] | None = None


_decoder = decoder(_ProducerTableWire)


def encoding_producer_table(table: Iterable[tuple[str, Iterable[ProducerClient]]]) -> Steps[bytes]:
    """The answer to 328: groups and their clients, in steps, for there may be very many of both."""
    body = LongBody()
    body.write(b'{"data":{')
    comma = b""
    for group, clients in table:
        body.write(b"%b%b:[" % (comma, encode(group)))
        yield from writing_values(body, clients)
        body.write(b"]")
        comma = b","
    body.write(b"}}")
    return (yield from body.joining())


def decode_producer_table(data: bytes) -> dict[str, tuple[ProducerClient, ...]]:
    return {group: tuple(clients) for group, clients in (load_with_nulls(_decoder, data).data or {}).items()}
