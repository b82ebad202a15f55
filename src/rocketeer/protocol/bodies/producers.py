"""Who produces, as JSON: every producer group of a broker (328)."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import field

from rocketeer.model.java_types import I32, I64
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_as


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


def encode_producer_table(table: Mapping[str, tuple[ProducerClient, ...]]) -> bytes:
    return encode(
        _TableWire(
            {
                group: [
                    _ClientWire(
                        each.client_id, each.language, each.last_update_ms, each.address, each.version
                    )
                    for each in clients
                ]
                for group, clients in table.items()
            }
        )
    )


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
