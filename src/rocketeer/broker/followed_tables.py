"""The tables of a broker that copies another one's: a slave's, or those of a follower in a group."""

from collections.abc import Callable
from typing import TypeVar

from rocketeer.broker.features.replication.tables import FollowedTables
from rocketeer.broker.state import BrokerState

Tables = TypeVar("Tables", bound=FollowedTables)


def followed_tables(make: Callable[..., Tables], state: BrokerState) -> Tables:
    """Made of this broker's own tables, which become the other one's."""
    state.topics.on_change.append(lambda change: state.store.forget_copied_queues())
    return make(
        state.remoting,
        topics=state.topics,
        groups=state.groups,
        offsets=state.offsets,
        files=state.tables,
        store=state.store,
        clock=state.clock,
        own_address=state.identity.address,
    )
