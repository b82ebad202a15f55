"""Tables of offsets as JSON: all consumers' (43), the delay levels' (45), a group's by queue (220-223)."""

from collections.abc import Mapping

import msgspec

from rocketeer.errors import BadBody
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol import fastjson
from rocketeer.protocol.bodies.locks import QueueWire
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_as
from rocketeer.protocol.java_types import I32, I64


class _ConsumersWire(Wire):
    offset_table: dict[str, dict[I32, I64]] | None = None


class _LevelsWire(Wire):
    offset_table: dict[I32, I64] | None = None
    log_offset: I64 | None = None


class _QueuesWire(Wire):
    offset_table: dict[str, I64] | None = None


class _StatusWire(Wire):
    message_queue_table: dict[str, I64] | None = None


_consumers_decoder = decoder(_ConsumersWire)
_levels_decoder = decoder(_LevelsWire)
_queues_decoder = decoder(_QueuesWire)
_queue_decoder = decoder(QueueWire)
_status_decoder = decoder(_StatusWire)


def encode_consumer_offsets(table: Mapping[str, Mapping[int, int]]) -> bytes:
    """`topic@group` -> queue id -> offset."""
    return fastjson.dumps_bare({"offsetTable": table})


def decode_consumer_offsets(data: bytes) -> dict[str, dict[int, int]]:
    return load_as(_consumers_decoder, data).offset_table or {}


def encode_delay_offsets(table: Mapping[int, int], log_offset: int | None = None) -> bytes:
    """Delay level -> offset in its queue; ours: also where the log ended when this was so (Java ignores it)."""
    where = {} if log_offset is None else {"logOffset": log_offset}
    return fastjson.dumps_bare({"offsetTable": table, **where})


def decode_delay_offsets(data: bytes) -> dict[int, int]:
    return load_as(_levels_decoder, data).offset_table or {}


def decode_delay_log_offset(data: bytes) -> int | None:
    """Where the log ended when the table was written; None if Java wrote it."""
    return load_as(_levels_decoder, data).log_offset


def encode_queue_offsets(table: Mapping[MessageQueue, int]) -> bytes:
    """Queue -> offset; the queues stand as keys, which only fastjson reads."""
    return fastjson.dumps_bare({"offsetTable": _by_key(table)})


def decode_queue_offsets(data: bytes) -> dict[MessageQueue, int]:
    table = load_as(_queues_decoder, data).offset_table or {}
    return {_queue(key): offset for key, offset in table.items()}


def encode_member_status(table: Mapping[MessageQueue, int]) -> bytes:
    """The answer to 221: how far one member is in its queues."""
    return fastjson.dumps_bare({"consumerTable": {}, "messageQueueTable": _by_key(table)})


def decode_member_status(data: bytes) -> dict[MessageQueue, int]:
    table = load_as(_status_decoder, data).message_queue_table or {}
    return {_queue(key): offset for key, offset in table.items()}


def encode_members_status(members: Mapping[str, Mapping[MessageQueue, int]]) -> bytes:
    """The answer to 223: client id -> how far it is."""
    table = {client_id: _by_key(offsets) for client_id, offsets in members.items()}
    return fastjson.dumps_bare({"consumerTable": table, "messageQueueTable": {}})


def _by_key(table: Mapping[MessageQueue, int]) -> dict[fastjson.Bare, int]:
    return {
        fastjson.Bare(encode(QueueWire(queue.broker_name, queue.queue_id, queue.topic)).decode()): offset
        for queue, offset in table.items()
    }


def _queue(key: str) -> MessageQueue:
    try:
        wire = _queue_decoder.decode(key)
    except msgspec.DecodeError as why:
        raise BadBody(f"{key[:200]!r} is no message queue: {why}") from None
    return MessageQueue(wire.topic, wire.broker_name, wire.queue_id)
