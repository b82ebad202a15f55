"""Who consumes in a group (38) as JSON."""

from collections.abc import Iterable

from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_as


class _ConsumersWire(Wire):
    consumer_id_list: list[str] | None = None


_decoder = decoder(_ConsumersWire)


def encode_consumer_list(client_ids: Iterable[str]) -> bytes:
    return encode(_ConsumersWire(list(client_ids)))


def decode_consumer_list(data: bytes) -> list[str]:
    return load_as(_decoder, data).consumer_id_list or []
