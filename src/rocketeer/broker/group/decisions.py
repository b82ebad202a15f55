"""What a member of a group does next, again and again: what etcd's record says, and who is alive, decide it.

etcd's record -> next step -> follow: copy the leader's log      `log_follower.py`
                           -> elect:  leave the leader           a transaction
                           -> lead:   start again as master      `runs.py`
"""

import asyncio
import logging
import secrets
from contextlib import suppress
from functools import partial
from typing import Final

from rocketeer.broker.group.log_follower import LogFollower
from rocketeer.broker.group.roles import RunningRole
from rocketeer.broker.group.runs import NewBroker, RoleRunner
from rocketeer.broker.group.status import ReplicaGroupStatus
from rocketeer.config import BrokerConfig, FlushMode, ServerConfig, StoreConfig
from rocketeer.errors import GroupError, RocketeerError, StoreRefused
from rocketeer.group.boot_clock import BootClock
from rocketeer.group.member_file import MemberFile, OwnIdentity
from rocketeer.group.members_port import MembersPort
from rocketeer.group.registry import GroupSnapshot, Registry
from rocketeer.group.state import (
    GroupState,
    LiveMember,
    NextStep,
    created,
    elected,
    lost,
    next_step,
    recovered,
)
from rocketeer.model.offsets import LogOffset
from rocketeer.remoting.connection import address_text
from rocketeer.threads import finish_in_thread

log = logging.getLogger(__name__)

LOOK_S: Final = 0.2
CONFIRMED_S: Final = 1.0


class MemberDecisions:
    """Decides what this member does: `begin`, then three coroutines run at the same time until they are
    cancelled, then `end`. Belongs to the loop thread."""

    def __init__(
        self,
        broker: BrokerConfig,
        store: StoreConfig,
        server: ServerConfig,
        file: MemberFile,
        *,
        registry: Registry,
        port: MembersPort,
        boot: BootClock,
        new_broker: NewBroker,
    ) -> None:
        self._broker = broker
        self._server = server
        self._group = broker.group
        self._file = file
        self._registry = registry
        self._port = port
        self._boot = boot
        self._me = OwnIdentity(file, broker.group.member_id, store.flush_mode)
        self._running = RunningRole(file)
        self._status = ReplicaGroupStatus(broker, registry=registry, clock=boot, running=self._running)
        self._runner = RoleRunner(
            broker,
            store,
            self._me,
            file,
            registry=registry,
            port=port,
            boot=boot,
            new_broker=new_broker,
            running=self._running,
            status=self._status,
        )
        self._log_follower = LogFollower(
            self._group,
            self._me,
            file,
            boot,
            flushes=store.flush_mode is FlushMode.SYNC_FLUSH,
            must_cut=self._must_cut,
            tell=partial(self._tell, "follow"),
        )
        self._cut_at: LogOffset | None = None
        self._told: dict[str, str] = {}
        self._look = asyncio.Event()
        self._left = False

    async def begin(self) -> None:
        """Start as a follower."""
        await self._runner.follow()
        self._me.renew()

    async def end(self) -> None:
        self._runner.save_confirmed()
        await self._log_follower.stop()
        await self._runner.stop()
        with suppress(GroupError):
            await self._registry.leave()

    async def note_confirmed(self) -> None:
        while True:
            await asyncio.sleep(CONFIRMED_S)
            self._runner.save_confirmed()

    def _tell(self, what: str, text: str) -> None:
        """Log a problem, unless it is the same as the last one of its kind."""
        if text and text != self._told.get(what):
            log.warning("group trouble what=%s reason=%s", what, text)
        self._told[what] = text

    # --- among the live members --------------------------------------------------------------

    async def keep_lease(self) -> None:
        pause_s = self._group.lease_s / 3
        while not self._left:
            asked_s = self._boot()
            try:
                if not await self._registry.keep():
                    await self._registry.register(
                        self._me.now.member, self._live_member(), self._group.lease_s
                    )
                if self._running.leadership is not None:
                    self._running.leadership.lease_renewed(asked_s)
                self._tell("lease", "")
            except GroupError as error:
                self._tell("lease", str(error))
            await asyncio.sleep(min(pause_s, 0.3) if self._registry.lease is None else pause_s)

    def _live_member(self) -> LiveMember:
        broker, port = self._broker, self._server.listen_port
        return LiveMember(
            session=self._me.now.session,
            incarnation=self._me.now.incarnation,
            address=broker.advertised_address or address_text((broker.host.strip("[]"), port)),
            group_address=address_text((broker.ha_host.strip("[]"), self._group.port(port))),
        )

    # --- what to do --------------------------------------------------------------------------

    def _must_cut(self, offset: LogOffset) -> None:
        self._cut_at = offset
        self._look.set()

    async def decide(self) -> None:
        while True:
            try:
                await self._decide_once()
                self._tell("role", "")
            except (RocketeerError, OSError) as error:
                self._tell("role", f"{type(error).__name__}: {error}")
            self._look.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._look.wait()

    async def _decide_once(self) -> None:
        self._port.tick()
        if self._left:
            return
        running = self._running
        if running.role is not None and running.role.store.failure is not None:
            await self._leave(running.role.store.failure)
            return
        if self._me.renew():
            await self._registry.register(self._me.now.member, self._live_member(), self._group.lease_s)
        lost_lead = running.leadership is not None and running.leadership.loss is not None
        if lost_lead or self._cut_at is not None:
            await self._become_follower()
        view = await self._registry.read()
        self._status.seen(view)
        if running.leadership is not None:  # it remembers what it changes itself
            running.leadership.seen(view)
            await self._switch(view)
            return
        if view.state is not None:
            try:
                await finish_in_thread(self._file.save_record, view.state)
            except GroupError:
                await self._log_follower.stop()
                raise
        await self._act(next_step(view.state, view.live, self._me.now), view)

    async def _act(self, decided: NextStep, view: GroupSnapshot) -> None:
        if decided is NextStep.CREATE:
            await self._create(view)
            return
        state = view.state
        assert state is not None
        if decided is NextStep.LEAD and all(epoch != state.epoch for epoch, _ in self._file.now.epochs):
            await self._become_leader(state)
        elif decided is NextStep.LEAD:  # it is over for us, and nobody came after us: an epoch is led once
            await self._elect(view, state)
        elif decided is NextStep.FOLLOW:
            await self._follow(state, view.live[state.leader.member])
        elif decided is NextStep.ELECT:
            await self._elect(view, state)
        elif lost(state, view.live):
            await self._recover(view, state)

    async def _create(self, view: GroupSnapshot) -> None:
        if self._file.now.group:
            await self._log_follower.stop()
            raise GroupError(
                f"etcd has no record of the group {self._file.now.group} that this store belongs to: it was "
                "emptied, or is another one. Restore etcd, or start this member with an empty store"
            )
        if self._registry.lease is None:
            return
        state = created(secrets.token_hex(8), self._me.now)
        if await self._registry.change(view, state):
            await self._become_leader(state)

    async def _follow(self, state: GroupState, peer: LiveMember) -> None:
        if self._running.follower is None:
            await self._become_follower()
        assert self._running.follower is not None
        await self._log_follower.follow(state, peer, self._running.follower)

    async def _elect(self, view: GroupSnapshot, state: GroupState) -> None:
        """Stop following the old leader, then try to become leader by a transaction in etcd."""
        if self._log_follower.has_promised:
            return
        await self._log_follower.stop()
        wanted = elected(state, view.live, self._me.now)
        if await self._registry.change(view, wanted):
            log.warning("elected epoch=%d in_sync=%s", wanted.epoch, sorted(wanted.in_sync))
            await self._become_leader(wanted)

    async def _recover(self, view: GroupSnapshot, state: GroupState) -> None:
        """Nobody may be elected: only a person who accepts the loss can name a leader."""
        await self._log_follower.stop()
        if view.recovering != self._me.now.member or self._registry.lease is None:
            raise GroupError(
                f"no member that was in sync in epoch {state.epoch} is alive: {sorted(state.in_sync)} were. "
                "Start one of them; if they are lost for good: rocketeer group recover --accept-loss"
            )
        await self._registry.forget_request("recover")
        wanted = recovered(state, self._me.now)
        if await self._registry.change(view, wanted):
            log.critical("leads although messages may be lost: a person has accepted it")
            await self._become_leader(wanted)

    async def _switch(self, view: GroupSnapshot) -> None:
        """A person wants another leader: sends are refused from here on, and answered by the next one."""
        leader, leadership, wanted = self._running.leader, self._running.leadership, view.wanted
        if wanted is None or leader is None or leadership is None or leadership.loss is not None:
            return
        await self._registry.forget_request("switch")
        if wanted == self._me.now.member:
            return
        leader.part.stop_sends()
        try:
            await leadership.hand_over(view, wanted)
        except GroupError:
            leader.part.resume_sends()
            raise
        log.warning("handed over to=%d", wanted)
        self._look.set()

    async def _leave(self, failure: StoreRefused) -> None:
        """The disk failed: what it has is not believed any more, by this process or the next."""
        self._left = True
        log.critical("leaves its group reason=%s", failure)
        try:
            await finish_in_thread(self._file.renew_store_id)
        except OSError as error:
            log.critical("the store must not be used again, and cannot be marked so error=%s", error)
        await self._log_follower.stop()
        await self._runner.stop()
        with suppress(GroupError):
            await self._registry.leave()

    # --- roles -------------------------------------------------------------------------------

    async def _become_follower(self) -> None:
        await self._log_follower.stop()
        cut_at, self._cut_at = self._cut_at, None
        await self._runner.follow(cut_at)

    async def _become_leader(self, state: GroupState) -> None:
        await self._log_follower.stop()
        await self._runner.lead(state)
