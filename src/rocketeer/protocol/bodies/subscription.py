"""A subscription as JSON: in heartbeats (34), filter checks (46), connection lists (203)."""

from collections.abc import Iterable
from sys import getsizeof
from typing import Any, Final

import msgspec

from rocketeer.model.java_types import I32, I64, java
from rocketeer.model.subscription import Subscription
from rocketeer.protocol.bodies.wire import Wire, encode, load_request
from rocketeer.steps import Steps

SET_BYTES_MAX: Final = 64 << 10
"""More tags, or codes, than this are not read: they only say again what the expression says."""


class SubscriptionWire(Wire):
    """A subscription under Java's names."""

    topic: str
    sub_string: str | None = None
    expression_type: str | None = None
    tags_set: list[str] | None = None
    code_set: list[I32] | None = None
    sub_version: I64 = 0
    class_filter: bool = java("classFilterMode", False)


class RawSubscription(Wire):
    """The same, as a client tells it: of tags and codes there may be very many, so they are not read yet."""

    topic: str
    sub_string: str | None = None
    expression_type: str | None = None
    tags_set: msgspec.Raw = msgspec.Raw(b"null")
    code_set: msgspec.Raw = msgspec.Raw(b"null")
    sub_version: I64 = 0
    class_filter: bool = java("classFilterMode", False)


_tags_decoder: msgspec.json.Decoder[list[str] | None] = msgspec.json.Decoder(list[str] | None, strict=False)
_codes_decoder: msgspec.json.Decoder[list[int] | None] = msgspec.json.Decoder(list[I32] | None, strict=False)


def subscription_to_wire(subscription: Subscription) -> SubscriptionWire:
    return SubscriptionWire(
        subscription.topic,
        subscription.expression,
        subscription.kind,
        sorted(subscription.tags),
        sorted(subscription.codes),
        subscription.version,
        subscription.class_filter,
    )


def subscription_from_wire(wire: SubscriptionWire) -> Subscription:
    return Subscription(
        wire.topic,
        wire.sub_string if wire.sub_string is not None else "*",
        wire.expression_type or "TAG",
        frozenset(wire.tags_set or ()),
        frozenset(wire.code_set or ()),
        wire.sub_version,
        wire.class_filter,
    )


def subscription_wire(subscription: Subscription) -> RawSubscription:
    wire = subscription_to_wire(subscription)
    return RawSubscription(
        wire.topic,
        wire.sub_string,
        wire.expression_type,
        msgspec.Raw(encode(wire.tags_set)),
        msgspec.Raw(encode(wire.code_set)),
        wire.sub_version,
        wire.class_filter,
    )


def reading_subscription(wire: RawSubscription) -> Steps[Subscription]:
    """Read a subscription, in steps; raises BadBody for tags or codes that are none."""
    tags: frozenset[str] = _read(_tags_decoder, wire.tags_set)
    yield
    codes: frozenset[int] = _read(_codes_decoder, wire.code_set)
    yield
    expression = wire.sub_string if wire.sub_string is not None else "*"
    kind = wire.expression_type or "TAG"
    return Subscription(
        wire.topic,
        expression,
        kind,
        tags,
        codes,
        wire.sub_version,
        wire.class_filter,
        _bytes_of((wire.topic, expression, kind)) + _bytes_of(tags),
    )


def _bytes_of(texts: Iterable[str]) -> int:
    """Bytes of a text in memory: one strange letter makes every character take four."""
    return sum(map(getsizeof, texts))


def _read(values: msgspec.json.Decoder[Any], raw: msgspec.Raw) -> frozenset[Any]:
    data = memoryview(raw)
    if len(data) > SET_BYTES_MAX:
        return frozenset()
    return frozenset(load_request(values, bytes(data)) or ())
