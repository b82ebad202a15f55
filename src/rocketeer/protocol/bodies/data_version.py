"""The version of a table as JSON: body of 322, part of every table's body, header field of 26."""

from rocketeer.model.data_version import DataVersion
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_request
from rocketeer.protocol.java_types import I64


class VersionWire(Wire):
    """`{"counter":0,"timestamp":1794730295487}`."""

    counter: I64 = 0
    timestamp: I64 = 0


_decoder = decoder(VersionWire)


def version_to_wire(version: DataVersion) -> VersionWire:
    return VersionWire(version.counter, version.timestamp)


def version_from_wire(wire: VersionWire | None) -> DataVersion:
    return DataVersion(wire.timestamp, wire.counter) if wire is not None else DataVersion(0, 0)


def encode_data_version(version: DataVersion) -> bytes:
    return encode(version_to_wire(version))


def decode_data_version(data: bytes) -> DataVersion:
    return version_from_wire(load_request(_decoder, data))
