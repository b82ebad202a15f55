"""What a member of a replica group tells about it in either role: the last look at etcd, and the leader's counts."""

from rocketeer.broker.group.roles import RunningRole
from rocketeer.config import BrokerConfig
from rocketeer.errors import GroupError
from rocketeer.group.boot_clock import BootClock
from rocketeer.group.registry import GroupSnapshot, Registry
from rocketeer.group.state import GroupState, is_alive
from rocketeer.protocol.bodies.replica_group import Replica, ReplicaGroup


class ReplicaGroupStatus:
    """What the member answers when asked about its group (300003, 300004). Belongs to the loop thread."""

    def __init__(
        self, broker: BrokerConfig, *, registry: Registry, clock: BootClock, running: RunningRole
    ) -> None:
        self._cluster = broker.cluster_name
        self._broker_name = broker.broker_name
        self._config = broker.group
        self._registry = registry
        self._clock = clock
        self._running = running
        self._view: GroupSnapshot | None = None
        self._read_s = 0.0

    def seen(self, view: GroupSnapshot) -> None:
        """Remember what was read of etcd just now."""
        self._view, self._read_s = view, self._clock()

    def describe(self) -> ReplicaGroup:
        view, state = self._known()
        leads = is_alive(state.leader, view.live)
        leadership = self._running.leadership
        confirmed, log_end = self._running.progress
        members: list[Replica] = []
        for member in sorted({*state.in_sync, *view.live}):
            peer = view.live.get(member)
            end = None
            if member == self._config.member_id:
                end = log_end
            elif leadership is not None and leadership.count.end_of(member) >= 0:
                end = leadership.count.end_of(member)
            members.append(
                Replica(
                    member,
                    address="" if peer is None else peer.address,
                    is_alive=peer is not None,
                    is_leader=leads and member == state.leader.member,
                    is_in_sync=peer is not None and state.has(member, peer.incarnation),
                    log_end=end,
                )
            )
        return ReplicaGroup(
            cluster=self._cluster,
            broker_name=self._broker_name,
            epoch=state.epoch,
            version=state.version,
            leader=state.leader.member,
            members_meant=self._config.members,
            min_in_sync=self._config.min_in_sync,
            confirmed=confirmed if leadership is None else leadership.count.confirmed,
            age_ms=int((self._clock() - self._read_s) * 1000),
            members=tuple(members),
            wanted=view.wanted,
        )

    async def switch(self, member: int) -> None:
        """Note what is wanted; the leader hands over at its next look. Whoever asks looks until it is done."""
        view = await self._registry.read()
        self.seen(view)
        state, peer = self._known()[1], view.live.get(member)
        if not is_alive(state.leader, view.live):
            raise GroupError(
                f"{self._broker_name} has no leader now that could hand over: it elects one itself"
            )
        if peer is None or not state.has(member, peer.incarnation):
            able = sorted(each for each, peer in view.live.items() if state.has(each, peer.incarnation))
            raise GroupError(
                f"member {member} of {self._broker_name} is not alive and in sync; "
                f"in sync are {', '.join(map(str, able))}"
            )
        if state.leader.member != member:
            await self._registry.request_leader("switch", member)

    def _known(self) -> tuple[GroupSnapshot, GroupState]:
        view = self._view
        if view is None:
            raise GroupError(f"this member of {self._broker_name} has not read etcd yet")
        if view.state is None:
            raise GroupError(f"etcd has no record of the group {self._broker_name}")
        return view, view.state
