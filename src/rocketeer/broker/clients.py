"""Who is connected: producers and consumers by group, kept alive by heartbeats; a pure state machine.

A heartbeat says, for each group of the client, how it consumes and what it subscribes to. Whenever the
members of a group or the topics it subscribes to change, every member must rebalance: the methods return
those `Notice`s, and whoever called sends them. Time is an argument; a connection is anything hashable.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from rocketeer.model.subscription import ConsumeFromWhere, ConsumeType, MessageModel, Subscription
from rocketeer.steps import Steps

EXPIRY_MS = 120_000
"""A client that sent no heartbeat for longer than this is gone."""

GROUPS_A_STEP = 64

C = TypeVar("C", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """Who speaks on a connection: the client's own id, and what it is written in."""

    client_id: str
    language: str
    version: int


@dataclass(slots=True)
class ConnectedMember(Generic[C]):
    """One connection of a group."""

    connection: C
    identity: ClientIdentity
    seen_ms: int


@dataclass(slots=True)
class ConsumerGroup(Generic[C]):
    """A consumer group that has at least one member; the latest heartbeat of any member describes it."""

    name: str
    consume_type: ConsumeType
    message_model: MessageModel
    consume_from_where: ConsumeFromWhere
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    subscription_bytes: int = 0
    """About what the subscriptions take, in bytes."""
    members: dict[C, ConnectedMember[C]] = field(default_factory=dict)

    def client_ids(self) -> list[str]:
        """Each client once, however many connections it has: rebalancing counts clients."""
        return list(dict.fromkeys(member.identity.client_id for member in self.members.values()))

    def connection_of(self, client_id: str) -> C | None:
        for member in self.members.values():
            if member.identity.client_id == client_id:
                return member.connection
        return None


class Notice(NamedTuple, Generic[C]):
    """These connections, the members at the time of reading, must hear that the group changed."""

    group: str
    connections: Collection[C]


class Expired(NamedTuple, Generic[C]):
    """What a scan found: connections to close, and the notices that follow from it."""

    connections: list[C]
    notices: list[Notice[C]]


class ClientTable(Generic[C]):
    """Every group with a living member; a group without one does not exist here."""

    def __init__(self, *, expiry_ms: int = EXPIRY_MS) -> None:
        self._expiry_ms = expiry_ms
        self.consumers: dict[str, ConsumerGroup[C]] = {}
        self.producers: dict[str, dict[C, ConnectedMember[C]]] = {}
        self._producer_ids: dict[str, C] = {}
        self._ids_of_producers: dict[C, str] = {}
        """The other way round: whoever calls itself otherwise with each heartbeat has one id all the same."""
        self._consuming: dict[C, dict[str, None]] = {}
        self._producing: dict[C, dict[str, None]] = {}
        """Groups by connection, so that one that closes need not be looked for in every group."""
        self.memberships = 0
        """Groups of all connections together."""
        self.subscription_bytes = 0
        """What the subscriptions of all groups take, about."""
        self.on_gone: list[Callable[[str], None]] = []
        """Told the name of each consumer group whose last member left."""

    # --- what heartbeats say -----------------------------------------------------------------

    def consumer_heartbeat(
        self,
        group: str,
        connection: C,
        identity: ClientIdentity,
        *,
        consume_type: ConsumeType,
        message_model: MessageModel,
        consume_from_where: ConsumeFromWhere,
        subscriptions: Iterable[Subscription],
        now_ms: int,
    ) -> list[Notice[C]]:
        """Merge one group of a heartbeat; a changed expression alone notifies nobody, as no queue moves."""
        info = self.consumers.get(group)
        if info is None:
            info = ConsumerGroup(group, consume_type, message_model, consume_from_where)
            self.consumers[group] = info
        info.consume_type = consume_type
        info.message_model = message_model
        info.consume_from_where = consume_from_where
        joined = connection not in info.members
        self.memberships += joined
        info.members[connection] = ConnectedMember(connection, identity, now_ms)
        self._consuming.setdefault(connection, {})[group] = None
        told = tuple(subscriptions)
        topics_changed = _merge_subscriptions(info.subscriptions, told)
        taken = bytes_of(info.subscriptions.values())
        self.subscription_bytes += taken - info.subscription_bytes
        info.subscription_bytes = taken
        return [Notice(group, info.members.keys())] if joined or topics_changed else []

    def producer_heartbeat(self, group: str, connection: C, identity: ClientIdentity, *, now_ms: int) -> None:
        members = self.producers.setdefault(group, {})
        self.memberships += connection not in members
        members[connection] = ConnectedMember(connection, identity, now_ms)
        self._producing.setdefault(connection, {})[group] = None
        self._name_producer(connection, identity.client_id)

    # --- leaving -----------------------------------------------------------------------------

    def unregister_consumer(self, group: str, connection: C) -> list[Notice[C]]:
        """Remove the connection from the group; returns whom to notify, as its queues go to the other members."""
        info = self.consumers.get(group)
        if info is None or info.members.pop(connection, None) is None:
            return []
        self.memberships -= 1
        _discard(self._consuming, connection, group)
        return self._after_leaving(info)

    def unregister_producer(self, group: str, connection: C) -> None:
        members = self.producers.get(group)
        if members is None:
            return
        gone = members.pop(connection, None)
        if not members:
            del self.producers[group]
        if gone is None:
            return
        self.memberships -= 1
        _discard(self._producing, connection, group)
        if connection not in self._producing:
            self._name_producer(connection, None)

    def leaving(self, connection: C) -> Iterator[Notice[C] | None]:
        """Remove a closed connection from all its groups, in steps; yields notices, or None after a step without
        one."""
        for number, group in enumerate(list(self._producing.get(connection, ())), 1):
            self.unregister_producer(group, connection)
            if number % GROUPS_A_STEP == 0:
                yield None
        for group in list(self._consuming.get(connection, ())):
            yield from self.unregister_consumer(group, connection) or (None,)

    def expiring(self, now_ms: int) -> Steps[Expired[C]]:
        """Remove every member that has been silent for too long, some groups of a connection a step."""
        dead: dict[C, None] = {}
        changed: dict[str, None] = {}
        passed = 0
        for connection in list(self._producing):
            for group in list(self._producing.get(connection, ())):
                if self._is_silent(self.producers.get(group, {}).get(connection), now_ms):
                    dead[connection] = None
                    self.unregister_producer(group, connection)
                passed += 1
                if passed % GROUPS_A_STEP == 0:
                    yield
        for connection in list(self._consuming):
            for group in list(self._consuming.get(connection, ())):
                info = self.consumers.get(group)
                if info is not None and self._is_silent(info.members.get(connection), now_ms):
                    dead[connection] = None
                    if self.unregister_consumer(group, connection):
                        changed[group] = None
                passed += 1
                if passed % GROUPS_A_STEP == 0:
                    yield
        notices: list[Notice[C]] = []
        for number, group in enumerate(changed, 1):
            info = self.consumers.get(group)
            if info is not None:  # somebody is left to be told
                notices.append(Notice(group, info.members.keys()))
            if number % GROUPS_A_STEP == 0:
                yield
        return Expired(list(dead), notices)

    # --- looking up --------------------------------------------------------------------------

    def group_count(self, connection: C) -> int:
        """Number of groups in which the connection is a consumer or a producer."""
        return len(self._consuming.get(connection, ())) + len(self._producing.get(connection, ()))

    def is_member(self, connection: C, group: str) -> bool:
        return group in self._consuming.get(connection, ()) or group in self._producing.get(connection, ())

    def consumer(self, group: str) -> ConsumerGroup[C] | None:
        return self.consumers.get(group)

    def subscription(self, group: str, topic: str) -> Subscription | None:
        info = self.consumers.get(group)
        return None if info is None else info.subscriptions.get(topic)

    def model(self, group: str) -> MessageModel | None:
        """How the group consumes; None when it has no living member."""
        info = self.consumers.get(group)
        return None if info is None else info.message_model

    def groups_subscribed_to(self, topic: str) -> Steps[list[str]]:
        found = []
        for number, name in enumerate(list(self.consumers), 1):
            info = self.consumers.get(name)
            if info is not None and topic in info.subscriptions:
                found.append(name)
            if number % GROUPS_A_STEP == 0:
                yield
        return found

    def producer_connection(self, client_id: str) -> C | None:
        """Where the client of this id, which has a producer, is reached."""
        return self._producer_ids.get(client_id)

    def producers_of(self, group: str) -> list[ConnectedMember[C]]:
        return list(self.producers.get(group, {}).values())

    # --- inside ------------------------------------------------------------------------------

    def _name_producer(self, connection: C, client_id: str | None) -> None:
        """Map the client id to this connection, and only this id; None removes the connection's id."""
        before = self._ids_of_producers.pop(connection, None)
        if before is not None and before != client_id and self._producer_ids.get(before) == connection:
            del self._producer_ids[before]
        if client_id is not None:
            self._producer_ids[client_id] = connection
            self._ids_of_producers[connection] = client_id

    def _after_leaving(self, info: ConsumerGroup[C]) -> list[Notice[C]]:
        if not info.members:
            del self.consumers[info.name]
            self.subscription_bytes -= info.subscription_bytes
            for gone in self.on_gone:
                gone(info.name)
            return []
        return [Notice(info.name, info.members.keys())]

    def _is_silent(self, member: ConnectedMember[C] | None, now_ms: int) -> bool:
        return member is not None and now_ms - member.seen_ms > self._expiry_ms


def bytes_of(subscriptions: Iterable[Subscription]) -> int:
    """Approximate memory of the subscriptions, in bytes."""
    return sum([450 + each.text_bytes + 60 * (len(each.tags) + len(each.codes)) for each in subscriptions])


def _discard(groups: dict[C, dict[str, None]], connection: C, group: str) -> None:
    of_connection = groups[connection]
    del of_connection[group]
    if not of_connection:
        del groups[connection]


def _merge_subscriptions(known: dict[str, Subscription], told: Iterable[Subscription]) -> bool:
    """Merge subscriptions, the newer version of each topic winning; True when the set of topics changed.

    Members of one group may differ for a while (a rolling deployment): the last heartbeat decides the topics,
    the highest version the expression.
    """
    topics: set[str] = set()
    changed = False
    for subscription in told:
        topics.add(subscription.topic)
        old = known.get(subscription.topic)
        if old is None or subscription.version > old.version:
            known[subscription.topic] = subscription
            changed = changed or old is None
    for topic in [topic for topic in known if topic not in topics]:
        del known[topic]
        changed = True
    return changed
