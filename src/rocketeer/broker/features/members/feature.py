"""What operators ask of a group's running members through the broker: who and how far they are, what they are doing.

`connections`, `offsets` and `relay` have the handlers; here they are put together.
"""

from rocketeer.broker.clients import ClientTable
from rocketeer.broker.feature import Feature
from rocketeer.broker.features.members.connections import MemberConnections
from rocketeer.broker.features.members.offsets import MemberOffsets
from rocketeer.broker.features.members.relay import RELAY_S, MemberRelay
from rocketeer.broker.offsets import ConsumerOffsets
from rocketeer.broker.topics import TopicTable
from rocketeer.remoting.router import Connection
from rocketeer.store.message_store import MessageStore


def members_feature(
    clients: ClientTable[Connection],
    *,
    topics: TopicTable,
    offsets: ConsumerOffsets,
    store: MessageStore,
    broker_name: str,
    relay_s: float = RELAY_S,
) -> Feature:
    """`relay_s`: so long a member has to answer what is passed on to it."""
    moving = MemberOffsets(clients, topics=topics, offsets=offsets, store=store, broker_name=broker_name)
    relay = MemberRelay(clients, store, broker_name=broker_name, relay_s=relay_s)
    return Feature(
        "members",
        handlers={**MemberConnections(clients).handlers(), **moving.handlers(), **relay.handlers()},
    )
