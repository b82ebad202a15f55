"""Which records a walk over the log shows, and passing over the others: at start all that was stored is looked at.

A record is passed over when it is whole and in its place, its hosts are IPv4, it is no part of a transaction, points
to no other record, its topic and its properties are wanted by nobody, and its properties have no zero bytes. (After a
power failure those may be sectors that were never written.) Whatever else stands there is the walk's to look at.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketeer.compiled import COMPILED
from rocketeer.model.topic import WAITING_TOPICS
from rocketeer.record.skip_plain import Skipper as Skipper


@dataclass(frozen=True)
class SkipFilter:
    """What somebody wants to see of the log; always shown are transactions and what points to other records."""

    topics: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    """Every message of a topic whose name begins so."""
    properties: tuple[str, ...] = ()
    """Every message that has one of these properties."""

    def __or__(self, other: "SkipFilter") -> "SkipFilter":
        return SkipFilter(
            self.topics | other.topics,
            self.prefixes + other.prefixes,
            self.properties + other.properties,
        )

    def is_topic(self, topic: str) -> bool:
        """Whether all messages of the topic are shown; those that wait always are."""
        return topic in WAITING_TOPICS or topic in self.topics or topic.startswith(self.prefixes)


if COMPILED and not TYPE_CHECKING:
    from rocketeer.record._skip import Skipper as Skipper
