"""Which records a walk over the log shows, and passing over the others: at start all that was stored is looked at.

A record is passed over when it is whole and in its place, its hosts are IPv4, it is no part of a transaction, points
to no other record, its topic and its properties are wanted by nobody, and its properties have no zero bytes. (After a
power failure those may be sectors that were never written.) Whatever else stands there is the walk's to look at.

Compiled where a C compiler was at hand; elsewhere nothing is passed over.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketeer.compiled import COMPILED
from rocketeer.model.topic import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketeer.record.layout import Buffer


@dataclass(frozen=True)
class Wanted:
    """What somebody wants to see of the log; always shown are transactions and what points to other records."""

    topics: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    """Every message of a topic whose name begins so."""
    properties: tuple[str, ...] = ()
    """Every message that has one of these properties."""

    def __or__(self, other: "Wanted") -> "Wanted":
        return Wanted(
            self.topics | other.topics,
            self.prefixes + other.prefixes,
            self.properties + other.properties,
        )

    def is_topic(self, topic: str) -> bool:
        """Messages that wait are always shown: what is derived from them is of their own kind."""
        return (
            topic in (SCHEDULE_TOPIC, TIMER_TOPIC) or topic in self.topics or topic.startswith(self.prefixes)
        )


class Skipper:
    """Passes over what nobody wants. `met` says whether one of the records passed over ends at `boundary`."""

    last_store_ms = 0
    """When the last record that was passed over was stored."""
    met = False

    def __init__(self, wanted: Wanted, boundary: int = -1) -> None:
        pass

    def take(self, buf: Buffer, at: int, base: int, stop: int) -> int:
        """Where the first record begins that is not passed over, from `at` on; at the latest where `stop` is reached.

        `base` is the log offset of the buffer's first byte.
        """
        return at


if COMPILED and not TYPE_CHECKING:
    from rocketeer.record import _skip

    Skipper = _skip.Skipper
