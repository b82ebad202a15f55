"""From a queue to the broker that has it: routes from the cache, or fetched when it knows none."""

from typing import NamedTuple

from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.routes import BrokerAddress, RouteCache
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.routes import find_route
from rocketeer.errors import NoBroker
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import MASTER_ID
from rocketeer.protocol.headers.base import Header, encode_header


class ClusterRoutes(NamedTuple):
    """What a plan needs to find brokers."""

    routes: RouteCache
    nameservers: NameServers
    timeout_s: float


def broker_of(queue: MessageQueue, cluster: ClusterRoutes, broker_id: int = MASTER_ID) -> Plan[BrokerAddress]:
    """Where to ask about the queue: the master, or the suggested slave, or whoever of that name is there."""
    found = cluster.routes.address(queue.broker_name, broker_id)
    if found is None:
        yield from find_route(queue.topic, cluster.routes, cluster.nameservers, cluster.timeout_s)
        found = cluster.routes.address(queue.broker_name, broker_id)
    if found is None:
        raise NoBroker(queue.topic, queue.broker_name, "is in no route")
    return found


def with_broker(header: Header, broker_name: str) -> dict[str, str]:
    """The header's texts and `bname`, which clients since 4.9 add for brokers that answer for several names."""
    return {**encode_header(header), "bname": broker_name}
