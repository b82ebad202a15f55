"""What a leader does for one epoch: counts acknowledgements, changes the in-sync set, knows how long it may lead.

    log grows -> followers' links -> ACK -> InSyncCount -> sends are answered
    a member lags or is gone -> transaction without it        while it is under way both sets count
    a member has caught up   -> transaction with it

It may lead while etcd renews its lease, or while every in-sync member has promised not to stand for election: so a
group in which nothing but etcd is missing goes on.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from rocketeer.errors import EtcdUnavailable, GroupError, ReplicationError
from rocketeer.group.boot_clock import BootClock
from rocketeer.group.epochs import common_end
from rocketeer.group.frames import FrameKind, Hello, Welcome, check_sizes, frame
from rocketeer.group.in_sync import InSyncCount
from rocketeer.group.leader_link import Follower
from rocketeer.group.registry import GroupSnapshot, Registry
from rocketeer.group.state import GroupState, Leader, MemberIdentity, grown, handed_over, kept, shrunk
from rocketeer.model.offsets import LogOffset
from rocketeer.replication.log_sender import SentLog
from rocketeer.threads import finish_in_thread

log = logging.getLogger(__name__)

TICK_S: Final = 0.05
BEAT_S: Final = 0.2
AGAIN_S: Final = 0.2
HAND_OVER_S: Final = 1.0
MARGIN: Final = 0.8
"""Safety margin of a lease: no two clocks run equally fast, and a request takes its time."""


class LeadershipLost(GroupError):
    """Somebody else leads, or may: nothing more is confirmed here."""


class Leadership:
    """One epoch of one leader. Belongs to the loop thread."""

    def __init__(
        self,
        state: GroupState,
        me: MemberIdentity,
        epochs: list[tuple[int, LogOffset]],
        *,
        registry: Registry,
        sent_log: SentLog,
        clock: BootClock,
        lease_s: float,
        lag_s_max: float,
        min_in_sync: int,
        confirmed: LogOffset,
        remember: Callable[[GroupState], None],
    ) -> None:
        """`remember` makes a record durable; it blocks, and is called in a thread."""
        self.state = state
        self.epoch = state.epoch
        self.me = me
        self.epochs = epochs
        self.count = InSyncCount(
            me.member,
            state.in_sync,
            min_in_sync=min_in_sync,
            confirmed=min(confirmed, sent_log.max_offset),
            schedule=lambda run: asyncio.get_running_loop().call_soon(run),
        )
        self.followers: dict[int, Follower] = {}
        self.on_enough: list[Callable[[], None]] = []
        """Called when it changed whether enough members are in sync."""
        self._registry = registry
        self._log = sent_log
        self._clock = clock
        self._lease_s = lease_s
        self._lag_s_max = lag_s_max
        self._remember = remember
        self._beat_number = 0
        self._beats: dict[int, float] = {}
        self._beat_at_s = 0.0
        self._leased_until_s = clock() + lease_s * MARGIN
        self._last_seen: dict[int, tuple[int, float]] = {}
        self._changing: asyncio.Task[None] | None = None
        self._closed = False
        self.loss: LeadershipLost | None = None
        self._was_enough = self.count.is_enough

    # --- how long ----------------------------------------------------------------------------

    @property
    def leads_until_s(self) -> float:
        """On the boot clock: up to then nobody else can lead."""
        others = [member for member in self.count.counting if member != self.me.member]
        promised = min([self._promised(member) for member in others], default=float("inf"))
        return max(self._leased_until_s, promised)

    def _promised(self, member: int) -> float:
        follower = self.followers.get(member)
        return 0.0 if follower is None else follower.promised_until_s

    def lease_renewed(self, asked_s: float) -> None:
        """etcd has renewed our lease; we asked at this time."""
        self._leased_until_s = max(self._leased_until_s, asked_s + self._lease_s * MARGIN)

    @property
    def is_valid(self) -> bool:
        return self.loss is None and not self._closed and self._clock() < self.leads_until_s

    # --- the log -----------------------------------------------------------------------------

    def log_grew(self) -> None:
        """Wake the senders of all followers: the log has grown."""
        for follower in self.followers.values():
            follower.wake()

    def note_progress(self, end: LogOffset) -> None:
        """Record that this member itself has the log below `end` (on disk, if sends wait for that)."""
        self.count.note_progress(self.me.member, end)

    # --- members -----------------------------------------------------------------------------

    def admit(self, follower: Follower, hello: Hello) -> tuple[LogOffset, bytes]:
        """Where the member goes on, and our answer; ReplicationError when it cannot follow."""
        if self._closed or self.loss is not None:
            raise ReplicationError("this member does not lead")
        check_sizes(hello)
        if hello.group != self.state.group:
            raise ReplicationError(
                f"member {hello.member} belongs to the group {hello.group}, this is {self.state.group}"
            )
        if hello.epoch != self.epoch:
            raise ReplicationError(
                f"member {hello.member} looks for the leader of epoch {hello.epoch}, this is {self.epoch}"
            )
        low, high = self._log.min_offset, self._log.max_offset
        start = low if not hello.log_end else common_end(self.epochs, high, hello.epochs, hello.log_end)
        if start < 0:
            raise ReplicationError(
                f"the log of member {hello.member} is not of this group: start it with an empty store"
            )
        if start < low:
            raise ReplicationError(
                f"member {hello.member} has the log up to {start}, and it begins at {low} here: "
                "start it with an empty store"
            )
        follower.epoch = self.epoch
        if start < hello.log_end:
            log.info("member has to cut member=%d from=%d to=%d", hello.member, hello.log_end, start)
        else:
            before = self.followers.get(hello.member)
            if before is not None:
                before.close("it connected again")
            self.followers[hello.member] = follower
            self._last_seen[hello.member] = (high, self._clock())
            log.info("member follows member=%d from=%d end=%d", hello.member, start, high)
        welcome = Welcome(self.epochs, low, high)
        return start, frame(FrameKind.WELCOME, self.epoch, start, msgspec.json.encode(welcome))

    def acknowledged(self, follower: Follower) -> None:
        if self.followers.get(follower.member) is follower:
            self.count.note_progress(follower.member, follower.acknowledged)

    def promised(self, follower: Follower, number: int) -> None:
        sent_s = self._beats.get(number)
        if sent_s is not None:
            follower.promised_until_s = max(follower.promised_until_s, sent_s + self._lease_s * MARGIN)

    def closed(self, follower: Follower) -> None:
        if self.followers.get(follower.member) is follower:
            del self.followers[follower.member]
            self.count.forget_member(follower.member)

    # --- keeping house -----------------------------------------------------------------------

    def tick(self) -> None:
        """Beats, lagging members, members that caught up; call it every TICK_S."""
        if self._closed or self.loss is not None:
            return
        now_s = self._clock()
        if now_s >= self._beat_at_s:
            self._beat_at_s = now_s + BEAT_S
            self._beat(now_s)
        if now_s >= self.leads_until_s:
            self._lose("neither etcd nor every in-sync member renewed the lease")
            return
        if self._changing is None:
            self._change_set(now_s)
        if self.count.is_enough != self._was_enough:
            self._was_enough = self.count.is_enough
            for told in self.on_enough:
                told()

    def _beat(self, now_s: float) -> None:
        self._beat_number += 1
        self._beats[self._beat_number] = now_s
        for old in [number for number, sent_s in self._beats.items() if now_s - sent_s > self._lease_s]:
            del self._beats[old]
        for follower in list(self.followers.values()):  # one that cannot be written to goes
            follower.beat(self.count.confirmed, self._beat_number)

    def _change_set(self, now_s: float) -> None:
        for member in sorted(self.count.in_sync - {self.me.member}):
            if self._lags(member, now_s):
                self._begin(self.count.in_sync - {member})
                return
        for member, follower in self.followers.items():
            assert follower.hello is not None
            known = self.state.in_sync.get(member)
            caught_up = max(self.count.confirmed, self._last_seen[member][0])
            if known != follower.hello.incarnation and follower.acknowledged >= caught_up:
                self._begin(self.count.in_sync | {member})
                return

    def _lags(self, member: int, now_s: float) -> bool:
        """Whether it has not acknowledged for too long what was there then, or has not been heard of."""
        follower = self.followers.get(member)
        seen = self._last_seen.get(member)
        if seen is None:
            seen = self._last_seen[member] = (self._log.max_offset, now_s)
        if (
            follower is not None
            and follower.acknowledged >= seen[0]
            and now_s - follower.heard_s < self._lag_s_max
        ):
            self._last_seen[member] = (self._log.max_offset, now_s)
            return False
        return now_s - seen[1] > self._lag_s_max

    # --- transactions ------------------------------------------------------------------------

    def _begin(self, members: frozenset[int], *, is_made: bool = False) -> None:
        """`is_made`: somebody else has changed the record, and we have only to read it."""
        self.count.begin_change(members)
        self._changing = asyncio.get_running_loop().create_task(self._change(members, is_made))

    async def _change(self, members: frozenset[int], is_made: bool) -> None:
        try:
            await self._transact(members, is_made)
        except (GroupError, OSError) as error:  # a record that is not on our disk is not acted upon
            self._lose(str(error))
        finally:
            self._changing = None

    async def _transact(self, members: frozenset[int], tried: bool) -> None:
        """Try once; then read the record until it is known which set is in force, and stays so.

        What was not answered may yet be made of the record that it was asked of: that record has to go first.
        """
        asked_of: GroupState | None = None
        while not self._closed:
            try:
                view = await self._registry.read()
                state = self._ours(view)
                if asked_of is not None and state.version == asked_of.version:
                    wanted: GroupState | None = kept(state)
                else:
                    wanted = None if tried else self._wanted(state, members)
                if wanted is None:
                    await finish_in_thread(self._remember, state)
                    self._settle(state)
                    return
                tried, asked_of = True, state
                if await self._registry.change(view, wanted):
                    await finish_in_thread(self._remember, wanted)
                    self._settle(wanted)
                    return
            except EtcdUnavailable as error:
                log.warning("in-sync set not changed yet wanted=%s reason=%s", sorted(members), error)
                await asyncio.sleep(AGAIN_S)

    def _wanted(self, state: GroupState, members: frozenset[int]) -> GroupState | None:
        for member in state.in_sync.keys() - members:
            return shrunk(state, member)
        for member in sorted(members):
            follower = self.followers.get(member)
            if follower is not None and follower.hello is not None:
                incarnation = follower.hello.incarnation
                if not state.has(member, incarnation):
                    return grown(state, member, incarnation)
        return None

    def _ours(self, view: GroupSnapshot) -> GroupState:
        state = view.state
        if state is None:
            raise LeadershipLost("the group's record is gone from etcd: it was emptied. Restore it")
        if state.epoch != self.epoch or state.leader != Leader(self.me.member, self.me.session):
            raise LeadershipLost(f"member {state.leader.member} leads epoch {state.epoch}")
        return state

    def seen(self, view: GroupSnapshot) -> None:
        """What etcd says now; raises nothing, `loss` tells. A person may have taken a member out of the set."""
        try:
            state = self._ours(view)
        except LeadershipLost as error:
            self._lose(str(error))
            return
        if state.version > self.state.version and self._changing is None and self.loss is None:
            self._begin(frozenset(state.in_sync), is_made=True)

    async def hand_over(self, view: GroupSnapshot, member: int) -> None:
        """Leave the lead to another, which has everything. Nothing more is confirmed here, whatever comes of it."""
        state, peer = self._ours(view), view.live.get(member)
        if peer is None or not state.has(member, peer.incarnation):
            raise GroupError(f"member {member} is not alive and in sync: it cannot lead")
        end = self._log.max_offset
        until_s = self._clock() + HAND_OVER_S
        while self.count.end_of(member) < end or self.count.confirmed < end:
            if self._clock() > until_s or self._changing is not None:
                raise GroupError(f"member {member} does not have the whole log: it leads another time")
            await asyncio.sleep(HAND_OVER_S / 100)
        self._lose(f"member {member} shall lead")
        await self._registry.change(view, handed_over(state, member, peer))

    def _settle(self, state: GroupState) -> None:
        log.warning(
            "in-sync set epoch=%d version=%d members=%s", state.epoch, state.version, sorted(state.in_sync)
        )
        self.state = state
        self.count.settle_change(state.in_sync)

    def _lose(self, why: str) -> None:
        if self.loss is None and not self._closed:
            log.warning("leads no longer epoch=%d reason=%s", self.epoch, why)
            self.loss = LeadershipLost(why)
            self.count.close()

    async def close(self) -> None:
        self._closed = True
        if self._changing is not None:
            self._changing.cancel()
            await asyncio.gather(self._changing, return_exceptions=True)
        self.count.close()
        for follower in list(self.followers.values()):
            follower.close("this member leads no longer")
