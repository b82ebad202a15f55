"""A member's broker, in one role at a time: started as a follower, stopped, started as the leader.

What features promise after a restart holds after a change of role as well, for it is one. A follower whose log has
what the leader's has not stops, cuts that off and starts again.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar, cast

from rocketeer.broker.assemble import Broker, MakeRole
from rocketeer.broker.group.cut import cut_member
from rocketeer.broker.group.roles import FollowerRole, LeaderRole, RunningRole
from rocketeer.broker.group.status import ReplicaGroupStatus
from rocketeer.config import BrokerConfig, BrokerRole, FlushMode, StoreConfig
from rocketeer.errors import GroupError
from rocketeer.group.boot_clock import BootClock
from rocketeer.group.epochs import begun
from rocketeer.group.leadership import Leadership
from rocketeer.group.member_file import MemberFile, OwnIdentity
from rocketeer.group.members_port import MembersPort
from rocketeer.group.registry import Registry
from rocketeer.group.state import GroupState
from rocketeer.model.offsets import LogOffset
from rocketeer.threads import finish_in_thread

log = logging.getLogger(__name__)

AnyRole = TypeVar("AnyRole", FollowerRole, LeaderRole)
NewBroker = Callable[[BrokerConfig, StoreConfig, MakeRole], Broker]


class RoleRunner:
    """Runs this member's broker, one at a time, as follower or leader. Belongs to the loop thread."""

    def __init__(
        self,
        broker: BrokerConfig,
        store: StoreConfig,
        me: OwnIdentity,
        file: MemberFile,
        *,
        registry: Registry,
        port: MembersPort,
        boot: BootClock,
        new_broker: NewBroker,
        running: RunningRole,
        status: ReplicaGroupStatus,
    ) -> None:
        self._broker = broker
        self._store = store
        self._me = me
        self._file = file
        self._registry = registry
        self._port = port
        self._boot = boot
        self._new_broker = new_broker
        self._status = status
        self._running = running
        self._server: Broker | None = None

    async def stop(self) -> None:
        running = self._running
        if running.leader is not None:
            running.leader.part.stop_sends()
        if running.leadership is not None:
            await running.leadership.close()
        self._port.stop_leading()
        server, self._server = self._server, None
        running.end()
        if server is not None:
            await server.stop()

    async def _start(
        self, broker: BrokerConfig, store: StoreConfig, kind: Callable[..., AnyRole], confirmed: LogOffset
    ) -> AnyRole:
        make = partial(
            kind,
            confirmed=confirmed,
            was_member=bool(self._file.now.epochs),
            status=self._status,
            on_damage=self._file.save_damage,
        )
        self._server = self._new_broker(broker, store, make)
        await self._server.start()
        return cast(AnyRole, self._server.role)

    # --- following ---------------------------------------------------------------------------

    async def follow(self, cut_at: LogOffset | None = None) -> None:
        """Run as a follower; with `cut_at`, after the log was cut there."""
        self.save_confirmed()
        await self.stop()
        if cut_at is not None:
            await finish_in_thread(cut_member, self._store, self._file, cut_at)
        confirmed = self._file.load_confirmed()
        broker = replace(self._broker, broker_id=self._me.now.member)
        store = replace(self._store, broker_role=BrokerRole.SLAVE, ha_master_address=None)
        role = await self._start(broker, store, FollowerRole, confirmed)
        self._running.follow(role)
        if role.store.max_log_offset < confirmed and cut_at is None:
            log.critical(
                "the log has lost its end log_end=%d confirmed=%d", role.store.max_log_offset, confirmed
            )
            await finish_in_thread(self._file.renew_store_id)

    # --- leading -----------------------------------------------------------------------------

    async def lead(self, state: GroupState) -> None:
        """Run as the leader that the record names."""
        self.save_confirmed()
        await finish_in_thread(self._file.save_record, state)
        await self.stop()
        broker = replace(self._broker, broker_id=0)
        store = replace(self._store, broker_role=BrokerRole.ASYNC_MASTER)
        flushes = self._store.flush_mode is FlushMode.SYNC_FLUSH
        kind = partial(LeaderRole, epoch=state.epoch, flushes=flushes)
        role = await self._start(broker, store, kind, self._file.load_confirmed())
        if self._me.is_outdated:
            raise GroupError(f"the log is damaged at {self._file.now.damaged_from}: another member must lead")
        log_end = role.store.max_log_offset
        self._file.lower_confirmed(log_end)
        known = self._file.now.epochs or [(0, LogOffset(0))]  # what was there before the group is epoch 0
        epochs = begun(known, state.epoch, log_end)
        await finish_in_thread(self._file.set_epochs, epochs)
        group = self._broker.group
        leadership = Leadership(
            state,
            self._me.now,
            epochs,
            registry=self._registry,
            sent_log=role.store.log,
            clock=self._boot,
            lease_s=group.lease_s,
            lag_s_max=group.lag_ms_max / 1000,
            min_in_sync=group.min_in_sync,
            confirmed=role.confirmed,
            remember=self._file.save_record,
        )
        self._running.lead(role, leadership)
        self._port.lead(leadership, role.store.log, role.peers)
        role.part.lead(leadership)
        log.warning("leads epoch=%d log_end=%d in_sync=%s", state.epoch, log_end, sorted(state.in_sync))

    # --- what was confirmed ------------------------------------------------------------------

    def save_confirmed(self) -> None:
        """Note up to where our own log is confirmed: a later start that finds a shorter log knows that it lost
        something."""
        role = self._running.role
        if role is None:
            return
        confirmed = min(role.confirmed_now, role.store.whole_log_offset)
        if confirmed > self._file.load_confirmed():
            with suppress(OSError):  # then less is known
                self._file.save_confirmed(confirmed)
