"""The properties of a plain message, from the request's text to the stored bytes in one pass.

Plain: no feature claims one of its properties. Both the general and the fast path store what is made here.
"""

from collections.abc import Collection

from rocketeer.model.property_names import CLUSTER
from rocketeer.record.java_hash import tag_hash

PlainProperties = tuple[bytes, bool, int, str, str | None]
"""(what is stored, whether to wait for durability, tag code, KEYS, UNIQ_KEY); a plain tuple: one a message."""


class PlainParser:
    """Drops WAIT (it is between client and broker) and adds the cluster's name, as RocketMQ does."""

    def __init__(self, cluster: str, claims: Collection[str]) -> None:
        self._claims = frozenset((*claims, CLUSTER))
        self.cluster_property = f"{CLUSTER}\x01{cluster}"

    def parse(self, text: str) -> PlainProperties | None:
        """None when a feature claims the message (or it names a cluster itself)."""
        claims = self._claims
        kept = []
        wait = True
        tag_code = 0
        keys = ""
        uniq_key = None
        for piece in text.split("\x02"):
            name, _, value = piece.partition("\x01")
            if name == "UNIQ_KEY":
                uniq_key = value or uniq_key
            elif name == "KEYS":
                keys = value or keys
            elif name == "TAGS":
                if value:
                    tag_code = tag_hash(value)
            elif name == "WAIT":
                wait = value == "true" or value.lower() == "true"
                continue
            elif name in claims:
                return None
            if value and name:  # the others are not read either
                kept.append(piece)
        kept.append(self.cluster_property)
        return "\x02".join(kept).encode("utf-8", "replace"), wait, tag_code, keys, uniq_key
