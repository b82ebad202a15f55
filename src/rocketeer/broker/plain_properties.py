"""The properties of a plain message: from the request's text to the stored bytes in one pass.

Plain: no feature claims one of its properties. `engine/_properties.pyx` stores the same bytes.
"""

from collections.abc import Iterable

from rocketeer.model.property_names import CLUSTER, WAIT


class PlainParser:
    """Drops WAIT (it is between client and broker) and adds the cluster's name, as RocketMQ does."""

    def __init__(self, cluster: str, claims: Iterable[str]) -> None:
        self.claims = frozenset((*claims, CLUSTER))
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
                wait = value.lower() == "true"
                continue
            if name in self.claims:
                return None
            kept.append(piece)
        kept.append(self.cluster_property)
        return "\x02".join(kept).encode("utf-8", "replace"), wait
