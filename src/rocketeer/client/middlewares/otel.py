"""Spans for OpenTelemetry: `pip install 'rocketeer[otel]'`.

The trace travels in the properties `traceparent` and `tracestate`, as W3C's Trace Context writes them, so programs in
other languages find it there.
"""

from typing import Any

from rocketeer.client.core.middleware import Consuming, Context, Middleware, PublishContext, Publishing
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.extras import needed


class OpenTelemetry(Middleware):
    """A span around every send and every call of a listener, the second a child of the first.

    `tracer_provider` is OpenTelemetry's own unless given. A listener that takes lists has a span of its own, linked
    with each message's.
    """

    def __init__(self, tracer_provider: Any = None) -> None:
        self._trace = needed("opentelemetry.trace", "the middleware OpenTelemetry", "otel")
        w3c = needed("opentelemetry.trace.propagation.tracecontext", "the middleware OpenTelemetry", "otel")
        self._w3c = w3c.TraceContextTextMapPropagator()
        self._tracer = self._trace.get_tracer("rocketeer", tracer_provider=tracer_provider)

    def publish(self, context: PublishContext) -> Publishing:
        topic = context.message.topic
        attributes = {
            **_about("send", topic, len(context.messages)),
            "messaging.rocketmq.client_group": context.group,
        }
        kind = self._trace.SpanKind.PRODUCER
        with self._tracer.start_as_current_span(f"send {topic}", kind=kind, attributes=attributes) as span:
            carried: dict[str, str] = {}
            self._w3c.inject(carried)
            context.add_properties(carried)
            result = yield
            if message_id := getattr(result, "message_id", None):
                span.set_attribute("messaging.message.id", message_id)
            return result

    def consume(self, context: Context) -> Consuming:
        parents = [self._w3c.extract(_carried(each)) for each in context.messages]
        attributes = {
            **_about("process", context.topic, len(context.messages)),
            "messaging.consumer.group.name": context.group,
        }
        links = []
        if len(parents) == 1:
            attributes["messaging.message.id"] = context.message.message_id
        else:
            spans = [self._trace.get_current_span(each).get_span_context() for each in parents]
            links = [self._trace.Link(each) for each in spans if each.is_valid]
        with self._tracer.start_as_current_span(
            f"process {context.topic}",
            context=parents[0] if len(parents) == 1 else None,
            kind=self._trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=links,
        ):
            return (yield)


def _about(operation: str, topic: str, count: int) -> dict[str, Any]:
    """OpenTelemetry's names for messaging."""
    about: dict[str, Any] = {
        "messaging.system": "rocketmq",
        "messaging.operation.name": operation,
        "messaging.destination.name": topic,
    }
    if count > 1:
        about["messaging.batch.message_count"] = count
    return about


def _carried(message: ReceivedMessage) -> dict[str, str]:
    properties = message.properties
    return {name: properties[name] for name in ("traceparent", "tracestate") if name in properties}
