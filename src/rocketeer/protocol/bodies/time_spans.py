"""The times of what a group still has to consume, by queue (303), as JSON."""

from collections.abc import Iterable
from dataclasses import dataclass

from rocketeer.model.java_types import I64
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.bodies.locks import QueueWire
from rocketeer.protocol.bodies.long_body import LongBody
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_as
from rocketeer.steps import Steps


@dataclass(frozen=True, slots=True)
class ConsumeTimeSpan:
    """One queue: when its oldest and newest message and the one the group is at were stored.

    `delay_ms` is how long the group is behind: 0 when it has consumed all. The texts are the broker's local time.
    """

    queue: MessageQueue
    min_ms: int
    max_ms: int
    consume_ms: int
    delay_ms: int
    min_text: str = ""
    max_text: str = ""
    consume_text: str = ""


class _SpanWire(Wire):
    message_queue: QueueWire
    consume_time_stamp: I64 = 0
    consume_time_stamp_str: str | None = None
    delay_time: I64 = 0
    max_time_stamp: I64 = 0
    max_time_stamp_str: str | None = None
    min_time_stamp: I64 = 0
    min_time_stamp_str: str | None = None


class _SpansWire(Wire):
    consume_time_span_set: list[_SpanWire] | None = None


_decoder = decoder(_SpansWire)


def encoding_time_spans(spans: Iterable[ConsumeTimeSpan]) -> Steps[bytes]:
    """The answer to 303, in steps: a topic may have very many queues."""
    body = LongBody()
    body.write(b'{"consumeTimeSpanSet":[')
    comma = b""
    for span in spans:
        body.write(comma + _encode_span(span))
        comma = b","
        yield
    body.write(b"]}")
    return (yield from body.joining())


def _encode_span(span: ConsumeTimeSpan) -> bytes:
    return encode(
        _SpanWire(
            QueueWire(span.queue.broker_name, span.queue.queue_id, span.queue.topic),
            span.consume_ms,
            span.consume_text,
            span.delay_ms,
            span.max_ms,
            span.max_text,
            span.min_ms,
            span.min_text,
        )
    )


def decode_time_spans(data: bytes) -> list[ConsumeTimeSpan]:
    return [
        ConsumeTimeSpan(
            MessageQueue(
                wire.message_queue.topic, wire.message_queue.broker_name, wire.message_queue.queue_id
            ),
            wire.min_time_stamp,
            wire.max_time_stamp,
            wire.consume_time_stamp,
            wire.delay_time,
            wire.min_time_stamp_str or "",
            wire.max_time_stamp_str or "",
            wire.consume_time_stamp_str or "",
        )
        for wire in load_as(_decoder, data).consume_time_span_set or ()
    ]
