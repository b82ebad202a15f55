"""The version of a table as JSON: body of 322, header field of 26."""

from rocketeer.model.data_version import DataVersion
from rocketeer.protocol.bodies.wire import decoder, encode, load_request

_decoder = decoder(DataVersion)


def encode_data_version(version: DataVersion) -> bytes:
    """`{"timestamp":1794730295487,"counter":0}`."""
    return encode(version)


def decode_data_version(data: bytes) -> DataVersion:
    return load_request(_decoder, data)
