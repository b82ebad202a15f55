"""Who produces: the clients of one producer group (204), of all groups of a broker (328)."""

from collections.abc import Mapping

from rocketeer.admin.context import AdminContext
from rocketeer.admin.plans.asking import ask_broker, some_brokers, topic_masters
from rocketeer.admin.results import ClusterBroker
from rocketeer.client.plans.effects import Plan
from rocketeer.protocol.bodies.connections import ClientConnection, decode_producer_connections
from rocketeer.protocol.bodies.producers import ProducerClient, decode_producer_table
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.headers.clients import GetProducerConnectionsHeader


def producer_connections(context: AdminContext, group: str, topic: str) -> Plan[tuple[ClientConnection, ...]]:
    """The clients of a producer group on the brokers of a topic; raises BrokerRefused when no broker has one."""
    brokers = yield from topic_masters(context, topic)
    header = GetProducerConnectionsHeader(group)

    def connections(each: ClusterBroker) -> Plan[tuple[ClientConnection, ...]]:
        reply = yield from ask_broker(context, each.address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
        return decode_producer_connections(reply.body)

    found = yield from some_brokers(brokers, connections)
    clients = {each.client_id: each for _, part in found for each in part}
    return tuple(clients.values())


def producers(context: AdminContext, broker: str) -> Plan[Mapping[str, tuple[ProducerClient, ...]]]:
    """Every producer group of the broker at an address, with its clients."""
    reply = yield from ask_broker(context, broker, RequestCode.GET_ALL_PRODUCER_INFO)
    return decode_producer_table(reply.body)
