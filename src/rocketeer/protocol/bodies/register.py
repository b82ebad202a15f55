"""What a broker tells a name server of itself (103): its topics, as JSON or compressed.

The compressed form is one zlib stream of, big-endian:

    size i32 | data version JSON
    count i32 | (size i32 | "name readQueues writeQueues perm filterType") ...
    size i32 | JSON list of filter servers

It has no room for a topic's system flag and order.
"""

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from isal import isal_zlib

from rocketeer.errors import BadBody
from rocketeer.model.data_version import DataVersion
from rocketeer.model.java_types import I32
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.bodies.data_version import decode_data_version, encode_data_version
from rocketeer.protocol.bodies.topics import (
    TOPIC_ENTRIES,
    TopicTableBody,
    TopicTableWire,
    named,
    table_from_wire,
)
from rocketeer.protocol.bodies.wire import (
    REWRITE_BYTES_MAX,
    Wire,
    decoder,
    encode,
    load_request,
    loading_request,
)
from rocketeer.steps import Steps

# A quarter of a million topics; a stream that grows further is an attack.
OPENED_BYTES_MAX: Final = 16 * 1024 * 1024
OPENED_AT_ONCE_BYTES: Final = 256 * 1024

INT = struct.Struct(">i")


class RegistrationBody(NamedTuple):
    """A broker's topics; `filter_servers` belongs to a feature long gone, and is empty."""

    configs: dict[str, TopicConfig]
    version: DataVersion
    filter_servers: list[str]


class _RegistrationWire(Wire):
    topic_config_serialize_wrapper: TopicTableWire | None = None
    filter_server_list: list[str] | None = None


class _RawTableWire(Wire):
    topic_config_table: dict[str, msgspec.Raw] | None = None
    data_version: DataVersion | None = None


class _RawRegistrationWire(Wire):
    """A registration whose topics are not decoded yet."""

    topic_config_serialize_wrapper: _RawTableWire | None = None


_decoder = decoder(_RegistrationWire)
_raw_decoder = decoder(_RawRegistrationWire)
_raw_table_decoder = decoder(_RawTableWire)
_table_decoder = decoder(TopicTableWire)
_topic_decoder = decoder(TopicConfig)
_names_decoder = decoder(list[str])


def body_crc32(body: bytes) -> int:
    """The checksum header field `bodyCrc32` carries; 0 there means: not checked."""
    checksum: int = isal_zlib.crc32(body)
    return checksum & 0x7FFFFFFF


def encode_registration(
    configs: Mapping[str, TopicConfig],
    version: DataVersion,
    filter_servers: Sequence[str] = (),
    *,
    compressed: bool = False,
) -> bytes:
    if not compressed:
        return encode(_RegistrationWire(TopicTableWire(configs, version), list(filter_servers)))
    pieces: list[bytes] = []
    _put(pieces, encode_data_version(version))
    pieces.append(INT.pack(len(configs)))
    for topic in configs.values():
        line = f"{topic.name} {topic.read_queues} {topic.write_queues} {int(topic.perm)} {topic.filter_type}"
        _put(pieces, line.encode())
    _put(pieces, encode(list(filter_servers)))
    return zlib.compress(b"".join(pieces), 9)


def join_registration(entries: Iterable[bytes], version: DataVersion) -> bytes:
    """The same bytes as `encode_registration` without compression, of what `encode_entry` gave."""
    return b'{"topicConfigSerializeWrapper":%b,"filterServerList":[]}' % TOPIC_ENTRIES.join(entries, version)


def _put(pieces: list[bytes], piece: bytes) -> None:
    pieces += (INT.pack(len(piece)), piece)


def reading_registration(body: bytes, *, compressed: bool = False) -> Steps[RegistrationBody]:
    """Read the body of 103, a topic a step: there may be very many. Raises BadBody."""
    if compressed:
        opened = yield from _opening(body)
        return (yield from _reading_opened(opened))
    if len(body) <= REWRITE_BYTES_MAX:
        wire = yield from loading_request(_decoder, body)
        table = table_from_wire(wire.topic_config_serialize_wrapper or TopicTableWire())
        return RegistrationBody(table.configs, table.version, wire.filter_server_list or [])
    outer = load_request(_raw_decoder, body)
    yield
    table = yield from _reading_table(outer.topic_config_serialize_wrapper or _RawTableWire())
    return RegistrationBody(table.configs, table.version, [])


def reading_topic_table(body: bytes) -> Steps[TopicTableBody]:
    """A bare table of topics, which brokers before V3_0_11 tell, a topic a step."""
    if len(body) <= REWRITE_BYTES_MAX:
        return table_from_wire((yield from loading_request(_table_decoder, body)))
    raw = load_request(_raw_table_decoder, body)
    yield
    return (yield from _reading_table(raw))


def _reading_table(raw: _RawTableWire) -> Steps[TopicTableBody]:
    configs: dict[str, TopicConfig] = {}
    for name, entry in (raw.topic_config_table or {}).items():
        text = bytes(entry)  # no Raw equals the bytes it holds
        if text != b"null":
            configs[name] = named(load_request(_topic_decoder, text), name)
        yield
    return TopicTableBody(configs, raw.data_version or DataVersion())


def _opening(body: bytes) -> Steps[bytes]:
    stream = zlib.decompressobj()
    parts: list[bytes] = []
    size = 0
    waiting = body
    try:
        while waiting and not stream.eof:
            parts.append(stream.decompress(waiting, OPENED_AT_ONCE_BYTES))
            waiting = stream.unconsumed_tail
            size += len(parts[-1])
            if size > OPENED_BYTES_MAX:
                raise BadBody(f"compressed registration grows past {OPENED_BYTES_MAX} bytes")
            yield
    except zlib.error as why:
        raise BadBody(f"compressed registration cannot be opened: {why}") from None
    if not stream.eof:
        raise BadBody("compressed registration is cut off")
    return b"".join(parts)


def _reading_opened(opened: bytes) -> Steps[RegistrationBody]:
    version_bytes, at = _take(opened, 0)
    version = decode_data_version(version_bytes)
    count, at = _take_int(opened, at)
    if not 0 <= count <= len(opened) // INT.size:
        raise BadBody(f"compressed registration announces {count} topics in {len(opened)} bytes")
    configs: dict[str, TopicConfig] = {}
    for _ in range(count):
        line, at = _take(opened, at)
        topic = _topic_of_line(line)
        configs[topic.name] = topic
        yield
    names, at = _take(opened, at)
    return RegistrationBody(
        configs, version, [] if len(names) > REWRITE_BYTES_MAX else load_request(_names_decoder, names)
    )


def _topic_of_line(line: bytes) -> TopicConfig:
    try:
        name, read, write, perm, filter_type = line.decode().split(" ")[:5]
        numbers = msgspec.convert([read, write, perm], tuple[I32, I32, I32], strict=False)
    except (ValueError, msgspec.ValidationError):
        raise BadBody(f"compressed registration has a topic line {line[:200]!r}") from None
    return TopicConfig(name, *numbers, filter_type)


def _take_int(opened: bytes, at: int) -> tuple[int, int]:
    if at + INT.size > len(opened):
        raise BadBody(f"compressed registration ends at {len(opened)}, in the middle of a field")
    value: int = INT.unpack_from(opened, at)[0]
    return value, at + INT.size


def _take(opened: bytes, at: int) -> tuple[bytes, int]:
    size, at = _take_int(opened, at)
    if not 0 <= size <= len(opened) - at:
        raise BadBody(f"compressed registration announces a field of {size} bytes at {at} of {len(opened)}")
    return opened[at : at + size], at + size
