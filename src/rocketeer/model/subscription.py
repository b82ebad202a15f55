"""What a consumer group reads of a topic; sent in heartbeats and pulls, matched in `filter`."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from rocketeer.errors import RocketeerError

SUB_ALL: Final = "*"
TAG: Final = "TAG"
SQL92: Final = "SQL92"


class BadTagExpression(RocketeerError, ValueError):
    """A tag expression that names no tag."""


class ConsumeType(StrEnum):
    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"


class MessageModel(StrEnum):
    """Whether every member of a group gets each message, or one member does."""

    BROADCASTING = "BROADCASTING"
    """Every member gets each message."""
    CLUSTERING = "CLUSTERING"
    """One member gets each message."""


class ConsumeFromWhere(StrEnum):
    """Where a group begins that has no offset of a queue yet."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    """With what comes from now on; where nothing of the queue was deleted yet, with its first message."""
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = (
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    )
    """An old name of CONSUME_FROM_LAST_OFFSET."""
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    """An old name of CONSUME_FROM_LAST_OFFSET, whatever it says: RocketMQ's clients do so, too."""
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    """An old name of CONSUME_FROM_LAST_OFFSET."""
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    """With the oldest message that is there."""
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
    """With what was stored since `consume_timestamp`."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """An expression over one topic. `codes` are the tags' hashes (`filter.tags.tag_subscription` makes both).

    `version` is the millisecond it was made; the newest of a group wins.
    """

    topic: str
    expression: str = SUB_ALL
    kind: str = TAG
    tags: frozenset[str] = frozenset()
    codes: frozenset[int] = frozenset()
    version: int = 0
    class_filter: bool = False
    text_bytes: int = field(default=0, compare=False)
    """What its texts take in memory; counted for those that strangers tell."""


def parse_tags(expression: str | None) -> frozenset[str]:
    """The tags of `a || b`; none for everything (`*`, empty).

    >>> sorted(parse_tags("paid || sent"))
    ['paid', 'sent']
    >>> parse_tags("*")
    frozenset()
    """
    if not expression or expression == SUB_ALL:
        return frozenset()
    parts = expression.split("||")
    if not any(parts):
        raise BadTagExpression(f"tag expression {expression!r} has no tag: write TagA || TagB, or *")
    return frozenset(tag for part in parts if (tag := part.strip()))
