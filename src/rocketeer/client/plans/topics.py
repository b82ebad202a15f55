"""Topics in one broker: list, make, change, delete. For tools and tests; producers have topics made by sending."""

from collections.abc import Mapping

from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.plans.effects import Parallel, Plan
from rocketeer.client.plans.replies import ask, refused
from rocketeer.client.plans.routes import ask_nameservers
from rocketeer.errors import NoBroker, RocketeerError
from rocketeer.model.topic import AUTO_CREATE_TOPIC, TopicConfig
from rocketeer.protocol.bodies.register import reading_topic_table
from rocketeer.protocol.bodies.route import decode_cluster_info
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import request
from rocketeer.protocol.headers.topics import CreateTopicHeader, TopicHeader
from rocketeer.steps import finish


def put_topic(address: str, topic: TopicConfig, timeout_s: float) -> Plan[None]:
    """Make the topic on the broker at the address, or change it."""
    header = CreateTopicHeader(
        topic.name,
        topic.read_queues,
        topic.write_queues,
        int(topic.perm),
        AUTO_CREATE_TOPIC,
        topic.filter_type,
        topic.sys_flag,
        topic.order,
    )
    yield from ask(address, request(RequestCode.UPDATE_AND_CREATE_TOPIC, header), timeout_s)


def put_topic_everywhere(nameservers: NameServers, topic: TopicConfig, timeout_s: float) -> Plan[set[str]]:
    """Make the topic on every master, or change it; their broker names. Raises what the first one that fails does."""
    command = request(RequestCode.GET_BROKER_CLUSTER_INFO)
    reply = yield from ask_nameservers(nameservers, command, timeout_s)
    if reply.code != ResponseCode.SUCCESS:
        raise refused(reply, "the name server", topic.name)
    brokers = decode_cluster_info(reply.body).brokers
    masters = {name: broker.master for name, broker in brokers.items() if broker.master}
    if not masters:
        raise NoBroker(topic.name, None, "is known to the name servers")
    outcomes = yield Parallel([put_topic(address, topic, timeout_s) for address in masters.values()])
    for outcome in outcomes:
        if isinstance(outcome, RocketeerError):
            raise outcome
    return set(masters)


def topic_table(address: str, timeout_s: float) -> Plan[Mapping[str, TopicConfig]]:
    """Every topic of the broker at the address, with its configuration."""
    reply = yield from ask(address, request(RequestCode.GET_ALL_TOPIC_CONFIG), timeout_s)
    return finish(reading_topic_table(reply.body)).configs  # one by one: no single step of 100 ms


def delete_topic(address: str, topic: str, timeout_s: float) -> Plan[None]:
    """Delete the topic and its messages on the broker at the address."""
    yield from ask(address, request(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic)), timeout_s)
