"""The properties of a plain message, from the request's text to the stored bytes in one pass.

Plain: no feature claims one of its properties. Both the general and the fast path store what is made here.
"""

from collections.abc import Collection
from typing import NamedTuple

from rocketeer.model.property_names import CLUSTER, KEYS, TAGS, UNIQ_KEY, WAIT
from rocketeer.record.java_hash import tag_hash


class PlainProperties(NamedTuple):
    """`stored` is what the record gets; the rest is what the send path and dispatch ask of it."""

    stored: bytes
    wait: bool
    tag_code: int
    keys: str
    uniq_key: str | None


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
            if name == WAIT:
                wait = value.lower() == "true"
                continue
            if not value or not name:
                continue  # as it will be read
            if name == UNIQ_KEY:
                uniq_key = value
            elif name == KEYS:
                keys = value
            elif name == TAGS:
                tag_code = tag_hash(value)
            elif name in claims:
                return None
            kept.append(piece)
        kept.append(self.cluster_property)
        return PlainProperties("\x02".join(kept).encode("utf-8", "replace"), wait, tag_code, keys, uniq_key)
