"""Who is alive and which topics they hold: pure state between brokers' requests and clients' questions.

    register(address ...) --> _alive[address] --> _brokers[name].addresses[id] --> _clusters
                                              `-> _topics[topic][name]          (only a master tells topics)

Invariants, kept by every method:

- `_brokers[name].addresses[id]` is an address exactly when `_alive[address]` is that name and id
- a broker name has at least one address, and stands in exactly one cluster
- a topic's queues count only as long as the broker they were told by is the one in `_brokers`

So no route ever names a broker that is not alive, from the moment on that it is gone; what is left of its queues is
swept away later. Methods that may have to look at very many topics are generators, a topic a step.
Time is an argument, a connection any object with identity.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rocketeer.errors import RocketeerError
from rocketeer.model.data_version import DataVersion
from rocketeer.model.route import MASTER_ID, BrokerData, QueueData, Route
from rocketeer.model.topic import Perm, TopicConfig
from rocketeer.steps import Steps, finish

UNIT = 0x1
UNIT_SUB = 0x2
"""Bits of a topic's system flag: it belongs to a unit (a data centre's share), or has consumers of a unit."""


LOOKED_AT_ONCE = 64
SWEPT_AT_ONCE = 256
"""A broker with no more topics than this is swept when it goes."""


class LimitReached(RocketeerError):
    """A limit of brokers or routes is reached."""

    def __init__(self, what: str, key: str, limit: int) -> None:
        super().__init__(f"{what}: more than the {limit} that {key} allows")


class StaleEpoch(RocketeerError):
    """A leader of the past: its group has another one, which is registered here."""

    def __init__(self, broker_name: str, epoch: int, known: int) -> None:
        super().__init__(f"{broker_name} is led in epoch {known}: the leader of epoch {epoch} is not taken")


class MasterAddress(NamedTuple):
    """What a slave learns when it registers."""

    address: str
    ha_address: str | None


class Evicted(NamedTuple):
    address: str
    connection: object


@dataclass(slots=True)
class _LiveBroker:
    """One registered process."""

    broker_name: str
    broker_id: int
    ha_address: str | None
    version: DataVersion
    heard_ms: int
    connection: object
    epoch: int = 0
    """Epoch of the leader of a group."""
    refused: bool = False
    """There was no room for some of its topics; it is told so until there is."""


@dataclass(slots=True)
class _Broker:
    """One broker name: a master and its slaves."""

    name: str
    cluster: str
    addresses: dict[int, str]
    topics: dict[str, None] = field(default_factory=dict)
    """Topics that it told of, and nobody deleted since."""


class _Queues(NamedTuple):
    """A broker's queues of one topic; `told` is the number of the registration that said so."""

    broker: _Broker
    data: QueueData
    told: int


class RouteTable:
    def __init__(
        self, *, brokers_max: int = 2_000, routes_max: int = 1_000_000, topics_max: int = 300_000
    ) -> None:
        self._brokers_max = brokers_max
        self._routes_max = routes_max
        self._topics_max = topics_max
        self._routes = 0
        self._registrations = 0
        self._gone: deque[_Broker] = deque()
        self._alive: dict[str, _LiveBroker] = {}
        self._brokers: dict[str, _Broker] = {}
        self._clusters: dict[str, set[str]] = {}
        self._topics: dict[str, dict[str, _Queues]] = {}

    # --- brokers come and go -----------------------------------------------------------------

    def registering(
        self,
        *,
        cluster: str,
        broker_name: str,
        broker_id: int,
        address: str,
        ha_address: str | None,
        version: DataVersion,
        topics: Iterable[TopicConfig],
        connection: object,
        now_ms: int,
        epoch: int = 0,
    ) -> Steps[MasterAddress | None]:
        """Take a broker in, or its heartbeat; a slave is told its master. LimitReached when there is no room,
        StaleEpoch for a leader whose group has a newer one.

        Topics are merged, never removed: brokers may send only those that changed. They are read when the
        data version is new, or the broker took this place (name, id) just now; else only the time is noted.
        Where there is no room for all of them, known ones change all the same, and each registration tries to find
        room for the others.
        """
        if broker_id == MASTER_ID:
            self._check_epoch(broker_name, epoch)
        before = self._alive.get(address)
        if before is None and len(self._alive) >= self._brokers_max:
            raise LimitReached("brokers registered here", "limitBrokers", self._brokers_max)
        if before is not None and (before.broker_name, before.broker_id) != (broker_name, broker_id):
            # It changed its role (a slave becomes master) or its name: it leaves the old place.
            self._leave_place(before, keep_name=broker_name)
            before = None
        self._take_place(cluster, broker_name, broker_id, address)
        was_refused = before is not None and before.refused
        alive = _LiveBroker(
            broker_name, broker_id, ha_address, version, now_ms, connection, epoch, refused=was_refused
        )
        self._alive[address] = alive
        if broker_id != MASTER_ID:
            return self._master_of(broker_name)
        is_known = before is not None and before.version == version
        if was_refused or not is_known:
            refusal = yield from self._merge_topics(broker_name, topics, only_new=is_known)
            alive.refused = refusal is not None or (was_refused and not is_known)
            if refusal is not None:
                raise refusal
        return None

    def unregister(self, *, broker_name: str, broker_id: int, address: str) -> bool:
        """Forget a broker that says goodbye; one that was replaced meanwhile does not take its heir along."""
        alive = self._alive.get(address)
        if alive is None or (alive.broker_name, alive.broker_id) != (broker_name, broker_id):
            return False
        self._forget(address)
        return True

    def refresh(self, address: str, version: DataVersion, now_ms: int) -> bool:
        """A heartbeat that only asks: True if the table holds this version; that keeps the broker alive."""
        alive = self._alive.get(address)
        if alive is None or alive.version != version:
            return False
        alive.heard_ms = now_ms
        return True

    def evicting(self, now_ms: int, expiry_ms: int) -> Iterator[Evicted | None]:
        """Forget every broker not heard of for over `expiry_ms`, one a step; the caller closes its connection.

        None after steps that found none.
        """
        for number, address in enumerate(list(self._alive), 1):
            alive = self._alive.get(address)
            if alive is not None and alive.heard_ms + expiry_ms < now_ms:
                self._forget(address)
                yield Evicted(address, alive.connection)
            elif number % LOOKED_AT_ONCE == 0:
                yield None

    def closing(self, connection: object) -> Steps[list[str]]:
        """Forget every broker whose latest registration came through this connection."""
        gone = [address for address, alive in self._alive.items() if alive.connection is connection]
        for address in gone:
            alive = self._alive.get(address)
            if alive is not None and alive.connection is connection:  # it may be back on another one by now
                self._forget(address)
            yield
        return gone

    # --- what an administrator changes -------------------------------------------------------

    def wipe_write_perm(self, broker_name: str) -> Steps[int]:
        """Take the broker out of service for writers until it changes its topics; how many topics it has."""
        return self._change_perm(broker_name, lambda perm: perm & ~int(Perm.WRITE))

    def add_write_perm(self, broker_name: str) -> Steps[int]:
        """The way back. As in RocketMQ the result is RW, whatever the topics' permissions were before."""
        return self._change_perm(broker_name, lambda _: int(Perm.READ | Perm.WRITE))

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, on all brokers or on those of one cluster."""
        if not cluster:
            for name in list(self._topics.get(topic, ())):
                self._drop_queues(topic, name)
            return
        for name in self._clusters.get(cluster, ()):
            self._drop_queues(topic, name)

    # --- questions ---------------------------------------------------------------------------

    def routing(self, topic: str) -> Steps[Route | None]:
        """Where the topic lives, a broker a step; who goes away meanwhile is left out."""
        queues: list[QueueData] = []
        brokers: list[BrokerData] = []
        for name, data in self._live_queues(topic):
            if name in self._brokers:
                queues.append(data)
                brokers.append(self._broker_data(name))
            yield
        return Route(tuple(queues), tuple(brokers)) if queues else None

    def broker_count(self, topic: str) -> int:
        """At most so many brokers have the topic."""
        return len(self._topics.get(topic, ()))

    def _live_queues(self, topic: str) -> list[tuple[str, QueueData]]:
        brokers = self._brokers
        queues = self._topics.get(topic, {})
        return [(name, held.data) for name, held in queues.items() if brokers.get(name) is held.broker]

    def version_of(self, address: str) -> DataVersion | None:
        alive = self._alive.get(address)
        return None if alive is None else alive.version

    def each_broker(self) -> Iterator[tuple[str, BrokerData]]:
        """Each broker with its name; who comes or goes meanwhile may be left out."""
        for name in list(self._brokers):
            if name in self._brokers:
                yield name, self._broker_data(name)

    def address_counts(self) -> dict[str, int]:
        """How many brokers, masters and slaves, each cluster has."""
        return {
            cluster: sum(len(self._brokers[name].addresses) for name in names)
            for cluster, names in self._clusters.items()
        }

    def clusters(self) -> dict[str, list[str]]:
        return {cluster: sorted(names) for cluster, names in self._clusters.items()}

    def topics(self) -> Steps[list[str]]:
        return self._topics_where(lambda queues: True)

    def topics_of_cluster(self, cluster: str) -> Steps[list[str]]:
        names = frozenset(self._clusters.get(cluster, ()))
        return self._topics_where(lambda queues: any(name in names for name, _ in queues))

    def topics_with(self, accepts: Callable[[int], bool]) -> Steps[list[str]]:
        """The topics whose system flag passes; one broker speaks for all."""
        return self._topics_where(lambda queues: accepts(queues[0][1].sys_flag))

    def unit_topics(self) -> Steps[list[str]]:
        return self.topics_with(lambda flag: flag & UNIT != 0)

    def unit_sub_topics(self) -> Steps[list[str]]:
        return self.topics_with(lambda flag: flag & UNIT_SUB != 0)

    def unit_sub_topics_outside_units(self) -> Steps[list[str]]:
        return self.topics_with(lambda flag: flag & (UNIT | UNIT_SUB) == UNIT_SUB)

    def _topics_where(self, wanted: Callable[[list[tuple[str, QueueData]]], bool]) -> Steps[list[str]]:
        found = []
        for topic in list(self._topics):
            queues = self._live_queues(topic)
            if queues and wanted(queues):
                found.append(topic)
            yield
        return found

    def any_address(self) -> str | None:
        """Some broker to ask what the name server does not know; a master if its name has one."""
        for broker in self._brokers.values():
            return broker.addresses[min(broker.addresses)]
        return None

    def alive(self) -> Mapping[str, tuple[str, int]]:
        """Every living address with its name and id."""
        return {address: (alive.broker_name, alive.broker_id) for address, alive in self._alive.items()}

    # --- places: (broker name, broker id) -> address -------------------------------------------

    def _check_epoch(self, name: str, epoch: int) -> None:
        broker = self._brokers.get(name)
        master = None if broker is None else broker.addresses.get(MASTER_ID)
        known = 0 if master is None else self._alive[master].epoch
        if epoch < known:
            raise StaleEpoch(name, epoch, known)

    def _take_place(self, cluster: str, name: str, broker_id: int, address: str) -> None:
        """Put the address in its place; another who was there is forgotten: the latest to register wins."""
        broker = self._brokers.get(name)
        if broker is None:
            broker = self._brokers[name] = _Broker(name, cluster, {})
            self._clusters.setdefault(cluster, set()).add(name)
        elif broker_id == MASTER_ID and broker.cluster != cluster:
            # A name is in one cluster; its master's word counts, a slave's configuration may be wrong.
            self._leave_cluster(name, broker.cluster)
            broker.cluster = cluster
            self._clusters.setdefault(cluster, set()).add(name)
        other = broker.addresses.get(broker_id)
        if other is not None and other != address:
            del self._alive[other]
        broker.addresses[broker_id] = address

    def _leave_place(self, alive: _LiveBroker, keep_name: str | None = None) -> None:
        """Make the place free; a name without addresses goes, with its queues, unless it is to be kept."""
        name = alive.broker_name
        broker = self._brokers[name]
        del broker.addresses[alive.broker_id]
        if broker.addresses or name == keep_name:
            return
        del self._brokers[name]
        self._leave_cluster(name, broker.cluster)
        self._gone.append(broker)
        if len(self._gone) == 1 and len(broker.topics) <= SWEPT_AT_ONCE:
            finish(self.sweep())

    @property
    def needs_sweep(self) -> bool:
        """Whether brokers are gone whose queues are still kept."""
        return bool(self._gone)

    def sweep(self) -> Steps[None]:
        """Forget what brokers that are gone have left; nobody is led there any more anyway."""
        while self._gone:
            broker = self._gone[0]
            while broker.topics:
                topic, _ = broker.topics.popitem()
                held = self._topics.get(topic, {}).get(broker.name)
                if held is not None and held.broker is broker:
                    self._drop_queues(topic, broker.name)
                yield
            if self._gone and self._gone[0] is broker:
                self._gone.popleft()

    def _leave_cluster(self, name: str, cluster: str) -> None:
        names = self._clusters[cluster]
        names.remove(name)
        if not names:
            del self._clusters[cluster]

    def _forget(self, address: str) -> None:
        self._leave_place(self._alive.pop(address))

    def _master_of(self, name: str) -> MasterAddress | None:
        address = self._brokers[name].addresses.get(MASTER_ID)
        return None if address is None else MasterAddress(address, self._alive[address].ha_address)

    def _broker_data(self, name: str) -> BrokerData:
        broker = self._brokers[name]
        return BrokerData(broker.cluster, name, dict(sorted(broker.addresses.items())))

    # --- topics ------------------------------------------------------------------------------

    def _merge_topics(
        self, name: str, topics: Iterable[TopicConfig], *, only_new: bool
    ) -> Steps[LimitReached | None]:
        """What a later registration has said meanwhile stays. The refusal if there is no room for all of them."""
        self._registrations += 1
        told = self._registrations
        broker = self._brokers[name]
        refusal: LimitReached | None = None
        for topic in topics:
            if self._brokers.get(name) is not broker:  # it went away meanwhile
                return refusal
            queues = self._topics.get(topic.name, {})
            held = queues.get(name)
            full = self._refusal(queues) if held is None else None
            refusal = refusal or full
            is_ours = held is not None and held.broker is broker
            if full is None and not (only_new and is_ours):
                if held is None:
                    self._topics[topic.name] = queues
                    self._routes += 1
                if held is None or not is_ours or held.told <= told:
                    data = QueueData(name, topic.read_queues, topic.write_queues, topic.perm, topic.sys_flag)
                    queues[name] = _Queues(broker, data, told)
                    broker.topics[topic.name] = None
            yield
        return refusal

    def _refusal(self, queues: Mapping[str, _Queues]) -> LimitReached | None:
        """Why there is no room for a new topic of a broker, None if there is; `queues` are other brokers' of that
        topic."""
        if self._routes >= self._routes_max:
            return LimitReached("topics of all brokers together", "limitRoutes", self._routes_max)
        if not queues and len(self._topics) >= self._topics_max:
            return LimitReached("topics that any broker has", "limitRouteTopics", self._topics_max)
        return None

    def _drop_queues(self, topic: str, name: str) -> None:
        queues = self._topics.get(topic, {})
        held = queues.pop(name, None)
        if held is not None:
            held.broker.topics.pop(topic, None)
            self._routes -= 1
        if not queues:
            self._topics.pop(topic, None)

    def _change_perm(self, name: str, change: Callable[[int], int]) -> Steps[int]:
        changed = 0
        broker = self._brokers.get(name)
        for topic in [] if broker is None else list(broker.topics):
            queues = self._topics.get(topic, {})
            held = queues.get(name)
            if held is not None and held.broker is broker:
                queues[name] = held._replace(data=replace(held.data, perm=change(held.data.perm)))
                changed += 1
            yield
        return changed
