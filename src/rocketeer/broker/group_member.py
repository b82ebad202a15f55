"""A broker that is a member of a group: runs as leader or as follower, as etcd's record says, and changes.

    etcd's record -> verdict -> follow: copy the leader's log      a broker in the role of a slave
                             -> stand:  leave the leader, elect    (a transaction)
                             -> lead:   start again as master      what features promise after a restart holds

The process stays, with its ports; what it serves is started anew in each role. A follower whose log has what the
leader's has not stops, cuts that off and starts again.
"""

import asyncio
import logging
import secrets
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from rocketeer.broker.assemble import Broker
from rocketeer.broker.features.group.follower import FollowerPart
from rocketeer.broker.group_cut import cut_member
from rocketeer.broker.group_roles import FollowerRole, LeaderRole
from rocketeer.clock import Clock
from rocketeer.config import BrokerConfig, BrokerRole, FlushMode, ServerConfig, StoreConfig
from rocketeer.errors import (
    GroupError,
    PeerRefused,
    ReplicationError,
    RocketeerError,
    StoreError,
    StoreRefused,
)
from rocketeer.group.boot_clock import BootClock, boot_s
from rocketeer.group.epochs import begun, within
from rocketeer.group.etcd import Access, Etcd
from rocketeer.group.follower_link import CONNECT_S, LeaderLink, MustCut
from rocketeer.group.frames import PURPOSE, Hello, Welcome
from rocketeer.group.leadership import Leadership
from rocketeer.group.member_file import MemberFile
from rocketeer.group.members_port import MembersPort
from rocketeer.group.registry import Registry, View
from rocketeer.group.state import GroupState, Me, Seat, Verdict, created, elected, lost, recovered, verdict
from rocketeer.remoting.address import split_address
from rocketeer.remoting.connection import address_text
from rocketeer.security.peer_socket import PeerSocket

log = logging.getLogger(__name__)

LOOK_S: Final = 0.2
FOLLOW_AGAIN_S: Final = 0.2
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
        self._clock = clock
        self._config_path = config_path
        self._extras = extras
        self._boot = boot
        self._group = group = broker.group
        self._host = broker.host.strip("[]")
        access = Access(
            group.etcd_user,
            group.etcd_password_file,
            group.etcd_ca,
            group.etcd_certificate,
            group.etcd_key,
        )
        self._etcd = Etcd(group.endpoints, access, timeout_s=max(0.5, group.lease_s / 3))
        self._registry = Registry(self._etcd, broker.cluster_name, broker.broker_name)
        self._port = MembersPort(server.bind_host, group.port(server.listen_port), boot)
        self._session = secrets.token_hex(8)
        self._file: MemberFile
        self._me: Me
        self._running: Broker | None = None
        self._follower: FollowerRole | None = None
        self._leader: LeaderRole | None = None
        self._leadership: Leadership | None = None
        self._follows: tuple[int, str] | None = None
        self._following: asyncio.Task[None] | None = None
        self._promised_until_s = 0.0
        self._cut_at: int | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._told: dict[str, str] = {}
        self._look = asyncio.Event()
        self._left = False

    # --- from start to stop ------------------------------------------------------------------

    async def start(self) -> None:
        """Serves as a follower on return; who leads is found out then."""
        self._file = await asyncio.to_thread(MemberFile, self._store.store_path)
        flush = self._store.flush_mode
        self._me = Me(self._group.member_id, self._file.incarnation(flush), self._session)
        await self._port.start()
        try:
            await self._run_follower()
        except BaseException:
            await self._port.stop()
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
        self._save_confirmed()
        await self._stop_role()
        with suppress(GroupError):
            await self._registry.leave()
        await self._port.stop()
        await self._etcd.close()

    # --- etcd --------------------------------------------------------------------------------

    async def _keep_lease(self) -> None:
        pause_s = self._group.lease_s / 3
        while not self._left:
            asked_s = self._boot()
            try:
                if not await self._registry.keep():
                    await self._registry.sit(self._me.member, self._seat(), self._group.lease_s)
                if self._leadership is not None:
                    self._leadership.lease_renewed(asked_s)
                self._tell("lease", "")
            except GroupError as error:
                self._tell("lease", str(error))
            await asyncio.sleep(min(pause_s, 0.3) if self._registry.lease is None else pause_s)

    def _seat(self) -> Seat:
        group_port = self._group.port(self._server.listen_port)
        return Seat(
            session=self._me.session,
            incarnation=self._me.incarnation,
            address=self._broker.advertised_address or address_text((self._host, self._server.listen_port)),
            group_address=address_text((self._broker.ha_host.strip("[]"), group_port)),
        )

    async def _decide(self) -> None:
        while True:
            try:
                await self._decide_once()
                self._tell("role", "")
            except (RocketeerError, OSError) as error:
                self._tell("role", f"{type(error).__name__}: {error}")
            self._look.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), LOOK_S)

    async def _decide_once(self) -> None:
        self._port.tick()
        if self._left:
            return
        role = self._leader or self._follower
        if role is not None and role.store.failure is not None:
            await self._leave(role.store.failure)
            return
        leadership = self._leadership
        if leadership is not None and leadership.deposed is not None:
            await self._run_follower()
        if self._cut_at is not None:
            await self._run_follower()
        view = await self._registry.read()
        if (
            view.state is not None and self._leadership is None
        ):  # a leadership remembers what it changes itself
            try:
                await asyncio.to_thread(self._file.saw, view.state)
            except GroupError:
                await self._unfollow()
                raise
        decided = verdict(view.state, view.seats, self._me)
        if self._leadership is not None:
            self._leadership.seen(view)
            await self._switch(view)
            return
        await self._act(decided, view)

    async def _switch(self, view: View) -> None:
        """A person wants another leader: sends are refused from here on, and answered by the next one."""
        leader, leadership, wanted = self._leader, self._leadership, view.wanted
        if wanted is None or leader is None or leadership is None or leadership.deposed is not None:
            return
        await self._registry.forget_wish("switch")
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
        with suppress(OSError):
            await asyncio.to_thread(self._file.distrust)
        await self._stop_role()
        with suppress(GroupError):
            await self._registry.leave()

    async def _act(self, decided: Verdict, view: View) -> None:
        if decided is Verdict.CREATE:
            await self._create(view)
            return
        state = view.state
        assert state is not None
        if decided is Verdict.LEAD and all(epoch != state.epoch for epoch, _ in self._file.now.epochs):
            await self._run_leader(state)
        elif decided is Verdict.LEAD:  # it is over for us, and nobody came after us: an epoch is led once
            await self._stand(view, state)
        elif decided is Verdict.FOLLOW:
            seat = view.seats[state.leader.member]
            await self._follow(state, seat)
        elif decided is Verdict.STAND:
            await self._stand(view, state)
        elif lost(state, view.seats):
            await self._unfollow()
            if view.recovering == self._me.member and self._registry.lease is not None:
                await self._registry.forget_wish("recover")
                wanted = recovered(state, self._me)
                if await self._registry.change(view, wanted):
                    log.critical("leads although messages may be lost: a person has accepted it")
                    await self._run_leader(wanted)
                return
            raise GroupError(
                f"no member that was in sync in epoch {state.epoch} is alive: {sorted(state.in_sync)} were. "
                "Start one of them; if they are lost for good: rocketeer group recover --accept-loss"
            )

    async def _create(self, view: View) -> None:
        if self._file.now.group:
            await self._unfollow()
            raise GroupError(
                f"etcd has no record of the group {self._file.now.group} that this store belongs to: it was "
                "emptied, or is another one. Restore etcd, or start this member with an empty store"
            )
        if self._registry.lease is None:
            return
        state = created(secrets.token_hex(8), self._me)
        if await self._registry.change(view, state):
            await self._run_leader(state)

    async def _stand(self, view: View, state: GroupState) -> None:
        """First nothing more is accepted from the old leader, then the transaction."""
        if self._boot() < self._promised_until_s:
            return
        await self._unfollow()
        wanted = elected(state, view.seats, self._me)
        if await self._registry.change(view, wanted):
            log.warning("elected epoch=%d in_sync=%s", wanted.epoch, sorted(wanted.in_sync))
            await self._run_leader(wanted)

    # --- roles -------------------------------------------------------------------------------

    async def _stop_role(self) -> None:
        await self._unfollow()
        if self._leader is not None:
            self._leader.end()
        if self._leadership is not None:
            await self._leadership.close()
        self._port.rest()
        running, self._running = self._running, None
        self._leader = self._follower = self._leadership = None
        if running is not None:
            await running.stop()

    async def _run_follower(self) -> None:
        self._save_confirmed()
        await self._stop_role()
        cut_at, self._cut_at = self._cut_at, None
        if cut_at is not None:
            await asyncio.to_thread(cut_member, self._store, self._file, cut_at)
        role = FollowerRole(self._file.load_confirmed(), was_member=self._was_member)
        broker = replace(self._broker, broker_id=self._group.member_id)
        store = replace(self._store, broker_role=BrokerRole.SLAVE, ha_master_address=None)
        self._running = self._new_broker(broker, store, role)
        await self._running.start()
        self._follower = role

    async def _run_leader(self, state: GroupState) -> None:
        self._save_confirmed()
        await asyncio.to_thread(self._file.saw, state)
        await self._stop_role()
        role = LeaderRole(
            self._file.load_confirmed(),
            epoch=state.epoch,
            flushes=self._flushes,
            was_member=self._was_member,
        )
        broker = replace(self._broker, broker_id=0)
        store = replace(self._store, broker_role=BrokerRole.ASYNC_MASTER)
        self._running = self._new_broker(broker, store, role)
        await self._running.start()
        part = role.part
        log_end = role.store.max_log_offset
        known = self._file.now.epochs or [(0, 0)]  # what was there before the group is epoch 0
        epochs = begun(known, state.epoch, log_end)
        await asyncio.to_thread(self._file.set_epochs, epochs)
        leadership = Leadership(
            state,
            self._me,
            epochs,
            registry=self._registry,
            sent_log=role.store.log,
            clock=self._boot,
            lease_s=self._group.lease_s,
            lag_s_max=self._group.lag_ms_max / 1000,
            min_in_sync=self._group.min_in_sync,
            confirmed=role.confirmed,
            remember=self._file.saw,
        )
        self._leader, self._leadership = role, leadership
        self._port.lead(leadership, role.store.log, role.peers)
        part.lead(leadership)
        log.warning("leads epoch=%d log_end=%d in_sync=%s", state.epoch, log_end, sorted(state.in_sync))

    def _new_broker(
        self, broker: BrokerConfig, store: StoreConfig, role: FollowerRole | LeaderRole
    ) -> Broker:
        return Broker(
            broker,
            store,
            self._server,
            self._clock,
            config_path=self._config_path,
            extras=self._extras,
            group=role,
        )

    @property
    def _was_member(self) -> bool:
        return bool(self._file.now.epochs)

    @property
    def _flushes(self) -> bool:
        return self._store.flush_mode is FlushMode.SYNC_FLUSH

    # --- following ---------------------------------------------------------------------------

    async def _follow(self, state: GroupState, seat: Seat) -> None:
        follows = (state.epoch, seat.group_address)
        if self._follower is None:
            await self._run_follower()
        if self._follows == follows and self._following is not None and not self._following.done():
            return
        await self._unfollow()
        assert self._follower is not None
        self._follower.leader_named(seat.address)
        self._follows = follows
        self._following = asyncio.create_task(
            self._copy(state, seat, self._follower), name="follow the leader"
        )

    async def _unfollow(self) -> None:
        following, self._following = self._following, None
        self._follows = None
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _copy(self, state: GroupState, seat: Seat, role: FollowerRole) -> None:
        while True:
            try:
                await self._copy_once(state, seat.group_address, role)
            except MustCut as cut:
                log.warning("log must be cut leader=%d reason=%s", state.leader.member, cut)
                self._cut_at = cut.offset
                self._look.set()
                return
            except (ReplicationError, PeerRefused, StoreError, StoreRefused, OSError) as error:
                self._tell("follow", f"member {state.leader.member} at {seat.group_address}: {error}")
            await asyncio.sleep(FOLLOW_AGAIN_S)

    async def _copy_once(self, state: GroupState, address: str, role: FollowerRole) -> None:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(*split_address(address), type=socket.SOCK_STREAM)
        family, kind, protocol, _, where = found[0]
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        peer: PeerSocket = sock
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.wait_for(loop.sock_connect(sock, where), CONNECT_S)
            peer = await role.peers.greet(sock, split_address(address)[0], PURPOSE)
            end = role.store.max_log_offset
            hello = Hello(
                group=state.group,
                member=self._me.member,
                incarnation=self._me.incarnation,
                epoch=state.epoch,
                epochs=within(self._file.now.epochs, end),
                log_end=end,
            )
            link = LeaderLink(
                peer,
                role.store,
                self._boot,
                epoch=state.epoch,
                flushes=self._flushes,
                silence_s_max=self._group.lease_s,
                on_welcome=self._welcomed,
                on_beat=lambda confirmed: self._beaten(role.part, confirmed),
                is_ready=lambda: role.tables_are_whole,
            )
            await link.run(hello)
        except TimeoutError:
            raise ReplicationError(f"no connection to {address} within {CONNECT_S:g} s") from None
        finally:
            peer.close()
            sock.close()

    def _welcomed(self, welcome: Welcome) -> None:
        self._file.set_epochs(welcome.epochs)
        self._tell("follow", "")

    def _beaten(self, part: FollowerPart, confirmed: int) -> None:
        """The promise holds before the leader hears of it."""
        self._promised_until_s = self._boot() + self._group.lease_s
        part.confirm(confirmed)

    # --- what was confirmed ------------------------------------------------------------------

    async def _note_confirmed(self) -> None:
        while True:
            await asyncio.sleep(CONFIRMED_S)
            self._save_confirmed()

    def _save_confirmed(self) -> None:
        role = self._leader or self._follower
        if role is not None and role.confirmed_now > self._file.load_confirmed():
            with suppress(OSError):  # then less is known
                self._file.save_confirmed(role.confirmed_now)

    def _tell(self, what: str, text: str) -> None:
        """The same trouble is told once."""
        if text and text != self._told.get(what):
            log.warning("group trouble what=%s reason=%s", what, text)
        self._told[what] = text
