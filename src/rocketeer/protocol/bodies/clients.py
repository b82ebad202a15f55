"""Who consumes in a group (38) as JSON."""

from collections.abc import Iterable

from rocketeer.protocol.bodies.long_body import encoding_list
from rocketeer.protocol.bodies.wire import Wire, decoder, load_as
from rocketeer.steps import Steps


class _ConsumersWire(Wire):
    consumer_id_list: list[str] | None = None


_decoder = decoder(_ConsumersWire)


def encoding_consumer_list(client_ids: Iterable[str]) -> Steps[bytes]:
    """The answer to 38, in steps: a group may have very many members."""
    return encoding_list("consumerIdList", client_ids)


def decode_consumer_list(data: bytes) -> list[str]:
    return load_as(_decoder, data).consumer_id_list or []
