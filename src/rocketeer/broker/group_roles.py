"""What a member adds to its broker in each role; `group_member.py` makes one for each run of the broker."""

from rocketeer.broker.feature import Feature
from rocketeer.broker.features.group.follower import FollowerPart
from rocketeer.broker.features.group.leader import LeaderPart
from rocketeer.broker.features.replication.tables import FollowedTables
from rocketeer.broker.state import BrokerState
from rocketeer.config import ServerConfig, StoreConfig
from rocketeer.store.message_store import MessageStore


class LeaderRole:
    """Filled when the broker is assembled."""

    def __init__(self, confirmed: int, *, flushes: bool) -> None:
        self.confirmed = confirmed
        self._flushes = flushes
        self.part: LeaderPart | None = None
        self.store: MessageStore

    def features(self, state: BrokerState, store: StoreConfig, server: ServerConfig) -> list[Feature]:
        assert state.confirmed is not None
        self.store = state.store
        self.part = LeaderPart(state.store, state.confirmed, flushes=self._flushes, confirmed=self.confirmed)
        return [self.part.feature()]

    @property
    def confirmed_now(self) -> int:
        return 0 if self.part is None else self.part.confirmed

    def end(self) -> None:
        if self.part is not None:
            self.part.end()


class FollowerRole:
    def __init__(self, confirmed: int) -> None:
        self.confirmed = confirmed
        self.part: FollowerPart | None = None
        self.store: MessageStore
        self._tables: FollowedTables

    def features(self, state: BrokerState, store: StoreConfig, server: ServerConfig) -> list[Feature]:
        assert state.confirmed is not None
        self.store = state.store
        state.topics.on_change.append(lambda change: state.store.forget_copied_queues())
        self.part = FollowerPart(state.store, state.confirmed, confirmed=self.confirmed)
        self._tables = FollowedTables(
            state.remoting,
            topics=state.topics,
            groups=state.groups,
            offsets=state.offsets,
            files=state.tables,
            store=state.store,
            clock=state.clock,
            own_address=state.identity.address,
        )
        return [self.part.feature(), self._tables.feature()]

    @property
    def confirmed_now(self) -> int:
        return 0 if self.part is None else self.part.confirmed

    def leader_named(self, address: str) -> None:
        self._tables.master_named(address)
