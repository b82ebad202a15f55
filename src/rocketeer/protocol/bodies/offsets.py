"""Tables of offsets as JSON: all consumers' (43), the delay levels' (45), a group's by queue (220-223, 308)."""

from collections.abc import Mapping
from typing import Final

import msgspec

from rocketeer.model.java_types import I32, LogOffsetI64, QueueOffsetI64
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol import fastjson
from rocketeer.protocol.bodies.long_body import LongBody
from rocketeer.protocol.bodies.queue_keys import (
    QUEUE_OFFSET,
    encode_queue_keyed,
    load_queue_keyed,
    loading_queue_keyed,
    queue_of,
    writing_queue_keyed,
)
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_as
from rocketeer.steps import Steps, finish

_READ_AT_ONCE: Final = 1 << 14
_ENTRY_BYTES_MAX: Final = 1 << 11
"""Largest entry of one queue and its offset, in what is read in steps."""


class _ConsumerTableWire(Wire):
    offset_table: dict[str, dict[I32, QueueOffsetI64]] | None = None


class _LevelsWire(Wire):
    offset_table: dict[I32, QueueOffsetI64] | None = None
    log_offset: LogOffsetI64 | None = None


class _QueuesWire(Wire):
    offset_table: dict[str, QueueOffsetI64] | None = None


class _StatusWire(Wire):
    message_queue_table: dict[str, QueueOffsetI64] | None = None
    consumer_table: dict[str, dict[str, QueueOffsetI64]] | None = None


class _CorrectionsWire(Wire):
    correction_offsets: dict[I32, QueueOffsetI64] | None = None


_consumers_decoder = decoder(_ConsumerTableWire)
_levels_decoder = decoder(_LevelsWire)
_queues_decoder = decoder(_QueuesWire)
_status_decoder = decoder(_StatusWire)
_corrections_decoder = decoder(_CorrectionsWire)


def decode_consumer_offsets(data: bytes) -> dict[str, dict[int, QueueOffset]]:
    """`topic@group` -> queue id -> offset."""
    return load_as(_consumers_decoder, data).offset_table or {}


def encode_delay_offsets(table: Mapping[int, QueueOffset], log_offset: LogOffset | None = None) -> bytes:
    """Delay level -> offset in its queue; ours: also where the log ended when this was so (Java ignores it)."""
    where = {} if log_offset is None else {"logOffset": log_offset}
    return fastjson.dumps_bare({"offsetTable": table, **where})


def decode_delay_offsets(data: bytes) -> dict[int, QueueOffset]:
    return load_as(_levels_decoder, data).offset_table or {}


def decode_delay_log_offset(data: bytes) -> LogOffset | None:
    """Where the log ended when the table was written; None if Java wrote it."""
    return load_as(_levels_decoder, data).log_offset


def encode_queue_offsets(table: Mapping[MessageQueue, QueueOffset]) -> bytes:
    """Queue -> offset; the queues stand as keys, which only fastjson reads."""
    return finish(encoding_queue_offsets(table))


def encoding_queue_offsets(table: Mapping[MessageQueue, QueueOffset]) -> Steps[bytes]:
    """The same in steps: a topic may have very many queues."""
    entries = ((queue, b"%d" % offset) for queue, offset in table.items())
    body = LongBody()
    body.write(b'{"offsetTable":')
    yield from writing_queue_keyed(body, entries)
    body.write(b"}")
    return (yield from body.joining())


def decode_queue_offsets(data: bytes) -> dict[MessageQueue, QueueOffset]:
    return _queues(load_queue_keyed(_queues_decoder, data).offset_table)


def encode_member_status(table: Mapping[MessageQueue, QueueOffset]) -> bytes:
    """The answer to 221: how far one member is in its queues."""
    return b'{"consumerTable":{},"messageQueueTable":%b}' % _by_queue(table)


def reading_member_status(data: bytes) -> Steps[dict[MessageQueue, QueueOffset]]:
    """How far one member is in its queues. A large table is taken as RocketMQ's clients and ours write it; what is
    written otherwise in it is passed over."""
    if len(data) <= _READ_AT_ONCE:
        wire = yield from loading_queue_keyed(_status_decoder, data)
        return _queues(wire.message_queue_table)
    table: dict[MessageQueue, QueueOffset] = {}
    at = 0
    while at < len(data):
        end = at + _READ_AT_ONCE
        last = at
        for found in QUEUE_OFFSET.finditer(data, at, end):
            broker_name, queue_id, topic, offset = found.groups()
            queue = MessageQueue(
                topic.decode("utf-8", "replace"), broker_name.decode("utf-8", "replace"), int(queue_id)
            )
            table[queue] = QueueOffset(int(offset))
            last = found.end()
        at = max(last, end - _ENTRY_BYTES_MAX)
        yield
    return table


def encoding_members_status(members: Mapping[str, Mapping[MessageQueue, QueueOffset]]) -> Steps[bytes]:
    """The answer to 223: client id -> how far it is. In steps."""
    body = LongBody()
    body.write(b'{"consumerTable":{')
    comma = b""
    for client_id, table in members.items():
        body.write(b"%b%b:" % (comma, encode(client_id)))
        yield from writing_queue_keyed(body, ((queue, b"%d" % offset) for queue, offset in table.items()))
        comma = b","
    body.write(b'},"messageQueueTable":{}}')
    return (yield from body.joining())


def decode_members_status(data: bytes) -> dict[str, dict[MessageQueue, QueueOffset]]:
    table = load_queue_keyed(_status_decoder, data).consumer_table or {}
    return {client_id: _queues(offsets) for client_id, offsets in table.items()}


def encode_corrections(table: Mapping[int, QueueOffset]) -> bytes:
    """The answer to 308: queue id -> how far back other groups are."""
    # In C, for there may be very many, and then without the quotes that JSON wants.
    return b'{"correctionOffsets":%b}' % msgspec.json.encode(dict(table)).translate(None, b'"')


def decode_corrections(data: bytes) -> dict[int, QueueOffset]:
    return load_as(_corrections_decoder, data).correction_offsets or {}


def _by_queue(table: Mapping[MessageQueue, QueueOffset]) -> bytes:
    return encode_queue_keyed((queue, b"%d" % offset) for queue, offset in table.items())


def _queues(table: Mapping[str, QueueOffset] | None) -> dict[MessageQueue, QueueOffset]:
    return {queue_of(key): offset for key, offset in (table or {}).items()}
