"""Routes from the name servers: cached or fetched, and what stands in for a topic not made yet."""

from dataclasses import replace
from typing import Final

from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import RouteCache, TopicRoutes
from rocketeer.client.plans.effects import Call, Plan, Shared
from rocketeer.client.plans.replies import refused
from rocketeer.errors import NoNameServer, NoRoute, RemotingError
from rocketeer.model.route import Route
from rocketeer.protocol.bodies.route import decode_route
from rocketeer.protocol.bodies.topics import decode_topic_list
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request
from rocketeer.protocol.headers.nameserver import GetRouteHeader

TRY_S_MIN: Final = 1.0
"""Each name server gets an equal share of the time, at least this: a silent one must not use it all."""


def ask_nameservers(
    nameservers: NameServers, command: Command, timeout_s: float, *, go_on: frozenset[int] = frozenset()
) -> Plan[Command]:
    """The first answer any name server gives; raises NoNameServer, with what each said, when none does.

    An answer whose code is in `go_on` is kept only if no other name server has a better one.
    """
    addresses = nameservers.in_turn()
    share_s = max(timeout_s / len(addresses), min(TRY_S_MIN, timeout_s))
    asked: list[tuple[str, str]] = []
    second_best: Command | None = None
    for address in addresses:
        try:
            reply: Command = yield Call(address, command, share_s)
        except RemotingError as error:
            asked.append((address, str(error)))
            continue
        if reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            asked.append((address, f"{address} answers, but is no name server: is it a broker's port?"))
            continue
        if reply.code not in go_on:
            nameservers.answered(address)
            return reply
        second_best = second_best or reply
    if second_best is not None:
        return second_best
    raise NoNameServer(asked)


def fetch_route(topic: str, nameservers: NameServers, timeout_s: float) -> Plan[Route | None]:
    """The topic's route, None when no name server has one.

    All are asked before the answer is no: one that has just started knows nothing for up to 30 s.
    """
    command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader(topic))
    missing = frozenset({int(ResponseCode.TOPIC_NOT_EXIST)})
    reply = yield from ask_nameservers(nameservers, command, timeout_s, go_on=missing)
    if reply.code == ResponseCode.TOPIC_NOT_EXIST:
        return None
    if reply.code != ResponseCode.SUCCESS:
        raise refused(reply, f"name server, asked for the route of {topic!r},")
    return decode_route(reply.body)


def fetch_topics(nameservers: NameServers, timeout_s: float) -> Plan[set[str]]:
    """The names of all topics a name server knows, the system's too."""
    command = request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    reply = yield from ask_nameservers(nameservers, command, timeout_s)
    if reply.code != ResponseCode.SUCCESS:
        raise refused(reply, "name server, asked for all topics,")
    return set(decode_topic_list(reply.body).topics)


def find_route(
    topic: str, routes: RouteCache, nameservers: NameServers, timeout_s: float
) -> Plan[TopicRoutes]:
    """The topic's route from the cache or a name server; raises NoRoute. Many at a time fetch once."""
    known = routes.get(topic)
    if known is None or known.guessed:
        known = yield Shared(("route", topic), _fetch_into(topic, routes, nameservers, timeout_s, None))
    assert isinstance(known, TopicRoutes)
    return known


def find_route_or_default(
    topic: str,
    routes: RouteCache,
    nameservers: NameServers,
    timeout_s: float,
    *,
    default_topic: str,
    default_queues: int,
) -> Plan[TopicRoutes]:
    """As `find_route`, but a topic nobody has gets the default topic's brokers: the first send creates it."""
    known = routes.get(topic)
    if known is None or not known.publish:
        default = (default_topic, default_queues)
        known = yield Shared(
            ("publish route", topic, default), _fetch_into(topic, routes, nameservers, timeout_s, default)
        )
    assert isinstance(known, TopicRoutes)
    return known


def refresh_route(topic: str, routes: RouteCache, nameservers: NameServers, timeout_s: float) -> Plan[None]:
    """Bring a known topic up to date; one the name servers have not (yet, or any more) is left as it is."""
    route = yield from fetch_route(topic, nameservers, timeout_s)
    if route is not None:
        routes.put(topic, route)


def _fetch_into(
    topic: str,
    routes: RouteCache,
    nameservers: NameServers,
    timeout_s: float,
    default: tuple[str, int] | None,
) -> Plan[TopicRoutes]:
    route = yield from fetch_route(topic, nameservers, timeout_s)
    if route is not None:
        return routes.put(topic, route)
    if default is not None:
        default_topic, queues = default
        pattern = yield from fetch_route(default_topic, nameservers, timeout_s)
        if pattern is not None:
            return routes.put(topic, _patterned(pattern, queues), guessed=True)
        why = (
            f"There is no {default_topic!r} either, so brokers do not create topics by themselves: create it"
        )
        raise NoRoute(topic, nameservers.in_turn(), why)
    raise NoRoute(topic, nameservers.in_turn())


def _patterned(pattern: Route, queues_max: int) -> Route:
    """The route a topic will have once the broker has made it after the default topic."""
    return replace(
        pattern,
        queues=tuple(
            replace(
                data,
                read_queues=min(queues_max, data.read_queues),
                write_queues=min(queues_max, data.read_queues),
            )
            for data in pattern.queues
        ),
    )
