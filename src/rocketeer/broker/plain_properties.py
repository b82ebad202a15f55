"""The properties of a message that is sent: from the request's text to what is stored, in one pass if it is plain.

Plain: no feature claims one of its properties. `engine/_properties.pyx` stores the same bytes.
"""

from collections.abc import Iterable

from rocketeer.model.property_names import CLUSTER, WAIT
from rocketeer.record.properties import decode_properties


def asks_to_wait(value: str) -> bool:
    """Whether the sender of this WAIT waits until its message is durable; Java reads a boolean so."""
    return value.lower() == "true"


class PlainParser:
    """Drops WAIT (it is between client and broker) and adds the cluster's name, as RocketMQ does; see `decode`."""

    def __init__(self, cluster: str, claims: Iterable[str]) -> None:
        self.claims = frozenset((*claims, CLUSTER))
        self._cluster = cluster
        self.cluster_property = f"{CLUSTER}\x01{cluster}"

    def parse(self, text: str) -> tuple[bytes, bool] | None:
        """What is stored, and whether to wait for durability.

        None when a feature claims the message (or it names a cluster itself).
        """
        kept = []
        wait = True
        for piece in text.split("\x02"):
            name, _, value = piece.partition("\x01")
            if not value or not name:
                continue  # nobody reads such a piece
            if name == WAIT:
                wait = asks_to_wait(value)
                continue
            if name in self.claims:
                return None
            kept.append(piece)
        kept.append(self.cluster_property)
        return "\x02".join(kept).encode("utf-8", "replace"), wait

    def decode(self, text: str) -> tuple[dict[str, str], bool]:
        """The properties by their names, for features to look at and change, and whether to wait for durability.

        WAIT is among them: RocketMQ stores it with a message that a feature has changed, such as a delayed one.
        """
        properties = decode_properties(text.encode("utf-8", "replace"))
        properties[CLUSTER] = self._cluster
        return properties, asks_to_wait(properties.get(WAIT, "true"))
