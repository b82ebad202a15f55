"""The rules of a group's record."""

import pytest

from rocketeer.errors import GroupError
from rocketeer.group.state import (
    GroupState,
    LiveMember,
    MemberIdentity,
    NextStep,
    created,
    decode_state,
    elected,
    encode_state,
    grown,
    handed_over,
    lost,
    next_step,
    recovered,
    shrunk,
)

ONE, TWO, THREE = (MemberIdentity(number, f"store{number}", f"session{number}") for number in (1, 2, 3))


def peer(me: MemberIdentity) -> LiveMember:
    return LiveMember(me.session, me.incarnation, f"host{me.member}:10911", f"host{me.member}:10913")


def live(*members: MemberIdentity) -> dict[int, LiveMember]:
    return {me.member: peer(me) for me in members}


@pytest.fixture
def state() -> GroupState:
    return grown(grown(created("g", ONE), 2, TWO.incarnation), 3, THREE.incarnation)


def test_a_record_is_the_same_after_etcd(state: GroupState) -> None:
    assert decode_state(encode_state(state)) == state


def test_a_record_that_cannot_be_understood_is_an_error() -> None:
    with pytest.raises(GroupError, match="cannot be understood"):
        decode_state(b"{}")


def test_every_change_raises_the_version_and_only_elections_the_epoch(state: GroupState) -> None:
    assert (state.epoch, state.version) == (1, 3)
    assert (shrunk(state, 2).epoch, shrunk(state, 2).version) == (1, 4)
    assert elected(state, live(TWO), TWO).epoch == 2
    assert handed_over(state, 3, peer(THREE)).epoch == 2


def test_who_is_not_in_sync_follows_or_waits_and_never_stands(state: GroupState) -> None:
    without = shrunk(state, 3)
    assert next_step(without, live(ONE, THREE), THREE) is NextStep.FOLLOW
    assert next_step(without, live(THREE), THREE) is NextStep.WAIT
    assert next_step(without, live(TWO, THREE), TWO) is NextStep.ELECT
    with pytest.raises(GroupError, match="not in sync"):
        elected(without, live(THREE), THREE)


def test_another_incarnation_of_a_member_is_not_in_sync(state: GroupState) -> None:
    after_power_loss = MemberIdentity(2, "store2/another boot", "session9")
    assert next_step(state, live(after_power_loss), after_power_loss) is NextStep.WAIT
    with pytest.raises(GroupError):
        elected(state, live(after_power_loss), after_power_loss)


def test_a_leader_that_was_started_again_is_not_the_leader(state: GroupState) -> None:
    again = MemberIdentity(1, ONE.incarnation, "session of another process")
    assert next_step(state, live(again, TWO), again) is NextStep.ELECT
    assert next_step(state, live(again, TWO), TWO) is NextStep.ELECT
    assert next_step(state, live(ONE), ONE) is NextStep.LEAD


def test_nobody_stands_who_has_lost_its_seat(state: GroupState) -> None:
    assert next_step(state, {}, TWO) is NextStep.WAIT


def test_an_election_leaves_those_out_who_are_not_alive(state: GroupState) -> None:
    assert elected(state, live(TWO, THREE), TWO).in_sync.keys() == {2, 3}
    assert elected(state, live(TWO), TWO).in_sync.keys() == {2}


def test_the_leader_stays_in_the_set_it_leads(state: GroupState) -> None:
    with pytest.raises(GroupError):
        shrunk(state, 1)


def test_only_a_person_can_let_lead_who_was_not_in_sync(state: GroupState) -> None:
    stranger = MemberIdentity(4, "store4", "session4")
    assert lost(state, live(stranger))
    assert not lost(state, live(stranger, THREE))
    assert recovered(state, stranger).in_sync == {4: "store4"}
