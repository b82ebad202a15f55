"""Message queues as JSON keys: `{{"brokerName":"a","queueId":0,"topic":"T"}:{...}}`, which only fastjson reads.

Bodies with such keys are the large ones (202, 208, 317: an entry for every queue), so their keys are put in quotes
by one regular expression; what it does not match takes the thorough way of `fastjson.to_strict`.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from rocketeer.errors import BadBody
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol import fastjson
from rocketeer.protocol.bodies.locks import QueueWire
from rocketeer.protocol.bodies.long_body import LongBody
from rocketeer.protocol.bodies.wire import decoder, encode, load_as
from rocketeer.steps import Steps, finish

T = TypeVar("T")

# A key as RocketMQ and we write it. Its bare quotes cannot stand inside of a JSON text, so no text is changed.
_KEY: Final = re.compile(
    rb'(?<=[{,])\{"brokerName":"([^"\\]*)","queueId":(-?[0-9]+),"topic":"([^"\\]*)"\}(?=:)'
)
_QUOTED: Final = rb'"{\\"brokerName\\":\\"\1\\",\\"queueId\\":\2,\\"topic\\":\\"\3\\"}"'
QUEUE_OFFSET: Final = re.compile(_KEY.pattern + rb":(-?[0-9]{1,19})(?=[,}])")
"""A queue and its offset."""
_queue_decoder = decoder(QueueWire)
_remembered = lru_cache(maxsize=1024)(encode)
REMEMBERED_CHARS: Final = 128
"""Longest name that is remembered: there are longer ones, and members of a group tell them."""


def _text(name: str) -> bytes:
    return _remembered(name) if len(name) <= REMEMBERED_CHARS else encode(name)


def load_queue_keyed(kind: "msgspec.json.Decoder[T]", data: bytes) -> T:
    """The typed value of a body whose mappings have queues as keys (`queue_of` reads them). Raises BadBody."""
    return load_as(kind, _KEY.sub(_QUOTED, data))


def loading_queue_keyed(kind: "msgspec.json.Decoder[T]", data: bytes) -> Steps[T]:
    """The same in steps, for what strangers answer: bodies of a few KB."""
    return fastjson.loading_as(kind, _KEY.sub(_QUOTED, data))


def queue_of(key: str) -> MessageQueue:
    """The queue a key stands for; raises BadBody."""
    try:
        wire = _queue_decoder.decode(key)
    except msgspec.DecodeError as why:
        raise BadBody(f"{key[:200]!r} is no message queue: {why}") from None
    return MessageQueue(wire.topic, wire.broker_name, wire.queue_id)


def encode_queue_keyed(entries: Iterable[tuple[MessageQueue, bytes]]) -> bytes:
    """A mapping of queues to JSON values, in fastjson's form."""
    body = LongBody()
    finish(writing_queue_keyed(body, entries))
    return body.whole()


def writing_queue_keyed(body: LongBody, entries: Iterable[tuple[MessageQueue, bytes]]) -> Steps[None]:
    """The same as a part of a body, in steps: a topic may have very many queues."""
    body.write(b"{")
    comma = b""
    for queue, value in entries:
        body.write(
            b'%b{"brokerName":%b,"queueId":%d,"topic":%b}:%b'
            % (comma, _text(queue.broker_name), queue.queue_id, _text(queue.topic), value)
        )
        comma = b","
        yield
    body.write(b"}")
