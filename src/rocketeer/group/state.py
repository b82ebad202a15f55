"""The rules of a group: its one state record, and every change that is allowed to it. Pure.

    group     a name that no other group ever had: an emptied etcd is not taken for the one before
    epoch     raised by every election; whoever has seen a higher one obeys no lower one
    version   raised by every change: a record that was set back is noticed
    leader    a member's process, by the session it registered with
    in_sync   the members that have every confirmed message, each with its incarnation

What makes it safe: a message is confirmed when *every* member of the in-sync set has it in the current epoch, and
only a member of the set can be elected. A change is made by a transaction on the revision that was read, so every
record follows from the one before it by exactly one of the functions below.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import msgspec

from rocketeer.errors import GroupError
from rocketeer.model.offsets import LogOffset


class Leader(msgspec.Struct, frozen=True):
    member: int
    session: str


class GroupState(msgspec.Struct, frozen=True):
    """The record as it stands in etcd."""

    group: str
    epoch: int
    version: int
    leader: Leader
    in_sync: dict[int, str]
    """Member id -> incarnation."""

    def has(self, member: int, incarnation: str) -> bool:
        return self.in_sync.get(member) == incarnation


class LiveMember(msgspec.Struct, frozen=True):
    """What a member that is alive says of itself in etcd, under its lease."""

    session: str
    incarnation: str
    address: str
    """Where clients reach it."""
    group_address: str
    """Where members reach it."""
    log_end: LogOffset = LogOffset(0)
    stands: bool = True
    """Nobody sets or reads this, nor `log_end`: they are only part of what is written."""


@dataclass(frozen=True)
class MemberIdentity:
    member: int
    incarnation: str
    session: str


def encode_state(state: GroupState) -> bytes:
    return msgspec.json.encode(state)


def decode_state(data: bytes) -> GroupState:
    try:
        return msgspec.json.decode(data, type=GroupState, strict=False)
    except msgspec.MsgspecError as error:
        raise GroupError(f"the group's record in etcd cannot be understood: {error}") from None


# --- what a member has to do -------------------------------------------------------------------


class NextStep(Enum):
    CREATE = "there is no record yet: make it, and lead"
    LEAD = "this process is the leader"
    FOLLOW = "the leader is alive"
    ELECT = "the leader is gone, and we may take its place"
    WAIT = "the leader is gone, and somebody else must take its place"


def next_step(state: GroupState | None, live: Mapping[int, LiveMember], me: MemberIdentity) -> NextStep:
    """What follows for a member from the record and from who is alive."""
    if state is None:
        return NextStep.CREATE
    if state.leader == Leader(me.member, me.session):
        return NextStep.LEAD
    if is_alive(state.leader, live):
        return NextStep.FOLLOW
    peer = live.get(me.member)
    is_registered = peer is not None and peer.session == me.session
    return NextStep.ELECT if is_registered and state.has(me.member, me.incarnation) else NextStep.WAIT


def is_alive(leader: Leader, live: Mapping[int, LiveMember]) -> bool:
    """A leader that was started again is another process: it stands for election as everybody does."""
    peer = live.get(leader.member)
    return peer is not None and peer.session == leader.session


def lost(state: GroupState, live: Mapping[int, LiveMember]) -> bool:
    """True when nobody who is alive may be elected: only a person can name a leader then."""
    return not any(state.has(member, peer.incarnation) for member, peer in live.items())


# --- the changes -------------------------------------------------------------------------------


def created(group: str, me: MemberIdentity) -> GroupState:
    """The first record; whoever makes it leads, with the log it has."""
    return GroupState(
        group=group,
        epoch=1,
        version=1,
        leader=Leader(me.member, me.session),
        in_sync={me.member: me.incarnation},
    )


def elected(state: GroupState, live: Mapping[int, LiveMember], me: MemberIdentity) -> GroupState:
    """`me` leads the next epoch; members that are not alive leave the set, or the next send would wait for them."""
    if not state.has(me.member, me.incarnation):
        raise GroupError(f"member {me.member} is not in sync as {me.incarnation}: it cannot lead")
    alive = {
        member: incarnation
        for member, incarnation in state.in_sync.items()
        if member == me.member or (member in live and live[member].incarnation == incarnation)
    }
    return _next(state, epoch=state.epoch + 1, leader=Leader(me.member, me.session), in_sync=alive)


def shrunk(state: GroupState, member: int) -> GroupState:
    """The state without this member in the in-sync set; only the leader asks for it."""
    if member == state.leader.member:
        raise GroupError("the leader cannot leave the set that it leads")
    return _next(state, in_sync={each: life for each, life in state.in_sync.items() if each != member})


def grown(state: GroupState, member: int, incarnation: str) -> GroupState:
    """Only the leader asks for it, and only for a member that has everything confirmed and counts already."""
    return _next(state, in_sync={**state.in_sync, member: incarnation})


def kept(state: GroupState) -> GroupState:
    """The same state with a new version, which makes any transaction still on its way fail."""
    return _next(state)


def handed_over(state: GroupState, member: int, peer: LiveMember) -> GroupState:
    """The leader itself names the next one, which is in sync; it has stopped to confirm before it asks for this."""
    if not state.has(member, peer.incarnation):
        raise GroupError(f"member {member} is not in sync: it cannot lead")
    return _next(state, epoch=state.epoch + 1, leader=Leader(member, peer.session))


def recovered(state: GroupState, me: MemberIdentity) -> GroupState:
    """A person accepts the loss of what only members had that are gone: `me` leads with the log it has."""
    return _next(
        state,
        epoch=state.epoch + 1,
        leader=Leader(me.member, me.session),
        in_sync={me.member: me.incarnation},
    )


def _next(
    state: GroupState,
    *,
    epoch: int | None = None,
    leader: Leader | None = None,
    in_sync: dict[int, str] | None = None,
) -> GroupState:
    return msgspec.structs.replace(
        state,
        epoch=state.epoch if epoch is None else epoch,
        version=state.version + 1,
        leader=state.leader if leader is None else leader,
        in_sync=state.in_sync if in_sync is None else in_sync,
    )
