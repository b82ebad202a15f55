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
from rocketeer.protocol.bodies.locks import QueueWire
from rocketeer.protocol.bodies.wire import decoder, encode, load_as
from rocketeer.steps import Steps, finish

T = TypeVar("T")

# A key as RocketMQ and we write it. Its bare quotes cannot stand inside of a JSON text, so no text is changed.
_KEY: Final = re.compile(
    rb'(?<=[{,])\{"brokerName":"([^"\\]*)","queueId":(-?[0-9]+),"topic":"([^"\\]*)"\}(?=:)'
)
_QUOTED: Final = rb'"{\\"brokerName\\":\\"\1\\",\\"queueId\\":\2,\\"topic\\":\\"\3\\"}"'
_queue_decoder = decoder(QueueWire)
_text = lru_cache(maxsize=1024)(encode)


def load_queue_keyed(kind: "msgspec.json.Decoder[T]", data: bytes) -> T:
    """The typed value of a body whose mappings have queues as keys (`queue_of` reads them). Raises BadBody."""
    return load_as(kind, _KEY.sub(_QUOTED, data))


def queue_of(key: str) -> MessageQueue:
    """The queue a key stands for; raises BadBody."""
    try:
        wire = _queue_decoder.decode(key)
    except msgspec.DecodeError as why:
        raise BadBody(f"{key[:200]!r} is no message queue: {why}") from None
    return MessageQueue(wire.topic, wire.broker_name, wire.queue_id)


def encode_queue_keyed(entries: Iterable[tuple[MessageQueue, bytes]]) -> bytes:
    """A mapping of queues to JSON values, in fastjson's form."""
    return finish(encoding_queue_keyed(entries))


def encoding_queue_keyed(entries: Iterable[tuple[MessageQueue, bytes]]) -> Steps[bytes]:
    """The same in steps: a topic may have very many queues."""
    pieces = []
    for queue, value in entries:
        pieces.append(
            b'{"brokerName":%b,"queueId":%d,"topic":%b}:%b'
            % (_text(queue.broker_name), queue.queue_id, _text(queue.topic), value)
        )
        yield
    return b"{%b}" % b",".join(pieces)
