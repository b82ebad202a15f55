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


class Seat(msgspec.Struct, frozen=True):
    """What a member that is alive says of itself in etcd, under its lease."""

    session: str
    incarnation: str
    address: str
    """Where clients reach it."""
    group_address: str
    """Where members reach it."""
    log_end: LogOffset = LogOffset(0)
    stands: bool = True
    """False while it is stopping, or its disk has failed: it leaves the lead to others."""


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


class Verdict(Enum):
    CREATE = "there is no record yet: make it, and lead"
    LEAD = "this process is the leader"
    FOLLOW = "the leader is alive"
    STAND = "the leader is gone, and we may take its place"
    WAIT = "the leader is gone, and somebody else must take its place"


def verdict(state: GroupState | None, seats: Mapping[int, Seat], me: MemberIdentity) -> Verdict:
    """What follows for a member from the record and from who is alive."""
    if state is None:
        return Verdict.CREATE
    if state.leader == Leader(me.member, me.session):
        return Verdict.LEAD
    if is_alive(state.leader, seats):
        return Verdict.FOLLOW
    seat = seats.get(me.member)
    is_registered = seat is not None and seat.session == me.session
    return Verdict.STAND if is_registered and state.has(me.member, me.incarnation) else Verdict.WAIT


def is_alive(leader: Leader, seats: Mapping[int, Seat]) -> bool:
    """A leader that was started again is another process: it stands for election as everybody does."""
    seat = seats.get(leader.member)
    return seat is not None and seat.session == leader.session


def lost(state: GroupState, seats: Mapping[int, Seat]) -> bool:
    """True when nobody who is alive may be elected: only a person can name a leader then."""
    return not any(state.has(member, seat.incarnation) for member, seat in seats.items())


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


def elected(state: GroupState, seats: Mapping[int, Seat], me: MemberIdentity) -> GroupState:
    """`me` leads the next epoch; members that are not alive leave the set, or the next send would wait for them."""
    if not state.has(me.member, me.incarnation):
        raise GroupError(f"member {me.member} is not in sync as {me.incarnation}: it cannot lead")
    alive = {
        member: incarnation
        for member, incarnation in state.in_sync.items()
        if member == me.member or (member in seats and seats[member].incarnation == incarnation)
    }
    return _next(state, epoch=state.epoch + 1, leader=Leader(me.member, me.session), in_sync=alive)


def shrunk(state: GroupState, member: int) -> GroupState:
    """Only the leader asks for it; it stays in the set itself."""
    if member == state.leader.member:
        raise GroupError("the leader cannot leave the set that it leads")
    return _next(state, in_sync={each: life for each, life in state.in_sync.items() if each != member})


def grown(state: GroupState, member: int, incarnation: str) -> GroupState:
    """Only the leader asks for it, and only for a member that has everything confirmed and counts already."""
    return _next(state, in_sync={**state.in_sync, member: incarnation})


def kept(state: GroupState) -> GroupState:
    """The same set once more. A transaction that was never answered may be on its way still: it fails after this."""
    return _next(state)


def handed_over(state: GroupState, member: int, seat: Seat) -> GroupState:
    """The leader itself names the next one, which is in sync; it has stopped to confirm before it asks for this."""
    if not state.has(member, seat.incarnation):
        raise GroupError(f"member {member} is not in sync: it cannot lead")
    return _next(state, epoch=state.epoch + 1, leader=Leader(member, seat.session))


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
