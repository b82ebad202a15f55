"""A follower's connection: to the leader of one epoch, again and again until somebody else leads.

It copies the leader's log and keeps what it promised: as long as a promise holds, this member stands for no election.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from rocketeer.broker.group.roles import FollowerRole
from rocketeer.config.group import ReplicaGroupConfig
from rocketeer.errors import PeerRefused, ReplicationError, StoreError, StoreRefused
from rocketeer.group.boot_clock import BootClock
from rocketeer.group.epochs import EPOCHS_MAX, within
from rocketeer.group.follower_link import CONNECT_S, LeaderLink, LogMustBeCut
from rocketeer.group.frames import PURPOSE, Hello, Welcome
from rocketeer.group.member_file import MemberFile, OwnIdentity
from rocketeer.group.state import GroupState, LiveMember
from rocketeer.model.offsets import LogOffset
from rocketeer.replication.stream_connection import connected

log = logging.getLogger(__name__)

AGAIN_S: Final = 0.2


class LogFollower:
    """Follows one leader at a time. Belongs to the loop thread.

    `must_cut` is called when our log has what the leader's has not, with where the two part; `tell` with what is
    in the way, "" when nothing is.
    """

    def __init__(
        self,
        group: ReplicaGroupConfig,
        me: OwnIdentity,
        file: MemberFile,
        boot: BootClock,
        *,
        flushes: bool,
        must_cut: Callable[[LogOffset], None],
        tell: Callable[[str], None],
    ) -> None:
        self._group = group
        self._me = me
        self._file = file
        self._boot = boot
        self._flushes = flushes
        self._must_cut = must_cut
        self._tell = tell
        self._leader: tuple[int, str] | None = None
        self._task: asyncio.Task[None] | None = None
        self._promised_until_s = 0.0

    @property
    def has_promised(self) -> bool:
        """Whether a promise to the present leader still keeps this member from standing for election."""
        return self._boot() < self._promised_until_s

    async def follow(self, state: GroupState, peer: LiveMember, role: FollowerRole) -> None:
        """Follow the leader that is there, unless we do."""
        leader = (state.epoch, peer.group_address)
        if self._leader == leader and self._task is not None and not self._task.done():
            return
        await self.stop()
        role.leader_named(peer.address)
        self._leader = leader
        self._task = asyncio.create_task(self._copy(state, peer, role), name="follow the leader")

    async def stop(self) -> None:
        """On return nothing more is accepted from a leader."""
        task, self._task = self._task, None
        self._leader = None
        while task is not None and not task.done():
            task.cancel()
            await asyncio.wait((task,), timeout=AGAIN_S)

    async def _copy(self, state: GroupState, peer: LiveMember, role: FollowerRole) -> None:
        while True:
            try:
                await self._copy_once(state, peer.group_address, role)
            except LogMustBeCut as cut:
                log.warning("log must be cut leader=%d reason=%s", state.leader.member, cut)
                self._must_cut(min(cut.offset, self._file.now.damaged_from))
                return
            except (ReplicationError, PeerRefused, StoreError, StoreRefused, OSError) as error:
                self._tell(f"member {state.leader.member} at {peer.group_address}: {error}")
            await asyncio.sleep(AGAIN_S)

    async def _copy_once(self, state: GroupState, address: str, role: FollowerRole) -> None:
        async with connected(address, role.peers, PURPOSE, CONNECT_S) as peer:
            end = min(role.store.max_log_offset, self._file.now.damaged_from)
            hello = Hello(
                group=state.group,
                member=self._me.now.member,
                incarnation=self._me.now.incarnation,
                epoch=state.epoch,
                epochs=within(self._file.now.epochs, end)[-EPOCHS_MAX:],
                log_end=end,
            )
            link = LeaderLink(
                peer,
                role.store,
                self._boot,
                epoch=state.epoch,
                flushes=self._flushes,
                silence_s_max=self._group.lease_s,
                on_welcome=self._welcome_came,
                on_beat=lambda confirmed: self._heartbeat_came(role, confirmed),
                is_ready=lambda: role.tables_are_whole,
            )
            await link.run(hello)

    def _welcome_came(self, welcome: Welcome) -> None:
        self._file.set_epochs(welcome.epochs)
        self._tell("")

    def _heartbeat_came(self, role: FollowerRole, confirmed: LogOffset) -> None:
        """Note the promise to the leader, which holds before the leader hears of it."""
        self._promised_until_s = self._boot() + self._group.lease_s
        role.part.confirm(confirmed)
