"""What a member adds to its broker in each role; `runs.py` makes one for each run of the broker."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, NoReturn

from rocketeer.broker.feature import Feature, LeaderRegistration
from rocketeer.broker.features.group.follower import FollowerReplication
from rocketeer.broker.features.group.leader import LeaderReplication
from rocketeer.broker.features.group.replica_group import GroupOfReplicas, replica_group_handlers
from rocketeer.broker.features.group.shared_tables import SHARED, SharedTables
from rocketeer.broker.features.group.table_position import Position
from rocketeer.broker.features.group.table_records import SharedTableSet
from rocketeer.broker.features.replication.master import master_feature
from rocketeer.broker.followed_tables import followed_tables
from rocketeer.broker.group.tables import JoinedTables
from rocketeer.broker.locks import ChangeTrackingLocks
from rocketeer.broker.offsets import ChangeTrackingOffsets, ConsumerOffsets
from rocketeer.broker.state import BrokerState
from rocketeer.config import BrokerRole, ServerConfig, StoreConfig
from rocketeer.errors import RequestRefused
from rocketeer.group.leadership import Leadership
from rocketeer.group.member_file import MemberFile
from rocketeer.model.offsets import LogOffset
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.offsets import QueryConsumerOffsetHeader
from rocketeer.remoting.router import Connection, Handler
from rocketeer.replication.log_sender import SentLog
from rocketeer.replication.master import Master
from rocketeer.security.peer_socket import PeerSecurity
from rocketeer.store.confirmed import UNBOUNDED, ConfirmedLog
from rocketeer.store.message_store import MessageStore

LED: Final = (RequestCode.END_TRANSACTION, RequestCode.GET_PRODUCER_SEQUENCE)
"""What only a leader answers, besides changes of tables. A follower knows of producers what may yet be cut, and not
what was confirmed a moment ago: with either a producer that starts again would be stuck."""


def _shared_tables(state: BrokerState, *, was_member: bool) -> SharedTables:
    assert isinstance(state.offsets, ChangeTrackingOffsets)
    assert isinstance(state.locks, ChangeTrackingLocks)
    store = state.store
    # Without a file: who never was in a group has no record of one; else the whole log is looked at.
    position = Position(lambda: store.whole_log_offset, known_until=None if was_member else UNBOUNDED)
    return SharedTables(
        store,
        state.clock,
        state.store_host,
        SharedTableSet(state.offsets, state.locks, state.topics, state.groups),
        position=position,
    )


def _observers(state: BrokerState, store: StoreConfig, server: ServerConfig) -> Feature:
    """The HA port: slaves of either make may read along; they get what is confirmed, and never count."""
    assert state.store.confirmed is not None
    sent: SentLog = ConfirmedLog(state.store.log, state.store.confirmed)
    master = Master(store, sent, state.clock, host=server.bind_host, security=state.peers)
    state.store.confirmed.on_advanced.append(master.log_grew)
    return master_feature(master, BrokerRole.ASYNC_MASTER)


def _known_offsets(
    handler: Handler, offsets: ConsumerOffsets, is_current: Callable[[], bool] = lambda: False
) -> Handler:
    """Only a leader says that a group of consumers has no offset: another member may not have heard of it yet, and
    they would begin anew, perhaps at the end of the queue."""

    def query(command: Command, connection: Connection) -> Command | Awaitable[Command | None] | None:
        header = decode_header(QueryConsumerOffsetHeader, command.ext)
        if offsets.query(header.consumer_group, header.topic, header.queue_id) is None and not is_current():
            _refuse(command, connection)
        return handler(command, connection)

    return query


class _Role:
    """What both roles share."""

    part: LeaderReplication | FollowerReplication

    def __init__(
        self, state: BrokerState, *, was_member: bool, on_damage: Callable[[LogOffset], None]
    ) -> None:
        self.store: MessageStore = state.store
        self.peers: PeerSecurity = state.peers
        state.store.on_damage.append(on_damage)
        self._shared = _shared_tables(state, was_member=was_member)
        self._offsets = state.offsets

    @property
    def confirmed_now(self) -> LogOffset:
        return self.part.confirmed


class LeaderRole(_Role):
    part: LeaderReplication

    def __init__(
        self,
        state: BrokerState,
        store: StoreConfig,
        server: ServerConfig,
        *,
        confirmed: LogOffset,
        epoch: int,
        flushes: bool,
        was_member: bool,
        status: GroupOfReplicas,
        on_damage: Callable[[LogOffset], None],
    ) -> None:
        assert state.store.confirmed is not None
        self.confirmed = confirmed
        """The confirmed log offset at the beginning of the role."""
        self.part = part = LeaderReplication(
            state.store, state.store.confirmed, flushes=flushes, confirmed=confirmed
        )
        super().__init__(state, was_member=was_member, on_damage=on_damage)
        self.leading = LeaderRegistration(epoch, lambda: part.is_current)
        self.features = [
            part.feature(),
            self._shared.leader_feature(),
            Feature("leader", handlers=replica_group_handlers(status), overrides=(self._overrides,)),
            _observers(state, store, server),
        ]

    def _overrides(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """Requests that go through the group's log, and answers that speak of what may not be confirmed yet."""
        shared = {
            code: self._shared.handler(handlers[code], self.part.when_confirmed)
            for code in map(int, SHARED)
            if code in handlers
        }
        sequence, table = RequestCode.GET_PRODUCER_SEQUENCE, RequestCode.GET_BROKER_TABLE
        offset = RequestCode.QUERY_CONSUMER_OFFSET
        return {
            **shared,
            offset: _known_offsets(handlers[offset], self._offsets, lambda: self.part.is_current),
            sequence: self.part.confirmed_answer(handlers[sequence]),
            table: self._shared.locks_handler(handlers[table]),
        }


class FollowerRole(_Role):
    part: FollowerReplication
    leading = None

    def __init__(
        self,
        state: BrokerState,
        store: StoreConfig,
        server: ServerConfig,
        *,
        confirmed: LogOffset,
        was_member: bool,
        status: GroupOfReplicas,
        on_damage: Callable[[LogOffset], None],
    ) -> None:
        assert state.store.confirmed is not None
        self.part = FollowerReplication(state.store, state.store.confirmed, confirmed=confirmed)
        super().__init__(state, was_member=was_member, on_damage=on_damage)
        joined = partial(JoinedTables, shared=self._shared)
        self._tables: JoinedTables = followed_tables(joined, state)
        told = Feature("replica group", handlers=replica_group_handlers(status), overrides=(self._overrides,))
        self.features = [self.part.feature(), self._shared.follower_feature(), self._tables.feature(), told]

    def _overrides(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """What only a leader may serve."""
        offset = RequestCode.QUERY_CONSUMER_OFFSET
        known = _known_offsets(handlers[offset], self._offsets)
        return {**dict.fromkeys((*SHARED, *LED), _refuse), offset: known}

    @property
    def tables_are_whole(self) -> bool:
        return self._shared.position.whole

    def leader_named(self, address: str) -> None:
        self._tables.leader_named(address)


class RunningRole:
    """The role that this member's broker has now, for all to read; `RoleRunner` says when another one begins."""

    def __init__(self, file: MemberFile) -> None:
        self._file = file
        self._follower: FollowerRole | None = None
        self._leader: LeaderRole | None = None
        self._leadership: Leadership | None = None

    def follow(self, role: FollowerRole) -> None:
        """The broker runs as a follower."""
        assert self.role is None, "one role ends before the next begins"
        self._follower = role

    def lead(self, role: LeaderRole, leadership: Leadership) -> None:
        """The broker runs as the leader."""
        assert self.role is None, "one role ends before the next begins"
        self._leader, self._leadership = role, leadership

    def end(self) -> None:
        """The broker stops: it has no role until it runs again."""
        self._follower = self._leader = self._leadership = None

    @property
    def follower(self) -> FollowerRole | None:
        return self._follower

    @property
    def leader(self) -> LeaderRole | None:
        return self._leader

    @property
    def leadership(self) -> Leadership | None:
        """There is one while there is a leader."""
        return self._leadership

    @property
    def role(self) -> FollowerRole | LeaderRole | None:
        return self._leader or self._follower

    @property
    def progress(self) -> tuple[LogOffset, LogOffset]:
        """Up to where the log is known to be confirmed, and where it ends."""
        role = self.role
        if role is None:
            return self._file.load_confirmed(), LogOffset(0)
        return role.confirmed_now, role.store.max_log_offset


def _refuse(command: Command, connection: Connection) -> NoReturn:
    raise RequestRefused(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "this member does not lead its group: ask the name server who does",
    )
