"""Topics in one broker: list, make, change, delete. For tools and tests; producers have topics made by sending."""

from collections.abc import Mapping

from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.replies import ask
from rocketeer.model.topic import AUTO_CREATE_TOPIC, TopicConfig
from rocketeer.protocol.bodies.topics import decode_topic_table
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import request
from rocketeer.protocol.headers.topics import CreateTopicHeader, DeleteTopicHeader


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


def topic_table(address: str, timeout_s: float) -> Plan[Mapping[str, TopicConfig]]:
    """Every topic of the broker at the address, with its configuration."""
    reply = yield from ask(address, request(RequestCode.GET_ALL_TOPIC_CONFIG), timeout_s)
    return decode_topic_table(reply.body).configs


def delete_topic(address: str, topic: str, timeout_s: float) -> Plan[None]:
    """Delete the topic and its messages on the broker at the address."""
    yield from ask(address, request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic)), timeout_s)
