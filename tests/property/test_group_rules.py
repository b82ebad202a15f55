"""The rules of a group as a model: whatever dies, lags, is cut off or comes back, no confirmed message is lost.

Real are the rules (`group.state`, `group.in_sync`, `group.epochs`); etcd is one record that changes by version, the
network delivers acknowledgements late or never, logs are lists. What members do with the rules is what
`broker/group/decisions.py` and `leadership.py` do.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rocketeer.group.epochs import begun, common_end, within
from rocketeer.group.in_sync import InSyncCount
from rocketeer.group.state import (
    GroupState,
    Leader,
    LiveMember,
    MemberIdentity,
    NextStep,
    created,
    elected,
    grown,
    kept,
    next_step,
    shrunk,
)

MEMBERS = (1, 2, 3)
MIN_IN_SYNC = 2
members = st.sampled_from(MEMBERS)
leaders = st.integers(0, 1)


@dataclass
class Leading:
    """What a leader knows; it may have been deposed long ago."""

    state: GroupState
    count: InSyncCount
    wanted: GroupState | None = None


@dataclass
class Member:
    number: int
    boot: int = 0
    session: int = 0
    alive: bool = True
    log: list[int] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    seen: int = 0
    """The highest epoch, durable."""
    follows: tuple[int, str] | None = None
    """Epoch and session of the leader it takes messages from."""
    leading: Leading | None = None
    view: tuple[GroupState | None, dict[int, LiveMember]] | None = None
    """What it read in etcd last; it acts on that."""

    @property
    def me(self) -> MemberIdentity:
        return MemberIdentity(
            self.number, f"store{self.number}:boot{self.boot}", f"{self.number}.{self.session}"
        )


class GroupRules(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.members = {number: Member(number) for number in MEMBERS}
        self.record: GroupState | None = None
        self.live: dict[int, LiveMember] = {}
        self.confirmed: list[int] = []
        self.items = 0
        self.acks: list[tuple[str, int, int]] = []
        """(leader's session, member, log end), on their way."""
        self.unanswered: list[tuple[GroupState, GroupState]] = []
        """Transactions that nobody heard of any more: read, wanted."""

        for number in MEMBERS:
            self.renew_seat(number)
        self.read(1)
        self.act(1)
        for number in MEMBERS[1:]:
            self.catch_up(number)
            self.change_set(1, number)

    # --- what usually happens in a row ---------------------------------------------------------

    @rule(number=members)
    def catch_up(self, number: int) -> None:
        self.read(number)
        self.connect(number)
        self.copy(number, 1_000)
        while self.acks and self.acks[-1][1] == number:
            self._deliver(len(self.acks) - 1)

    @rule(which=leaders, other=members)
    def a_leader_changes_its_set(self, which: int, other: int) -> None:
        for number in self._one_that_leads(which):
            self.change_set(number, other)

    @rule(which=leaders, other=members)
    def a_leader_begins_a_change(self, which: int, other: int) -> None:
        for number in self._one_that_leads(which):
            self.begin_change(number, other)

    @rule(which=leaders)
    def a_change_is_made(self, which: int) -> None:
        for number in self._one_that_leads(which):
            self.commit_change(number)

    @rule(which=leaders)
    def a_leader_looks(self, which: int) -> None:
        for number in self._one_that_leads(which):
            self.settle(number)

    @rule(which=leaders, many=st.integers(1, 3))
    def messages_are_sent(self, which: int, many: int) -> None:
        for number in self._one_that_leads(which):
            self.send(number, many)

    def _one_that_leads(self, which: int) -> list[int]:
        leading = [number for number, member in self.members.items() if member.leading is not None]
        return [leading[which % len(leading)]] if leading else []

    def change_set(self, number: int, other: int) -> None:
        self.begin_change(number, other)
        self.commit_change(number)
        self.settle(number)

    @rule(which=leaders, many=st.integers(1, 3), without=st.sampled_from((0, 0, *MEMBERS)))
    def messages_travel(self, which: int, many: int, without: int) -> None:
        """They reach those that follow, but for one."""
        for leader in self._one_that_leads(which):
            self.send(leader, many)
            session = self.members[leader].me.session
            for number, member in self.members.items():
                if number != without and member.follows is not None and member.follows[1] == session:
                    self.copy(number, 1_000)
            while self.acks and self.acks[-1][0] == session:
                self._deliver(len(self.acks) - 1)

    @rule(other=members, is_made=st.booleans())
    def a_change_takes_its_time(self, other: int, is_made: bool) -> None:
        """Messages travel while nobody knows which set holds, but not to the member it is about."""
        for leader in self._one_that_leads(0):
            self.begin_change(leader, other)
            if is_made:
                self.commit_change(leader)
            self.messages_travel(0, 1, other)

    @rule(other=members)
    def a_change_arrives_late(self, other: int) -> None:
        """The leader has given it up, and messages travel, but not to the member it is about."""
        for leader in self._one_that_leads(0):
            self.begin_change(leader, other)
            self.settle(leader)
            self.messages_travel(0, 1, other)
            while self.unanswered:
                self._change(*self.unanswered.pop())

    @rule(number=members)
    def come_back(self, number: int) -> None:
        self.start(number)
        self.renew_seat(number)
        self.catch_up(number)
        for leader in self._one_that_leads(0):
            self.settle(leader)
        for leader in self._one_that_leads(0):
            if number not in self.members[leader].leading.count.in_sync:  # type: ignore[union-attr]
                self.change_set(leader, number)

    @rule(number=members)
    def take_over(self, number: int) -> None:
        if self.record is not None:
            self.lose_seat(self.record.leader.member)
        self.renew_seat(number)
        self.read(number)
        self.act(number)

    # --- etcd ----------------------------------------------------------------------------------

    @rule(number=members)
    def renew_seat(self, number: int) -> None:
        member = self.members[number]
        if member.alive:
            self.live[number] = LiveMember(member.me.session, member.me.incarnation, "", "")

    @rule(number=members)
    def lose_seat(self, number: int) -> None:
        """Paused, cut off from etcd, or dead."""
        self.live.pop(number, None)

    @rule(number=members)
    def read(self, number: int) -> None:
        member = self.members[number]
        if not member.alive:
            return
        member.view = (self.record, dict(self.live))
        if self.record is not None:
            member.seen = max(member.seen, self.record.epoch)

    def _change(self, read: GroupState | None, wanted: GroupState) -> bool:
        """A transaction on what was read."""
        if (self.record.version if self.record else 0) != (read.version if read else 0):
            return False
        self.record = wanted
        return True

    # --- elections -----------------------------------------------------------------------------

    @rule(number=members)
    def act(self, number: int) -> None:
        member = self.members[number]
        if not member.alive or member.view is None or member.leading is not None:
            return
        state, live = member.view
        decided = next_step(state, live, member.me)
        if decided is NextStep.CREATE:
            first = created("g", member.me)
            if self._change(None, first):
                self._lead(member, first)
        elif decided is NextStep.ELECT:
            assert state is not None
            member.follows = None  # before the transaction
            wanted = elected(state, live, member.me)
            if self._change(state, wanted):
                self._lead(member, wanted)

    def _lead(self, member: Member, state: GroupState) -> None:
        member.seen = max(member.seen, state.epoch)
        member.follows = None
        member.epochs = begun(member.epochs or [(0, 0)], state.epoch, len(member.log))
        known = min(len(self.confirmed), len(member.log))
        count = InSyncCount(member.number, state.in_sync, min_in_sync=MIN_IN_SYNC, confirmed=0)
        member.leading = Leading(state, count)
        self._has(member, member.number, len(member.log))
        assert known == len(self.confirmed), "a leader without what was confirmed"

    # --- messages ------------------------------------------------------------------------------

    def send(self, number: int, many: int) -> None:
        """Also at a leader of the past: it does not know yet."""
        member = self.members[number]
        if not member.alive or member.leading is None or not member.leading.count.is_enough:
            return
        for _ in range(many):
            self.items += 1
            member.log.append(self.items)
        self._has(member, number, len(member.log))

    @rule(number=members)
    def connect(self, number: int) -> None:
        """To whom the member takes for the leader; a log that parted is cut first."""
        member = self.members[number]
        if not member.alive or member.leading is not None or member.view is None or member.view[0] is None:
            return
        state = member.view[0]
        leader = self.members[state.leader.member]
        if not leader.alive or leader.leading is None or leader.me.session != state.leader.session:
            return
        if leader.leading.state.epoch != state.epoch or state.epoch < member.seen:
            return
        start = (
            0
            if not member.log
            else common_end(leader.epochs, len(leader.log), member.epochs, len(member.log))
        )
        if start < 0:
            return
        del member.log[start:]
        member.epochs = list(leader.epochs)
        member.follows = (state.epoch, state.leader.session)

    @rule(number=members, many=st.integers(1, 3))
    def copy(self, number: int, many: int) -> None:
        member = self.members[number]
        if not member.alive or member.follows is None:
            return
        epoch, session = member.follows
        leader = next((each for each in self.members.values() if each.me.session == session), None)
        if leader is None or leader.leading is None or not leader.alive or epoch < member.seen:
            return
        member.log += leader.log[len(member.log) : len(member.log) + many]
        self.acks.append((session, number, len(member.log)))

    @precondition(lambda self: self.acks)
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        """Acknowledgements of one connection come in their order, others when they like, some never."""
        self._deliver(data.draw(st.integers(0, len(self.acks) - 1)))

    def _deliver(self, place: int) -> None:
        session, number, end = self.acks.pop(place)
        leader = next((each for each in self.members.values() if each.me.session == session), None)
        if leader is not None and leader.alive and leader.leading is not None:
            known = leader.leading.count.end_of(number)
            self._has(leader, number, max(end, known))

    def _has(self, leader: Member, number: int, end: int) -> None:
        assert leader.leading is not None
        leader.leading.count.note_progress(number, end)
        self._note_confirmed(leader)

    def _note_confirmed(self, leader: Member) -> None:
        assert leader.leading is not None
        count = leader.leading.count.confirmed
        told = leader.log[:count]
        common = min(count, len(self.confirmed))
        assert told[:common] == self.confirmed[:common], "two leaders confirmed different messages"
        if count > len(self.confirmed):
            self.confirmed = told

    # --- the set -------------------------------------------------------------------------------

    def begin_change(self, number: int, other: int) -> None:
        leading = self.members[number].leading
        if leading is None or leading.wanted is not None or other == number:
            return
        state, member = leading.state, self.members[other]
        if other in state.in_sync and state.in_sync[other] == member.me.incarnation:
            leading.wanted = shrunk(state, other)
        elif other in state.in_sync:
            leading.wanted = shrunk(state, other)  # another life of it: out first
        elif member.follows == (state.epoch, self.members[number].me.session):
            if leading.count.end_of(other) < leading.count.confirmed:
                return
            leading.wanted = grown(state, other, member.me.incarnation)
        else:
            return
        leading.count.begin_change(leading.wanted.in_sync)

    def commit_change(self, number: int) -> None:
        """The answer may be lost: `settle` finds out. The leader may be dead by now."""
        leading = self.members[number].leading
        if leading is not None and leading.wanted is not None:
            self._change(leading.state, leading.wanted)

    def settle(self, number: int) -> None:
        member = self.members[number]
        leading = member.leading
        if not member.alive or leading is None or self.record is None:
            return
        if (
            self.record.leader != Leader(number, member.me.session)
            or self.record.epoch != leading.state.epoch
        ):
            leading.count.close()
            member.leading = None
            member.view = None
            return
        if leading.wanted is not None and self.record.version == leading.state.version:
            self.unanswered.append((leading.state, leading.wanted))
            self.record = kept(self.record)
        leading.state, leading.wanted = self.record, None
        leading.count.settle_change(self.record.in_sync)
        self._note_confirmed(member)

    @precondition(lambda self: self.unanswered)
    @rule(data=st.data())
    def a_transaction_arrives_late(self, data: st.DataObject) -> None:
        self._change(*self.unanswered.pop(data.draw(st.integers(0, len(self.unanswered) - 1))))

    # --- trouble -------------------------------------------------------------------------------

    @rule(number=members)
    def kill(self, number: int) -> None:
        member = self.members[number]
        member.alive, member.leading, member.follows, member.view = False, None, None, None
        member.session += 1

    @rule(number=members, lost=st.integers(0, 4))
    def cut_power(self, number: int, lost: int) -> None:
        """What was not on disk is gone, and the machine comes back as another incarnation."""
        self.kill(number)
        member = self.members[number]
        del member.log[max(0, len(member.log) - lost) :]
        member.epochs = within(member.epochs, len(member.log))
        member.boot += 1

    @rule(number=members)
    def start(self, number: int) -> None:
        self.members[number].alive = True

    # --- what must hold ------------------------------------------------------------------------

    @invariant()
    def every_member_in_sync_has_what_was_confirmed(self) -> None:
        if self.record is None:
            return
        for number, incarnation in self.record.in_sync.items():
            member = self.members[number]
            if member.me.incarnation == incarnation:
                assert member.log[: len(self.confirmed)] == self.confirmed, (number, member.log)

    @invariant()
    def epochs_have_one_leader(self) -> None:
        leaders = [each.leading.state.epoch for each in self.members.values() if each.leading is not None]
        assert len(leaders) == len(set(leaders))


TestGroupRules = GroupRules.TestCase
TestGroupRules.settings = settings(deadline=None, max_examples=150, stateful_step_count=40)
