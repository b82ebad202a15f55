"""The properties of a plain message: from the request's text to the stored bytes in one pass.

Plain: no feature claims one of its properties. Both the general and the fast path store what is made here.
"""

from collections.abc import Callable, Collection

from rocketeer.model.property_names import CLUSTER
from rocketeer.record import speed
from rocketeer.record.speed import PlainProperties, SendFields, plain_properties

SendReader = Callable[[bytes], SendFields | None]


class PlainParser:
    """Drops WAIT (it is between client and broker) and adds the cluster's name, as RocketMQ does."""

    def __init__(self, cluster: str, claims: Collection[str]) -> None:
        self.claims = frozenset((*claims, CLUSTER))
        self.cluster_property = f"{CLUSTER}\x01{cluster}"

    def parse(self, text: str) -> PlainProperties | None:
        """None when a feature claims the message (or it names a cluster itself)."""
        return plain_properties(text, self.claims, self.cluster_property)

    def send_reader(self, general: SendReader) -> SendReader:
        """Reads a send's whole header: compiled if that is installed, `general` for all that it leaves."""
        compiled, claims, cluster_property = speed.read_send, self.claims, self.cluster_property
        if compiled is None:
            return general
        return lambda header: compiled(header, claims, cluster_property) or general(header)
