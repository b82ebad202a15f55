"""A broker that is a member of a group: leads or follows, as etcd's record says, and changes.

    etcd's record -> next step -> follow: copy the leader's log      `following.py`
                               -> elect:  leave the leader           a transaction
                               -> lead:   start again as master      `runs.py`

The process stays, with its ports; what it serves is started anew in each role.
"""

import asyncio
import logging
import secrets
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from rocketeer.broker.assemble import Broker
from rocketeer.broker.group.following import Following
from rocketeer.broker.group.runs import NewBroker, RoleRuns
from rocketeer.clock import Clock
from rocketeer.config import BrokerConfig, FlushMode, ServerConfig, StoreConfig
from rocketeer.errors import GroupError, RocketeerError, StoreRefused
from rocketeer.group.boot_clock import BootClock, boot_s
from rocketeer.group.etcd import Access, Etcd
from rocketeer.group.member_file import MemberFile
from rocketeer.group.members_port import MembersPort
from rocketeer.group.registry import Registry, View
from rocketeer.group.state import (
    GroupState,
    LiveMember,
    MemberIdentity,
    NextStep,
    created,
    elected,
    lost,
    next_step,
    recovered,
)
from rocketeer.model.offsets import LogOffset
from rocketeer.remoting.connection import address_text

log = logging.getLogger(__name__)

LOOK_S: Final = 0.2
CONFIRMED_S: Final = 1.0


class GroupMember:
    """Starts and stops as a `Broker` does. Belongs to the loop thread."""

    def __init__(
        self,
        broker: BrokerConfig,
        store: StoreConfig,
        server: ServerConfig,
        clock: Clock,
        *,
        config_path: Path | None = None,
        extras: Mapping[str, str] | None = None,
        boot: BootClock = boot_s,
    ) -> None:
        self._broker = broker
        self._store = store
        self._server = server
        self._boot = boot
        self._group = group = broker.group
        self._new_broker: NewBroker = lambda broker, store, make_role: Broker(
            broker, store, server, clock, config_path=config_path, extras=extras, make_role=make_role
        )
        self._etcd = Etcd(group.endpoints, Access.of(group), timeout_s=max(0.5, group.lease_s / 3))
        self._registry = Registry(self._etcd, broker.cluster_name, broker.broker_name)
        self._port = MembersPort(server.bind_host, group.port(server.listen_port), boot)
        self._file: MemberFile
        self._me: MemberIdentity
        self._runs: RoleRuns
        self._following: Following
        self._cut_at: LogOffset | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._told: dict[str, str] = {}
        self._look = asyncio.Event()
        self._left = False

    # --- from start to stop ------------------------------------------------------------------

    async def start(self) -> None:
        """Serves as a follower on return; who leads is found out then."""
        self._file = await asyncio.to_thread(MemberFile, self._store.store_path)
        flush_mode = self._store.flush_mode
        self._me = self._new_me()
        self._runs = RoleRuns(
            self._broker,
            self._store,
            self._me,
            self._file,
            registry=self._registry,
            port=self._port,
            boot=self._boot,
            new_broker=self._new_broker,
        )
        self._following = Following(
            self._group,
            self._me,
            self._file,
            self._boot,
            flushes=flush_mode is FlushMode.SYNC_FLUSH,
            must_cut=self._must_cut,
            tell=partial(self._tell, "follow"),
        )
        self._port.open()
        try:
            await self._runs.follow()
            self._rename()
        except BaseException:
            self._port.close()
            await self._etcd.close()
            raise
        self._tasks = [
            asyncio.create_task(self._keep_lease(), name="group lease"),
            asyncio.create_task(self._decide(), name="group role"),
            asyncio.create_task(self._note_confirmed(), name="group confirmed"),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._runs.save_confirmed()
        await self._following.stop()
        await self._runs.stop()
        with suppress(GroupError):
            await self._registry.leave()
        self._port.close()
        await self._etcd.close()

    async def _note_confirmed(self) -> None:
        while True:
            await asyncio.sleep(CONFIRMED_S)
            self._runs.save_confirmed()

    def _tell(self, what: str, text: str) -> None:
        """The same trouble is told once."""
        if text and text != self._told.get(what):
            log.warning("group trouble what=%s reason=%s", what, text)
        self._told[what] = text

    # --- among the live members --------------------------------------------------------------

    def _new_me(self) -> MemberIdentity:
        incarnation = self._file.incarnation(self._store.flush_mode)
        return MemberIdentity(self._group.member_id, incarnation, secrets.token_hex(8))

    def _rename(self) -> bool:
        """Whether the log was found damaged as the store opened. Then this member has a new incarnation: it is no
        longer the one that the record calls in sync, or leader."""
        me = self._new_me()
        if me.incarnation == self._me.incarnation:
            return False
        log.critical("another incarnation: the log has lost something, and is copied again")
        self._me = self._runs.me = self._following.me = me
        return True

    async def _keep_lease(self) -> None:
        pause_s = self._group.lease_s / 3
        while not self._left:
            asked_s = self._boot()
            try:
                if not await self._registry.keep():
                    await self._registry.register(self._me.member, self._live_member(), self._group.lease_s)
                if self._runs.leadership is not None:
                    self._runs.leadership.lease_renewed(asked_s)
                self._tell("lease", "")
            except GroupError as error:
                self._tell("lease", str(error))
            await asyncio.sleep(min(pause_s, 0.3) if self._registry.lease is None else pause_s)

    def _live_member(self) -> LiveMember:
        broker, port = self._broker, self._server.listen_port
        return LiveMember(
            session=self._me.session,
            incarnation=self._me.incarnation,
            address=broker.advertised_address or address_text((broker.host.strip("[]"), port)),
            group_address=address_text((broker.ha_host.strip("[]"), self._group.port(port))),
        )

    # --- what to do --------------------------------------------------------------------------

    def _must_cut(self, offset: LogOffset) -> None:
        self._cut_at = offset
        self._look.set()

    async def _decide(self) -> None:
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
        runs = self._runs
        if runs.role is not None and runs.role.store.failure is not None:
            await self._leave(runs.role.store.failure)
            return
        if self._rename():
            await self._registry.register(self._me.member, self._live_member(), self._group.lease_s)
        is_deposed = runs.leadership is not None and runs.leadership.deposed is not None
        if is_deposed or self._cut_at is not None:
            await self._become_follower()
        view = await self._registry.read()
        self._runs.account.seen(view)
        if runs.leadership is not None:  # it remembers what it changes itself
            runs.leadership.seen(view)
            await self._switch(view)
            return
        if view.state is not None:
            try:
                await asyncio.to_thread(self._file.saw, view.state)
            except GroupError:
                await self._following.stop()
                raise
        await self._act(next_step(view.state, view.live, self._me), view)

    async def _act(self, decided: NextStep, view: View) -> None:
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

    async def _create(self, view: View) -> None:
        if self._file.now.group:
            await self._following.stop()
            raise GroupError(
                f"etcd has no record of the group {self._file.now.group} that this store belongs to: it was "
                "emptied, or is another one. Restore etcd, or start this member with an empty store"
            )
        if self._registry.lease is None:
            return
        state = created(secrets.token_hex(8), self._me)
        if await self._registry.change(view, state):
            await self._become_leader(state)

    async def _follow(self, state: GroupState, peer: LiveMember) -> None:
        if self._runs.follower is None:
            await self._become_follower()
        assert self._runs.follower is not None
        await self._following.follow(state, peer, self._runs.follower)

    async def _elect(self, view: View, state: GroupState) -> None:
        """First nothing more is accepted from the old leader, then the transaction."""
        if self._following.has_promised:
            return
        await self._following.stop()
        wanted = elected(state, view.live, self._me)
        if await self._registry.change(view, wanted):
            log.warning("elected epoch=%d in_sync=%s", wanted.epoch, sorted(wanted.in_sync))
            await self._become_leader(wanted)

    async def _recover(self, view: View, state: GroupState) -> None:
        """Nobody may be elected: only a person who accepts the loss can name a leader."""
        await self._following.stop()
        if view.recovering != self._me.member or self._registry.lease is None:
            raise GroupError(
                f"no member that was in sync in epoch {state.epoch} is alive: {sorted(state.in_sync)} were. "
                "Start one of them; if they are lost for good: rocketeer group recover --accept-loss"
            )
        await self._registry.forget_request("recover")
        wanted = recovered(state, self._me)
        if await self._registry.change(view, wanted):
            log.critical("leads although messages may be lost: a person has accepted it")
            await self._become_leader(wanted)

    async def _switch(self, view: View) -> None:
        """A person wants another leader: sends are refused from here on, and answered by the next one."""
        leader, leadership, wanted = self._runs.leader, self._runs.leadership, view.wanted
        if wanted is None or leader is None or leadership is None or leadership.deposed is not None:
            return
        await self._registry.forget_request("switch")
        if wanted == self._me.member:
            return
        leader.end()
        try:
            await leadership.hand_over(view, wanted)
        except GroupError:
            leader.part.go_on()
            raise
        log.warning("handed over to=%d", wanted)
        self._look.set()

    async def _leave(self, failure: StoreRefused) -> None:
        """The disk failed: what it has is not believed any more, by this process or the next."""
        self._left = True
        log.critical("leaves its group reason=%s", failure)
        try:
            await asyncio.to_thread(self._file.distrust)
        except OSError as error:
            log.critical("the store must not be used again, and cannot be marked so error=%s", error)
        await self._following.stop()
        await self._runs.stop()
        with suppress(GroupError):
            await self._registry.leave()

    # --- roles -------------------------------------------------------------------------------

    async def _become_follower(self) -> None:
        await self._following.stop()
        cut_at, self._cut_at = self._cut_at, None
        await self._runs.follow(cut_at)

    async def _become_leader(self, state: GroupState) -> None:
        await self._following.stop()
        await self._runs.lead(state)
