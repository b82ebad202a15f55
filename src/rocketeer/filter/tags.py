"""Subscriptions by tag: making them, and matching the tag codes of consume-queue entries during a pull."""

from collections.abc import Callable
from typing import Final

from rocketeer.model.subscription import SUB_ALL, TAG, Subscription, parse_tags
from rocketeer.record.java_hash import tag_hash

# Below any 32-bit hash: the entry's code is an address in a consumequeue_ext file a Java broker wrote.
_EXT_ADDRESS_BELOW: Final = -(1 << 31)


def tag_subscription(topic: str, expression: str | None = SUB_ALL) -> Subscription:
    """A subscription to `a || b`, or to everything (`*`, empty).

    >>> sorted(tag_subscription("Orders", "TagA || TagB").codes)
    [2598919, 2598920]
    """
    tags = parse_tags(expression)
    return Subscription(
        topic=topic,
        expression=expression or SUB_ALL,
        tags=tags,
        codes=frozenset(map(tag_hash, tags)),
    )


def tag_matcher(subscription: Subscription) -> Callable[[int], bool] | None:
    """Says which tag codes to deliver; None when all. Hashes collide: consumers compare the tags again."""
    if subscription.kind != TAG or subscription.class_filter or subscription.expression == SUB_ALL:
        return None
    codes = subscription.codes

    def matches(code: int) -> bool:
        # An address says nothing of the tag: deliver, and let the consumer's own comparison decide.
        return code in codes or code < _EXT_ADDRESS_BELOW

    return matches
