"""Who produces, as JSON: every producer group of a broker (328)."""

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import field

from rocketeer.model.java_types import I32, I64
from rocketeer.protocol.bodies.long_body import LongBody, writing_values
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_as
from rocketeer.steps import Steps


@dataclass(frozen=True, slots=True)
class ProducerClient:
    """One client of a producer group; `address` begins with a slash, as Java writes sockets' addresses."""

    client_id: str
    address: str
    language: str
    version: int
    last_update_ms: int


class _ClientWire(Wire):
    client_id: str | None = None
    language: str | None = None
    last_update_timestamp: I64 = 0
    address: str | None = field(default=None, name="remoteIP")
    version: I32 = 0


class _TableWire(Wire):
    data: dict[str, list[_ClientWire]] | None = None


_decoder = decoder(_TableWire)


def encoding_producer_table(table: Iterable[tuple[str, Iterable[ProducerClient]]]) -> Steps[bytes]:
    """Group and clients, in steps: there may be very many of both."""
    body = LongBody()
    body.write(b'{"data":{')
    comma = b""
    for group, clients in table:
        body.write(b"%b%b:[" % (comma, encode(group)))
        yield from writing_values(
            body,
            (
                _ClientWire(each.client_id, each.language, each.last_update_ms, each.address, each.version)
                for each in clients
            ),
        )
        body.write(b"]")
        comma = b","
    body.write(b"}}")
    return (yield from body.joining())


def decode_producer_table(data: bytes) -> dict[str, tuple[ProducerClient, ...]]:
    return {
        group: tuple(
            ProducerClient(
                wire.client_id or "",
                wire.address or "",
                wire.language or "",
                wire.version,
                wire.last_update_timestamp,
            )
            for wire in wires
        )
        for group, wires in (load_as(_decoder, data).data or {}).items()
    }
