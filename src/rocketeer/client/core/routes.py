"""What a client knows of topics and brokers: filled by route plans, read by sends, pulls and heartbeats.

Threads may share a RouteCache without a lock: every entry is made whole and then put in place with one
assignment, so a reader sees the old or the new one.
"""

import itertools
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from rocketeer.errors import NoBroker
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import MASTER_ID, Route
from rocketeer.model.topic import Perm

# Routes come in the background: no draw from `random`, which the application may have seeded.
_dice = random.SystemRandom()


class BrokerAddress(NamedTuple):
    """Where to reach a broker name, and whether that is a slave."""

    address: str
    is_slave: bool


class TopicRoutes:
    """One topic: its route and the queues that follow from it."""

    __slots__ = ("guessed", "next_index", "publish", "route", "subscribe", "write_queues")

    def __init__(self, topic: str, route: Route, guessed: bool, start: int) -> None:
        self.route = route
        self.guessed = guessed
        """Made from the default topic's route: the topic itself does not exist yet."""
        self.publish = publish_queues(topic, route)
        self.subscribe = subscribe_queues(topic, route)
        self.write_queues: dict[str, int] = {}
        for queue in self.publish:
            self.write_queues[queue.broker_name] = self.write_queues.get(queue.broker_name, 0) + 1
        self.next_index: Callable[[], int] = itertools.count(start).__next__
        """The turn of the round robin; one C call, so threads need no lock."""


class RouteCache:
    """All topics a client uses, and the addresses behind broker names.

    `put` what was fetched; `on_change` hears (topic, route) of every topic whose route is new or differs.
    """

    def __init__(self) -> None:
        self._topics: dict[str, TopicRoutes] = {}
        self._brokers: dict[str, Mapping[int, str]] = {}
        self._seen: set[str] = set()
        self.on_change: list[Callable[[str, Route], None]] = []
        self.on_suspect: list[Callable[[str], None]] = []
        """Called by `suspect`: a broker of this route did not answer, the route may be out of date."""

    def get(self, topic: str) -> TopicRoutes | None:
        return self._topics.get(topic)

    def topics(self) -> tuple[str, ...]:
        return tuple(self._topics)

    def put(self, topic: str, route: Route, *, guessed: bool = False) -> TopicRoutes:
        """Remember a route; listeners hear of it when it differs from the one before."""
        before = self._topics.get(topic)
        for broker in route.brokers:  # also of a route we know: another topic's may have said otherwise since
            self._brokers[broker.broker_name] = dict(broker.addresses)
            self._seen.add(broker.broker_name)
        if before is not None and before.route == route and before.guessed == guessed:
            return before
        # The round robin goes on where it was, or begins anywhere: many clients start at the same moment.
        start = before.next_index() if before is not None else _dice.getrandbits(16)
        after = TopicRoutes(topic, route, guessed, start)
        self._topics[topic] = after
        for listener in tuple(self.on_change):
            listener(topic, route)
        return after

    def drop(self, topic: str) -> None:
        self._topics.pop(topic, None)

    def suspect(self, topic: str) -> None:
        """A broker of the topic did not do what it should: perhaps another one has its place by now."""
        for listener in tuple(self.on_suspect):
            listener(topic)

    # --- brokers -----------------------------------------------------------------------------

    def master(self, broker_name: str) -> str | None:
        """The address that takes writes."""
        addresses = self._brokers.get(broker_name)
        return addresses.get(MASTER_ID) if addresses else None

    def master_for(self, topic: str, broker_name: str) -> str:
        """The address that takes the topic's writes; raises NoBroker."""
        address = self.master(broker_name)
        if address is None:
            raise NoBroker(topic, broker_name, "is not known, or has no master that is up")
        return address

    def has_seen(self, broker_name: str) -> bool:
        """Whether a route ever named it: without a master now, it restarts, or its group elects a leader."""
        return broker_name in self._seen

    def address(self, broker_name: str, broker_id: int = MASTER_ID) -> BrokerAddress | None:
        """The address to read from: the one suggested, else the slave after it, else any of that name."""
        addresses = self._brokers.get(broker_name)
        if not addresses:
            return None
        wanted = [broker_id] if broker_id == MASTER_ID else [broker_id, broker_id + 1]
        for candidate in wanted + sorted(addresses):
            if candidate in addresses:
                return BrokerAddress(addresses[candidate], candidate != MASTER_ID)
        return None

    def brokers(self) -> dict[str, dict[int, str]]:
        """Every known broker name with the addresses of its master and slaves."""
        return {name: dict(addresses) for name, addresses in tuple(self._brokers.items())}

    def forget_lost_brokers(self) -> None:
        """Drop addresses that no route mentions any more."""
        live: dict[str, set[str]] = {}
        for known in tuple(self._topics.values()):
            for broker in known.route.brokers:
                live.setdefault(broker.broker_name, set()).update(broker.addresses.values())
        for name, addresses in tuple(self._brokers.items()):
            kept = {number: text for number, text in addresses.items() if text in live.get(name, ())}
            if not kept:
                self._brokers.pop(name, None)
            elif len(kept) != len(addresses):
                self._brokers[name] = kept


def awaits_master(route: Route) -> bool:
    """Whether there are queues to write to whose broker has only slaves now: its group may be electing a leader."""
    leaderless = {
        broker.broker_name
        for broker in route.brokers
        if broker.addresses and MASTER_ID not in broker.addresses
    }
    return any(data.perm & Perm.WRITE and data.broker_name in leaderless for data in route.queues)


def publish_queues(topic: str, route: Route) -> tuple[MessageQueue, ...]:
    """The queues to send to: writable ones of brokers with a master, or what an order configuration names."""
    if route.order_conf:
        return tuple(
            MessageQueue(topic, name, queue_id)
            for name, count in _order_conf(route.order_conf)
            for queue_id in range(count)
        )
    masters = {broker.broker_name for broker in route.brokers if MASTER_ID in broker.addresses}
    return tuple(
        MessageQueue(topic, data.broker_name, queue_id)
        for data in sorted(route.queues, key=lambda data: data.broker_name)
        if data.perm & Perm.WRITE and data.broker_name in masters
        for queue_id in range(data.write_queues)
    )


def subscribe_queues(topic: str, route: Route) -> tuple[MessageQueue, ...]:
    """The queues to consume, sorted as every member of a group sorts them."""
    found = {
        MessageQueue(topic, data.broker_name, queue_id)
        for data in route.queues
        if data.perm & Perm.READ
        for queue_id in range(data.read_queues)
    }
    return tuple(sorted(found))


def _order_conf(text: str) -> Iterable[tuple[str, int]]:
    """`broker-a:4;broker-b:8`, kept by the name server for ordered topics."""
    for part in text.split(";"):
        name, _, count = part.strip().rpartition(":")
        if name and count.isascii() and count.isdigit():
            yield name, int(count)


VIP_PORT_DISTANCE: Final = 2


def vip_address(address: str) -> str:
    """The port old clients send to: the broker listens there too.

    >>> vip_address("10.0.0.1:10911")
    '10.0.0.1:10909'
    """
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - VIP_PORT_DISTANCE}"
