"""A group of brokers that elects its leader, as one member sees it: body of 300003 (ours), JSON."""

from dataclasses import dataclass

from rocketeer.model.offsets import LogOffset
from rocketeer.protocol.bodies.wire import decoder, encode, load_as


@dataclass(frozen=True, slots=True)
class Replica:
    """One member; of one that is gone only its number is known."""

    member: int
    address: str = ""
    """Where clients reach it; empty while it is gone."""
    is_alive: bool = False
    is_leader: bool = False
    is_in_sync: bool = False
    """It has every confirmed message: it can be elected."""
    log_end: LogOffset | None = None
    """Where its log ends, as far as it has acknowledged it; only the leader knows that of others."""


@dataclass(frozen=True, slots=True)
class ReplicaGroup:
    """Who leads, who is in sync, who is alive, and how far all of it is confirmed."""

    cluster: str
    broker_name: str
    epoch: int
    version: int
    """Counts every change of the group's record."""
    leader: int
    """The member of the record; it may be gone, see `has_leader`."""
    members_meant: int
    """`groupMembers`: how many there are meant to be."""
    min_in_sync: int
    """How many members must have a message before it is acknowledged."""
    confirmed: LogOffset
    """Everything below this place of the log is with every in-sync member, as far as the one asked knows."""
    age_ms: int
    """How long ago etcd was read; it is read five times a second unless it does not answer."""
    members: tuple[Replica, ...]
    wanted: int | None = None
    """The member that was asked to lead, and does not yet."""

    @property
    def has_leader(self) -> bool:
        return any(each.is_leader for each in self.members)

    @property
    def takes_messages(self) -> bool:
        """Whether sends are acknowledged: somebody leads, and enough members are in sync."""
        return self.has_leader and sum(each.is_in_sync for each in self.members) >= self.min_in_sync

    def member(self, number: int) -> Replica | None:
        return next((each for each in self.members if each.member == number), None)


_decoder = decoder(ReplicaGroup)


def encode_replica_group(group: ReplicaGroup) -> bytes:
    return encode(group)


def decode_replica_group(body: bytes) -> ReplicaGroup:
    return load_as(_decoder, body)
