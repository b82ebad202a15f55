"""Which member of a group consumes which queues: every member computes it alone, so all must agree.

Members in other languages compute the same from the same input: sorted queues, sorted client ids, one strategy
per group. `core.rebalance` calls a strategy and turns the difference into what to take up and what to let go.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from typing import Final, Protocol, TypeVar

from rocketeer.errors import ConfigError
from rocketeer.model.queue import MessageQueue

T = TypeVar("T")
MessageQueues = Sequence[MessageQueue]


class Strategy(Protocol):
    """Takes all queues of a topic and all members, both sorted, and says which queues are `me`'s."""

    @property
    def name(self) -> str:
        """RocketMQ's name of the strategy."""
        ...

    def __call__(self, me: str, queues: MessageQueues, clients: Sequence[str]) -> list[MessageQueue]:
        """The queues of the member `me`, of all `queues` and all members' `clients` ids."""
        ...


def checked_strategy(strategy: Strategy) -> Strategy:
    """Raise ConfigError for a strategy's name or class."""
    if (
        isinstance(strategy, type)
        or not callable(strategy)
        or not isinstance(getattr(strategy, "name", None), str)
    ):
        raise ConfigError(
            f"strategy is {strategy!r:.80}: it must be one of the strategies, as in Averagely()"
        )
    return strategy


def _share(items: Sequence[T], at: int, of: int) -> Sequence[T]:
    """The at-th of `of` neighbouring pieces; the first pieces are one longer when it does not divide."""
    base, longer = divmod(len(items), of)
    start = at * base + min(at, longer)
    return items[start : start + base + (at < longer)]


@dataclass(frozen=True, slots=True)
class Averagely:
    """Each member gets neighbouring queues, as many as any other or one more. The default."""

    name: str = "AVG"
    """RocketMQ's name of the strategy."""

    def __call__(self, me: str, queues: MessageQueues, clients: Sequence[str]) -> list[MessageQueue]:
        return list(_share(queues, clients.index(me), len(clients))) if me in clients else []


@dataclass(frozen=True, slots=True)
class AveragelyByCircle:
    """Queues are dealt out one by one, like cards: each broker's queues spread over all members."""

    name: str = "AVG_BY_CIRCLE"
    """RocketMQ's name of the strategy."""

    def __call__(self, me: str, queues: MessageQueues, clients: Sequence[str]) -> list[MessageQueue]:
        return list(queues[clients.index(me) :: len(clients)]) if me in clients else []


def _ring_hash(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


@dataclass(frozen=True, slots=True)
class ConsistentHash:
    """A queue goes to the next member on a ring of hashes: few queues move when a member comes or goes."""

    virtual_nodes: int = 10
    """On how many places of the ring each member stands."""
    name: str = "CONSISTENT_HASH"
    """RocketMQ's name of the strategy."""

    def __post_init__(self) -> None:
        if self.virtual_nodes < 1:
            raise ConfigError(f"virtual_nodes is {self.virtual_nodes}: a member needs at least one place")

    def __call__(self, me: str, queues: MessageQueues, clients: Sequence[str]) -> list[MessageQueue]:
        if me not in clients:
            return []
        ring = {
            _ring_hash(f"{client}-{number}"): client
            for client in clients
            for number in range(self.virtual_nodes)
        }
        places = sorted(ring)

        def owner(queue: MessageQueue) -> str:
            # The text Java shows a queue with: it is what Java members hash.
            shown = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
            at = bisect_left(places, _ring_hash(shown))
            return ring[places[at % len(places)]]

        return [queue for queue in queues if owner(queue) == me]


@dataclass(frozen=True, slots=True)
class ByMachineRoom:
    """Only queues of brokers named `room@broker` whose room is in `rooms`, shared among all members."""

    rooms: frozenset[str]
    name: str = "MACHINE_ROOM"
    """RocketMQ's name of the strategy."""

    def __call__(self, me: str, queues: MessageQueues, clients: Sequence[str]) -> list[MessageQueue]:
        if me not in clients:
            return []
        ours = [queue for queue in queues if self._room(queue.broker_name) in self.rooms]
        at = clients.index(me)
        base, left_over = divmod(len(ours), len(clients))
        first = at * base
        mine = ours[first : first + base]
        # Unlike in Averagely, what does not divide is dealt out from the end of the list.
        return mine + ours[base * len(clients) + at :][:1] if at < left_over else mine

    @staticmethod
    def _room(broker_name: str) -> str | None:
        room, at, broker = broker_name.partition("@")
        return room if at and broker and "@" not in broker.rstrip("@") else None


def _before_dash(text: str) -> str:
    return text.partition("-")[0]


@dataclass(frozen=True, slots=True)
class MachineRoomNearby:
    """Members consume what lies in their own room; a room without members is shared by all.

    `broker_room` and `client_room` tell the room of a broker name and of a client id; both expect names like
    `room-rest` unless others are given.
    """

    inner: Strategy = field(default_factory=Averagely)
    """Strategy that shares out the queues of one room."""
    broker_room: Callable[[str], str] = _before_dash
    client_room: Callable[[str], str] = _before_dash

    @property
    def name(self) -> str:
        """What RocketMQ calls it, with that of `inner`."""
        return f"MACHINE_ROOM_NEARBY-{self.inner.name}"

    def __call__(self, me: str, queues: MessageQueues, clients: Sequence[str]) -> list[MessageQueue]:
        if me not in clients:
            return []
        queues_in = _grouped(queues, lambda queue: self.broker_room(queue.broker_name))
        clients_in = _grouped(clients, self.client_room)
        my_room = self.client_room(me)
        mine = list(self.inner(me, queues_in.pop(my_room, []), clients_in[my_room]))
        for room in sorted(queues_in):
            if room not in clients_in:
                mine += self.inner(me, queues_in[room], clients)
        return mine


def _grouped(items: Iterable[T], room_of: Callable[[T], str]) -> dict[str, list[T]]:
    groups: dict[str, list[T]] = {}
    for item in items:
        room = room_of(item)
        if not room:
            raise ConfigError(
                f"no machine room for {item}: broker_room= and client_room= must name one for each"
            )
        groups.setdefault(room, []).append(item)
    return groups


@dataclass(frozen=True, slots=True)
class ByConfig:
    """The queues somebody wrote down for this member, whoever else is there."""

    queues: tuple[MessageQueue, ...]
    """Queues of this member."""
    name: str = "CONFIG"
    """RocketMQ's name of the strategy."""

    def __call__(self, me: str, queues: MessageQueues, clients: Sequence[str]) -> list[MessageQueue]:
        return list(self.queues)


AVERAGELY: Final = Averagely()
"""The strategy unless another is given."""
