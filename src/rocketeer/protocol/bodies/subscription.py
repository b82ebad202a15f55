"""A subscription as JSON: in heartbeats (34), filter checks (46), connection lists (203)."""

from rocketeer.model.java_types import I32, I64, java
from rocketeer.model.subscription import Subscription
from rocketeer.protocol.bodies.wire import Wire


class SubscriptionWire(Wire):
    """A subscription under Java's names."""

    topic: str
    sub_string: str | None = None
    expression_type: str | None = None
    tags_set: list[str] | None = None
    code_set: list[I32] | None = None
    sub_version: I64 = 0
    class_filter: bool = java("classFilterMode", False)


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
