"""A leader's housekeeping: how long it leads, whom it lets follow, what it makes of an etcd that does not answer."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketeer.errors import EtcdUnavailable, ReplicationError
from rocketeer.group.boot_clock import boot_s
from rocketeer.group.frames import Hello
from rocketeer.group.in_sync import ConfirmOutcome
from rocketeer.group.leader_link import Follower
from rocketeer.group.leadership import Leadership
from rocketeer.group.registry import GroupSnapshot
from rocketeer.group.state import GroupState, Leader, MemberIdentity

LEASE_S = 3


class EmptyLog:
    min_offset = max_offset = 0


class Ticking:
    """A boot clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Record:
    """The group's record in an etcd that may make a change and not say so."""

    def __init__(self, state: GroupState) -> None:
        self.state: GroupState | None = state
        self.is_silent = False
        self.reads = 0

    async def read(self) -> GroupSnapshot:
        self.reads += 1
        return GroupSnapshot("etcd", 1, self.state, 1, {})

    async def change(self, view: GroupSnapshot, state: GroupState) -> bool:
        self.state = state
        if self.is_silent:
            raise EtcdUnavailable("no answer")
        return True


class Unreachable:
    """A follower's link that ends when it is written to."""

    promised_until_s = 1e9

    def __init__(self, leadership: Leadership, member: int) -> None:
        self._leadership = leadership
        self._member = member
        self.beaten = 0

    def beat(self, confirmed: int, number: int) -> None:
        self.beaten += 1
        del self._leadership.followers[self._member]


def state_of(*members: int) -> GroupState:
    return GroupState("g", 1, 1, Leader(1, "s1"), {member: f"store{member}" for member in members})


def leader_of(
    *members: int, clock: Ticking | None = None, record: Record | None = None, min_in_sync: int = 1
) -> Leadership:
    return Leadership(
        state_of(*members),
        MemberIdentity(1, "store1", "s1"),
        [(1, 0)],
        registry=cast(Any, record),
        sent_log=cast(Any, EmptyLog()),
        clock=clock or Ticking(),
        lease_s=LEASE_S,
        lag_s_max=2,
        min_in_sync=min_in_sync,
        confirmed=0,
        remember=lambda state: None,
    )


def follower_of(leadership: Leadership, member: int) -> Any:
    """A member's link that is there and says nothing."""
    link = SimpleNamespace(
        member=member,
        hello=SimpleNamespace(incarnation=f"store{member}"),
        acknowledged=0,
        heard_s=1e9,
        promised_until_s=0.0,
        beat=lambda confirmed, number: None,
        close=lambda why: None,
    )
    leadership.followers[member] = cast(Follower, link)
    return link


async def test_followers_that_are_lost_with_a_beat_keep_nobody_else_from_it() -> None:
    leadership = leader_of(1)
    followers = {member: Unreachable(leadership, member) for member in (2, 3)}
    leadership.followers = cast(Any, dict(followers))
    leadership.tick()
    assert [follower.beaten for follower in followers.values()] == [1, 1]
    assert leadership.followers == {}


async def test_a_leader_falls_when_its_lease_is_over_and_whoever_waits_hears_that_nobody_knows() -> None:
    clock = Ticking()
    leadership = leader_of(1, 2, clock=clock, min_in_sync=2)
    outcomes: list[ConfirmOutcome] = []
    leadership.count.wait(10, outcomes.append)
    leadership.lease_renewed(clock.now_s)
    clock.now_s += LEASE_S  # no look at any other clock: it may have slept meanwhile
    assert not leadership.is_valid
    leadership.tick()
    assert "neither etcd nor every in-sync member" in str(leadership.loss)
    assert outcomes == [ConfirmOutcome.UNKNOWN]


async def test_while_etcd_is_away_the_promises_of_all_in_sync_members_keep_the_lead_and_not_those_of_some() -> (
    None
):
    clock = Ticking()
    leadership = leader_of(1, 2, 3, clock=clock, record=Record(state_of(1, 2, 3)), min_in_sync=2)
    links = [follower_of(leadership, member) for member in (2, 3)]
    clock.now_s += LEASE_S
    for link in links:
        link.promised_until_s = clock.now_s + 1
    leadership.tick()
    assert leadership.loss is None
    links[1].promised_until_s = clock.now_s - 0.001
    leadership.tick()
    assert leadership.loss is not None


def is_changing(leadership: Leadership) -> bool:
    """Whether a transaction for another set is under way."""
    return leadership.count._changing is not None


async def test_a_transaction_without_an_answer_is_read_again_and_holds_if_it_was_made() -> None:
    clock, record = Ticking(), Record(state_of(1, 2, 3))
    record.is_silent = True
    leadership = leader_of(1, 2, 3, clock=clock, record=record, min_in_sync=2)
    follower_of(leadership, 2)
    leadership.tick()  # member 3 was never heard of
    clock.now_s += 2.5
    leadership.lease_renewed(clock.now_s)
    leadership.tick()
    assert is_changing(leadership)
    async with asyncio.timeout(20):
        while is_changing(leadership):  # noqa: ASYNC110 its own task changes it
            await asyncio.sleep(0.01)
    assert leadership.loss is None
    assert leadership.count.in_sync == {1, 2}
    assert record.reads == 2


class LateRecord(Record):
    """An etcd that makes a change when nobody waits for its answer any more."""

    def __init__(self, state: GroupState) -> None:
        super().__init__(state)
        self.late: tuple[GroupState, GroupState] | None = None

    async def change(self, view: GroupSnapshot, state: GroupState) -> bool:
        assert view.state is not None
        if self.late is None:
            self.late = view.state, state
            raise EtcdUnavailable("no answer")
        return self._make(view.state, state)

    def _make(self, read: GroupState, wanted: GroupState) -> bool:
        if self.state is None or self.state.version != read.version:
            return False
        self.state = wanted
        return True

    def arrive(self) -> bool:
        assert self.late is not None
        return self._make(*self.late)


async def test_a_transaction_without_an_answer_cannot_be_made_after_the_record_was_believed() -> None:
    """It would bring a member into the set that nobody waits for."""
    record = LateRecord(state_of(1, 2))
    leadership = leader_of(1, 2, record=record, min_in_sync=2)
    for member in (2, 3):
        follower_of(leadership, member)
        leadership._last_seen[member] = (0, 100.0)
    leadership.tick()  # member 3 has all there is
    assert is_changing(leadership)
    async with asyncio.timeout(20):
        while is_changing(leadership):  # noqa: ASYNC110 its own task changes it
            await asyncio.sleep(0.01)
    assert leadership.loss is None
    assert leadership.count.in_sync == {1, 2}
    assert not record.arrive(), "the record is another one by now"
    assert record.state is not None
    assert set(record.state.in_sync) == {1, 2}
    assert record.state.version == leadership.state.version


async def test_a_leader_whose_record_names_another_one_falls() -> None:
    leadership = leader_of(1, 2)
    other = GroupState("g", 2, 2, Leader(2, "s2"), {2: "store2"})
    leadership.seen(GroupSnapshot("etcd", 1, other, 2, {}))
    assert "member 2 leads epoch 2" in str(leadership.loss)


@pytest.mark.parametrize(
    ("hello", "why"),
    [
        (
            Hello(group="other", member=2, incarnation="store2", epoch=1, epochs=[], log_end=0),
            "the group other",
        ),
        (
            Hello(group="g", member=2, incarnation="store2", epoch=2, epochs=[], log_end=0),
            "leader of epoch 2",
        ),
        (
            Hello(group="g", member=2, incarnation="store2", epoch=1, epochs=[(7, 0)], log_end=9),
            "not of this",
        ),
    ],
    ids=["group", "epoch", "log"],
)
async def test_a_member_of_another_group_epoch_or_log_is_not_let_in(hello: Hello, why: str) -> None:
    leadership = leader_of(1)
    with pytest.raises(ReplicationError, match=why):
        leadership.admit(cast(Follower, SimpleNamespace()), hello)
    assert leadership.followers == {}


def test_leases_are_counted_on_a_clock_that_goes_on_while_the_machine_sleeps() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= boot_s() <= time.clock_gettime(time.CLOCK_BOOTTIME)
