"""How admin plans ask: one broker, several side by side, all name servers, the brokers of a topic."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from rocketeer.admin.context import AdminContext
from rocketeer.admin.results import ClusterBroker, Done, NotAnswered, PerBroker
from rocketeer.client.plans.effects import Parallel, Plan
from rocketeer.client.plans.replies import ask, refused
from rocketeer.client.plans.routes import ask_nameservers, fetch_route
from rocketeer.errors import (
    BrokerRefused,
    ConnectFailed,
    NoNameServer,
    NoRoute,
    RemotingError,
    RocketeerError,
)
from rocketeer.model.route import MASTER_ID, Route
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command, request
from rocketeer.protocol.headers.base import Header

T = TypeVar("T")

PARALLEL_MAX = 32
TRIES_MAX = 3
"""Answers a broker may fail to give before it is asked no more."""


def ask_broker(
    context: AdminContext, address: str, code: int, header: Header | None = None, body: bytes = b""
) -> Plan[Command]:
    """The broker's answer; raises BrokerRefused."""
    return ask(address, request(code, header, body), context.timeout_s)


def ask_nameserver(
    context: AdminContext, code: int, header: Header | None = None, body: bytes = b""
) -> Plan[Command]:
    """The answer of the first name server that gives one; raises BrokerRefused when it is no."""
    reply = yield from ask_nameservers(context.nameservers, request(code, header, body), context.timeout_s)
    if reply.code != ResponseCode.SUCCESS:
        raise refused(reply, "name server")
    return reply


def tell_nameservers(
    context: AdminContext, code: int, header: Header | None = None, body: bytes = b""
) -> Plan[dict[str, Command]]:
    """Have every name server do it: they tell each other nothing. Raises the first failure, after all were asked."""
    addresses = context.nameservers.addresses
    outcomes = yield Parallel(
        [ask(address, request(code, header, body), context.timeout_s) for address in addresses]
    )
    for outcome in outcomes:
        if isinstance(outcome, RocketeerError):
            raise outcome
    return dict(zip(addresses, outcomes, strict=True))


def ask_each_nameserver(
    context: AdminContext, code: int, header: Header | None = None
) -> Plan[list[Command | BrokerRefused]]:
    """Replies and refusals of the name servers that answer; raises NoNameServer when none does.

    An answer that cannot be read is raised: whoever gave it is no name server, or one of another kind.
    """
    addresses = context.nameservers.in_turn()
    share_s = context.timeout_s / len(addresses)  # some may be silent: the others' answers do
    outcomes = yield Parallel([ask(address, request(code, header), share_s) for address in addresses])
    answers: list[Command | BrokerRefused] = []
    for outcome in outcomes:
        if isinstance(outcome, Command | BrokerRefused):
            answers.append(outcome)
        elif not isinstance(outcome, RemotingError):
            raise outcome
    if not answers:
        raise NoNameServer(
            [(address, str(error)) for address, error in zip(addresses, outcomes, strict=True)]
        )
    return answers


def each_broker(
    brokers: Sequence[ClusterBroker], make: Callable[[ClusterBroker], Plan[T]]
) -> Plan[PerBroker[T]]:
    """Run a plan for each broker side by side; who fails is named, the others' answers stand."""
    outcomes = yield Parallel([make(broker) for broker in brokers], PARALLEL_MAX)
    answers: dict[ClusterBroker, T] = {}
    failures: list[NotAnswered] = []
    for broker, outcome in zip(brokers, outcomes, strict=True):
        if isinstance(outcome, RocketeerError):
            failures.append(NotAnswered(str(broker), outcome))
        else:
            answers[broker] = outcome
    return PerBroker(answers, tuple(failures))


def some_brokers(
    brokers: Sequence[ClusterBroker], make: Callable[[ClusterBroker], Plan[T]]
) -> Plan[PerBroker[T]]:
    """As `each_broker`; raises when all of them fail."""
    found = yield from each_broker(brokers, make)
    if not found.answers and found.failures:
        raise found.failures[0].error
    return found


def on_each_broker(
    brokers: Sequence[ClusterBroker], make: Callable[[ClusterBroker], Plan[object]]
) -> Plan[Done]:
    """Have each broker do it; raises when none did."""
    told = yield from some_brokers(brokers, make)
    return Done(tuple(told.answers), told.failures)


def in_parallel(plans: Sequence[Plan[T]]) -> Plan[list[T | RocketeerError]]:
    """Each plan's result or error, in their order."""
    outcomes: list[T | RocketeerError] = yield Parallel(plans, PARALLEL_MAX)
    return outcomes


class CircuitBreaker:
    """Asks many things of a few brokers: one that cannot be reached is not tried a thousand times.

    Without a connection it is given up at once; one that is only late has TRIES_MAX tries.
    """

    def __init__(self, context: AdminContext) -> None:
        self._context = context
        self._lost: dict[ClusterBroker, RemotingError] = {}
        self._tries: dict[ClusterBroker, int] = {}

    def ask(self, broker: ClusterBroker, code: int, header: Header | None = None) -> Plan[Command]:
        """As `ask_broker`; for a broker that was lost before, the error of that time."""
        lost = self._lost.get(broker)
        if lost is not None:
            raise lost
        try:
            return (yield from ask_broker(self._context, broker.address, code, header))
        except RemotingError as error:
            self._tries[broker] = self._tries.get(broker, 0) + 1
            if isinstance(error, ConnectFailed) or self._tries[broker] >= TRIES_MAX:
                self._lost[broker] = error
            raise

    @property
    def failures(self) -> tuple[NotAnswered, ...]:
        return tuple(NotAnswered(str(broker), error) for broker, error in self._lost.items())


def topic_route(context: AdminContext, topic: str) -> Plan[Route]:
    """The topic's route as the name servers have it now; raises NoRoute."""
    route = yield from fetch_route(topic, context.nameservers, context.timeout_s)
    if route is None:
        context.routes.drop(topic)
        raise NoRoute(topic, context.nameservers.in_turn())
    context.routes.put(topic, route)
    return route


def topic_masters(context: AdminContext, topic: str) -> Plan[tuple[ClusterBroker, ...]]:
    """The masters that have the topic; a name without a master is asked at its first slave."""
    route = yield from topic_route(context, topic)
    return route_brokers(route)


def route_brokers(route: Route) -> tuple[ClusterBroker, ...]:
    """One broker process for each name of the route, the master where there is one."""
    found: list[ClusterBroker] = []
    for data in sorted(route.brokers, key=lambda data: data.broker_name):
        if data.addresses:
            broker_id = MASTER_ID if MASTER_ID in data.addresses else min(data.addresses)
            found.append(ClusterBroker(data.cluster, data.broker_name, broker_id, data.addresses[broker_id]))
    return tuple(found)


def is_not_online(error: RocketeerError) -> bool:
    """Whether a broker said that no member of the group is connected."""
    return isinstance(error, BrokerRefused) and error.code == ResponseCode.CONSUMER_NOT_ONLINE
