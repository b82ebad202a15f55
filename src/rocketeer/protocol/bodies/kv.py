"""A table of texts as JSON, `{"table":{...}}`: answers to 103 (order topics), 219 (a namespace), 28."""

from collections.abc import Mapping

from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_as


class _KvTableWire(Wire):
    table: dict[str, str | None] | None = None


_decoder = decoder(_KvTableWire)


def encode_kv_table(table: Mapping[str, str]) -> bytes:
    return encode(_KvTableWire(dict(table)))


def decode_kv_table(data: bytes) -> dict[str, str]:
    return {key: value for key, value in (load_as(_decoder, data).table or {}).items() if value is not None}
