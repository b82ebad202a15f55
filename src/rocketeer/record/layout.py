"""The stored message, byte for byte: what the commit log holds, pulls carry and replication copies.

Record, big-endian (IPv4 hosts; an IPv6 host has 20 bytes instead of 8, told by two system flag bits):

    at  size
     0     4  total size
     4     4  magic 0xDAA320A7
     8     4  crc32 of the body, without its top bit
    12     4  queue id
    16     4  flag (the user's)
    20     8  queue offset
    28     8  log offset
    36     4  system flag
    40     8  born time, ms
    48     8  born host (ip4 | port i32)
    56     8  store time, ms
    64     8  store host (ip4 | port i32)
    72     4  times reconsumed
    76     8  prepared transaction offset
    84     4  body length
    88     n  body | topic length u8 | topic | properties length i16 | properties

A file of the log ends with a blank record: size of the rest i32 | magic 0xCBD43194 | anything.
An entry of a consume queue: log offset i64 | size i32 | tag code i64.
"""

from collections.abc import Collection
from mmap import mmap
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

import msgspec
from isal import isal_zlib

from rocketeer.errors import BadRecord
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.record.flags import BORN_HOST_V6, HOSTS_V6, STORE_HOST_V6
from rocketeer.record.hosts import V4_BYTES, V6_BYTES
from rocketeer.record.ids import offset_msg_id
from rocketeer.record.properties import PROPERTIES_BYTES_MAX, decode_properties, find_property

Buffer: TypeAlias = bytes | bytearray | memoryview | mmap

MAGIC: Final = -626843481
MAGIC_BYTES: Final = MAGIC.to_bytes(4, "big", signed=True)
BLANK_MAGIC: Final = -875286124

FIELDS: Final = (
    ("size", "i"),
    ("magic", "i"),
    ("body_crc", "i"),
    ("queue_id", "i"),
    ("flag", "i"),
    ("queue_offset", "q"),
    ("log_offset", "q"),
    ("sys_flag", "i"),
    ("born_ms", "q"),
    ("born_host", "host"),
    ("store_ms", "q"),
    ("store_host", "host"),
    ("reconsume_times", "i"),
    ("prepared_offset", "q"),
    ("body_bytes", "i"),
)
"""The head's fields, in order: every reader and writer of records in Python is made from them; compiled ones have
`_layout.pxd`, which a test compares."""


def head_struct(born_host_bytes: int, store_host_bytes: int, fields: Collection[str]) -> Struct:
    """The head with hosts of these sizes up to the last of these fields; the others are passed over."""
    hosts = {"born_host": born_host_bytes, "store_host": store_host_bytes}
    text = ">"
    for name, kind in FIELDS[: 1 + max(at for at, (name, _) in enumerate(FIELDS) if name in fields)]:
        size = hosts.get(name) or _SIZES[kind]
        text += (kind if kind != "host" else f"{size}s") if name in fields else f"{size}x"
    return Struct(text)


_SIZES: Final = {"i": 4, "q": 8}
# By (system flag >> 4) & 3: bit 0 for an IPv6 born host, bit 1 for an IPv6 store host.
HOST_SIZES: Final = tuple((born, store) for store in (V4_BYTES, V6_BYTES) for born in (V4_BYTES, V6_BYTES))
HEADS: Final = tuple(head_struct(*sizes, [name for name, _ in FIELDS]) for sizes in HOST_SIZES)
HEAD: Final = HEADS[0]
assert HEAD.size == 88, "the files interoperate with RocketMQ's"
assert HEADS[3].size == 112
FIELD_NAMES: Final = tuple(name for name, _ in FIELDS)
"""What `HEADS` unpack, in order."""
RECORD_PLACE: Final = head_struct(
    V4_BYTES, V4_BYTES, ("size", "magic", "queue_id", "queue_offset", "log_offset")
)
"""Where a record says it stands, in log and queue; whatever its hosts."""
_SYS_FLAG: Final = head_struct(V4_BYTES, V4_BYTES, ("sys_flag",))
SYS_FLAG_AT: Final = _SYS_FLAG.size - 4
MAGIC_AT: Final = head_struct(V4_BYTES, V4_BYTES, ("magic",)).size - 4
_STORE_MS: Final = tuple(head_struct(*sizes, ("store_ms",)) for sizes in HOST_SIZES)
BLANK: Final = head_struct(V4_BYTES, V4_BYTES, ("size", "magic"))
"""All that a blank record has, and how every other begins."""
QUEUE_ENTRY: Final = Struct(">qiq")
assert QUEUE_ENTRY.size == 20, "the files interoperate with RocketMQ's"
BODY_CRC_MASK: Final = 0x7FFFFFFF
TAIL_BYTES: Final = 3  # topic length and properties length
TOPIC_BYTES_MAX: Final = 127
RECORD_BYTES_MAX: Final = (16 << 20) + (64 << 10)
"""No frame brings larger bodies, here and in RocketMQ, whatever maxMessageSize is or was. A damaged size may."""

_I16: Final = Struct(">h")


class PendingMessage(msgspec.Struct):
    """A message on its way into the log; rewrites may change it. `msgspec.structs.replace` copies it."""

    topic: str
    queue_id: int
    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    body: bytes
    properties: bytes
    reconsume_times: int = 0
    prepared_offset: int = 0


class StoredMessage(msgspec.Struct, frozen=True):
    """A record as a value; `body` and `properties` are as stored. `msgspec.structs.replace` copies it."""

    topic: str
    queue_id: int
    queue_offset: QueueOffset
    log_offset: LogOffset
    size: int
    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    store_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_offset: int
    body_crc: int
    body: bytes
    properties: bytes

    def properties_dict(self) -> dict[str, str]:
        return decode_properties(self.properties)

    def pending(self, topic: str, queue_id: int, properties: bytes) -> PendingMessage:
        """The same message, to be stored once more: there, and with these properties."""
        return PendingMessage(
            topic=topic,
            queue_id=queue_id,
            flag=self.flag,
            sys_flag=self.sys_flag,
            born_ms=self.born_ms,
            born_host=self.born_host,
            body=self.body,
            properties=properties,
            reconsume_times=self.reconsume_times,
        )

    @property
    def offset_msg_id(self) -> str:
        return offset_msg_id(self.store_host, self.log_offset)

    @property
    def tags(self) -> str | None:
        return _text(find_property(self.properties, b"TAGS"))

    @property
    def keys(self) -> str | None:
        """The KEYS property: one text, keys separated by spaces."""
        return _text(find_property(self.properties, b"KEYS"))

    @property
    def uniq_key(self) -> str | None:
        """The id the sending client gave; what most people call the message id."""
        return _text(find_property(self.properties, b"UNIQ_KEY"))


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "replace")


def head_of(buf: Buffer, at: int = 0) -> Struct:
    """The head of the record at `at`: its system flag tells the hosts' lengths."""
    (flag,) = _SYS_FLAG.unpack_from(buf, at)
    return HEADS[(int(flag) & HOSTS_V6) >> 4]


def stored_ms(buf: Buffer, at: int = 0) -> int:
    """When the record at `at` was stored."""
    (flag,) = _SYS_FLAG.unpack_from(buf, at)
    return int(_STORE_MS[(flag & HOSTS_V6) >> 4].unpack_from(buf, at)[0])


def body_crc(body: Buffer) -> int:
    """crc32 as records hold it: without the sign bit."""
    crc: int = isal_zlib.crc32(body)
    return crc & BODY_CRC_MASK


def host_bits(born_host: bytes, store_host: bytes) -> int:
    """The system flag bits that tell the hosts' lengths."""
    return (BORN_HOST_V6 if len(born_host) == V6_BYTES else 0) | (
        STORE_HOST_V6 if len(store_host) == V6_BYTES else 0
    )


class PlacelessRecord(NamedTuple):
    """All of a record that can be made before it is known where it will stand; `encode_head` makes the rest."""

    size: int
    crc: int
    sys_flag: int
    """As it is stored: its host bits follow the hosts, not what the client says."""
    tail: bytes
    """What stands behind the body."""


def without_place(message: PendingMessage, store_host: bytes) -> PlacelessRecord:
    """Make what can be made of a record; the caller has checked how long properties and topic are."""
    sys_flag = message.sys_flag & ~HOSTS_V6 | host_bits(message.born_host, store_host)
    return _without_place(message, body_crc(message.body), sys_flag)


def encode_pending(
    message: PendingMessage,
    *,
    queue_offset: QueueOffset,
    log_offset: LogOffset,
    store_ms: int,
    store_host: bytes,
) -> bytes:
    """Encode the whole record."""
    record = without_place(message, store_host)
    head = encode_head(message, record, queue_offset, log_offset, store_ms, store_host)
    return b"".join((head, message.body, record.tail))


def encode_record(message: StoredMessage) -> bytes:
    """The same bytes `decode_record` was given: checksum and flags as they stand, sizes from the parts."""
    m = message
    assert m.sys_flag & HOSTS_V6 == host_bits(m.born_host, m.store_host), "the flag tells the hosts' lengths"
    record = _without_place(m, m.body_crc, m.sys_flag)
    head = encode_head(m, record, m.queue_offset, m.log_offset, m.store_ms, m.store_host)
    return b"".join((head, m.body, record.tail))


def _without_place(message: PendingMessage | StoredMessage, crc: int, sys_flag: int) -> PlacelessRecord:
    topic, properties = message.topic.encode(), message.properties
    assert len(topic) <= TOPIC_BYTES_MAX, "checked at admission"
    assert len(properties) <= PROPERTIES_BYTES_MAX, "checked at admission"
    tail = b"".join((len(topic).to_bytes(1, "big"), topic, len(properties).to_bytes(2, "big"), properties))
    size = HEADS[(sys_flag & HOSTS_V6) >> 4].size + len(message.body) + len(tail)
    return PlacelessRecord(size, crc, sys_flag, tail)


def encode_head(
    message: PendingMessage | StoredMessage,
    record: PlacelessRecord,
    queue_offset: QueueOffset,
    log_offset: LogOffset,
    store_ms: int,
    store_host: bytes,
) -> bytes:
    """Encode what stands in front of the body."""
    size, crc, sys_flag, _ = record
    return HEADS[(sys_flag & HOSTS_V6) >> 4].pack(
        size,
        MAGIC,
        crc,
        message.queue_id,
        message.flag,
        queue_offset,
        log_offset,
        sys_flag,
        message.born_ms,
        message.born_host,
        store_ms,
        store_host,
        message.reconsume_times,
        message.prepared_offset,
        len(message.body),
    )


def decode_record(buf: Buffer, at: int = 0, check_crc: bool = True) -> StoredMessage:
    """The record at `at`; BadRecord for anything else. Reads no byte past the record's own size."""
    left = len(buf) - at
    if at < 0 or left < HEAD.size + TAIL_BYTES:
        raise BadRecord(at=at, reason=f"{max(left, 0)} bytes are left for a record")
    fields = HEAD.unpack_from(buf, at)
    head = HEAD
    if fields[7] & HOSTS_V6 and fields[1] == MAGIC:
        head = HEADS[(fields[7] & HOSTS_V6) >> 4]
        if left < head.size + TAIL_BYTES:
            raise BadRecord(at=at, reason=f"{left} bytes are left for a record with IPv6 hosts")
        fields = head.unpack_from(buf, at)
    (size, magic, crc, queue_id, flag, queue_offset, log_offset, sys_flag) = fields[:8]
    (born_ms, born_host, store_ms, store_host, reconsume_times, prepared_offset, body_bytes) = fields[8:]
    if magic != MAGIC:
        raise BadRecord(at=at, reason=f"magic is {magic & 0xFFFFFFFF:#010x}, not {MAGIC & 0xFFFFFFFF:#010x}")
    if not head.size + TAIL_BYTES <= size <= left:
        raise BadRecord(at=at, reason=f"size is {size}, with {left} bytes left")
    if not 0 <= body_bytes <= size - head.size - TAIL_BYTES:
        raise BadRecord(at=at, reason=f"body length is {body_bytes} in a record of {size} bytes")
    body_at = at + head.size
    body = bytes(buf[body_at : body_at + body_bytes])
    tail = bytes(buf[body_at + body_bytes : at + size])
    topic, properties = split_tail(tail, at)
    if check_crc and body_bytes and body_crc(body) != crc:
        raise BadRecord(at=at, reason="the crc of the body is not the one stored")
    return StoredMessage(
        topic,
        queue_id,
        queue_offset,
        log_offset,
        size,
        flag,
        sys_flag,
        born_ms,
        born_host,
        store_ms,
        store_host,
        reconsume_times,
        prepared_offset,
        crc,
        body,
        properties,
    )


def split_tail(tail: bytes, at: int) -> tuple[str, bytes]:
    """Topic and properties from a record's bytes behind its body; the lengths must use them up exactly."""
    topic_end = 1 + tail[0]
    properties_at = topic_end + 2
    if topic_end > 1 + TOPIC_BYTES_MAX or properties_at > len(tail):
        raise BadRecord(at=at, reason=f"topic length is {tail[0]}, with {len(tail) - TAIL_BYTES} bytes left")
    (properties_bytes,) = _I16.unpack_from(tail, topic_end)
    if properties_at + properties_bytes != len(tail):
        left = len(tail) - properties_at
        raise BadRecord(at=at, reason=f"properties length is {properties_bytes}, with {left} bytes left")
    try:
        return tail[1:topic_end].decode(), tail[properties_at:]
    except UnicodeDecodeError:
        raise BadRecord(at=at, reason=f"topic {tail[1:topic_end]!r} is not UTF-8") from None
