"""Topics: names (206, 224, 304, 305, 311-313), routes (105), figures (202), configuration (17, 21, 215, 216)."""

import dataclasses
from collections.abc import Mapping
from typing import Final

from rocketeer.admin.context import AdminContext
from rocketeer.admin.plans import asking
from rocketeer.admin.plans.asking import (
    ask_broker,
    ask_nameserver,
    each_broker,
    on_each_broker,
    route_brokers,
    some_brokers,
    tell_nameservers,
    topic_masters,
)
from rocketeer.admin.plans.clusters import choose_brokers, cluster_map
from rocketeer.admin.plans.nameservers import delete_kv, get_kv, put_kv
from rocketeer.admin.results import ClusterBroker, Done, NotAnswered, PerBroker, TopicGroups, TopicStatus
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.routes import fetch_topics
from rocketeer.client.plans.topics import delete_topic as delete_in_broker
from rocketeer.client.plans.topics import put_topic, topic_table
from rocketeer.errors import BrokerRefused, ConfigError, NoRoute, RocketeerError
from rocketeer.model.queue import MessageQueue
from rocketeer.model.route import Route
from rocketeer.model.topic import TopicConfig, is_system_topic, validate_topic_name
from rocketeer.protocol.bodies.consume_stats import TopicQueueStats, decode_topic_stats
from rocketeer.protocol.bodies.groups import decode_group_list
from rocketeer.protocol.bodies.topics import decode_topic_list
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.headers.nameserver import DeleteTopicInNamesrvHeader, GetTopicsByClusterHeader
from rocketeer.protocol.headers.topics import TopicHeader

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
"""Where the name servers keep which queues an ordered topic has: `broker-a:4;broker-b:4`."""


def topics(context: AdminContext, cluster: str | None = None) -> Plan[tuple[str, ...]]:
    """The names of all topics, or of a cluster's, sorted."""
    if cluster is None:
        return tuple(sorted((yield from fetch_topics(context.nameservers, context.timeout_s))))
    header = GetTopicsByClusterHeader(cluster)
    reply = yield from ask_nameserver(context, RequestCode.GET_TOPICS_BY_CLUSTER, header)
    return tuple(sorted(decode_topic_list(reply.body).topics))


def system_topics(context: AdminContext, broker: str | None = None) -> Plan[tuple[str, ...]]:
    """The topics of RocketMQ itself: as a broker (by address) names them, or the name server."""
    if broker is None:
        reply = yield from ask_nameserver(context, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    else:
        reply = yield from ask_broker(context, broker, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    return tuple(sorted(decode_topic_list(reply.body).topics))


def unit_topics(
    context: AdminContext, *, subscribed: bool = False, not_unit: bool = False
) -> Plan[tuple[str, ...]]:
    """Topics of units; `subscribed`: those that units subscribe to, with `not_unit` only what is no unit's own."""
    code = RequestCode.GET_UNIT_TOPIC_LIST
    if subscribed:
        code = (
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST
            if not_unit
            else RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST
        )
    reply = yield from ask_nameserver(context, code)
    return tuple(sorted(decode_topic_list(reply.body).topics))


def topic_route(context: AdminContext, topic: str) -> Plan[Route]:
    """Which brokers have how many queues of the topic; raises NoRoute."""
    return asking.topic_route(context, topic)


def topic_clusters(context: AdminContext, topic: str) -> Plan[tuple[str, ...]]:
    """The clusters that have the topic."""
    route = yield from asking.topic_route(context, topic)
    return tuple(sorted({data.cluster for data in route.brokers}))


def topic_status(context: AdminContext, topic: str) -> Plan[TopicStatus]:
    """What each queue of the topic holds, and when its newest message was stored."""
    brokers = yield from topic_masters(context, topic)

    def stats(broker: ClusterBroker) -> Plan[dict[MessageQueue, TopicQueueStats]]:
        header = TopicHeader(topic)
        reply = yield from ask_broker(context, broker.address, RequestCode.GET_TOPIC_STATS_INFO, header)
        return decode_topic_stats(reply.body)

    found = yield from some_brokers(brokers, stats)
    queues = {queue: each for _, table in found for queue, each in table.items()}
    return TopicStatus(topic, dict(sorted(queues.items())), found.failures)


def topic_configs(
    context: AdminContext, *, broker: str | None = None, cluster: str | None = None
) -> Plan[PerBroker[Mapping[str, TopicConfig]]]:
    """Every topic's configuration, by broker."""
    brokers = yield from choose_brokers(context, broker=broker, cluster=cluster)
    return (yield from each_broker(brokers, lambda each: topic_table(each.address, context.timeout_s)))


def topic_groups(context: AdminContext, topic: str) -> Plan[TopicGroups]:
    """The consumer groups that have read the topic, on any of its brokers."""
    circuit = asking.CircuitBreaker(context)
    found = yield from groups_of_topic(context, topic, circuit)
    return dataclasses.replace(found, failures=circuit.failures)


def all_topic_groups(context: AdminContext) -> Plan[tuple[TopicGroups, ...]]:
    """Every topic with its clusters and consumer groups; retry and dead-letter topics are left out."""
    names = yield from topics(context)
    circuit = asking.CircuitBreaker(context)
    wanted = [name for name in names if not name.startswith(("%RETRY%", "%DLQ%"))]
    outcomes = yield from asking.in_parallel([groups_of_topic(context, name, circuit) for name in wanted])
    return tuple(
        TopicGroups(name, (), (), (NotAnswered(f"topic {name}", found),))
        if isinstance(found, RocketeerError)
        else found
        for name, found in zip(wanted, outcomes, strict=True)
    )


def groups_of_topic(context: AdminContext, topic: str, circuit: asking.CircuitBreaker) -> Plan[TopicGroups]:
    """As `topic_groups`; a broker that was lost before is not asked again."""
    route = yield from asking.topic_route(context, topic)
    groups: set[str] = set()
    failures: list[NotAnswered] = []
    for broker in route_brokers(route):
        header = TopicHeader(topic)
        try:
            reply = yield from circuit.ask(broker, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
        except RocketeerError as error:
            failures.append(NotAnswered(str(broker), error))
            continue
        groups.update(decode_group_list(reply.body))
    clusters = tuple(sorted({data.cluster for data in route.brokers}))
    return TopicGroups(topic, clusters, tuple(sorted(groups)), tuple(failures))


def update_topic(
    context: AdminContext, topic: TopicConfig, *, broker: str | None = None, cluster: str | None = None
) -> Plan[Done]:
    """Make a topic or change it: on one broker (by address), or on every master of a cluster.

    An ordered topic is also written down at the name servers, so that clients keep to its queues.
    """
    validate_topic_name(topic.name)
    if broker is None and cluster is None:
        raise ConfigError("say where the topic is to be: broker= its address, or cluster= its name")
    brokers = yield from choose_brokers(context, broker=broker, cluster=cluster)
    done = yield from on_each_broker(brokers, lambda each: put_topic(each.address, topic, context.timeout_s))
    if topic.order:
        names = yield from _names_of(context, done.brokers)
        conf = {name: str(topic.write_queues) for name in names}
        if broker is not None:
            before = yield from order_conf(context, topic.name)
            conf = {**_parse_order_conf(before), **conf}
        yield from put_order_conf(context, topic.name, ";".join(f"{k}:{v}" for k, v in conf.items()))
    return done


def update_topic_perm(
    context: AdminContext, topic: str, perm: int, *, broker: str | None = None, cluster: str | None = None
) -> Plan[PerBroker[tuple[int, TopicConfig]]]:
    """Change what a topic may be used for (2 write, 4 read, 6 both); by broker: what it was, what it is now."""
    if perm not in (2, 4, 6):
        raise ConfigError(f"perm {perm}: 2 (write), 4 (read) or 6 (both)")
    route = yield from asking.topic_route(context, topic)
    chosen = yield from choose_brokers(context, broker=broker, cluster=cluster)
    having = {each.address: each for each in route_brokers(route)}
    brokers = [having[each.address] for each in chosen if each.address in having]
    if not brokers:
        raise ConfigError(f"topic {topic!r} is not on {broker or cluster or 'any broker'}")
    queues = {data.broker_name: data for data in route.queues}
    ordered = _parse_order_conf((yield from order_conf(context, topic)))

    def change(each: ClusterBroker) -> Plan[tuple[int, TopicConfig]]:
        data = queues[each.name]
        config = TopicConfig(
            topic,
            data.read_queues,
            data.write_queues,
            perm,
            sys_flag=data.sys_flag,
            order=each.name in ordered,
        )
        yield from put_topic(each.address, config, context.timeout_s)
        return data.perm, config

    return (yield from each_broker(brokers, change))


def delete_topic(context: AdminContext, topic: str, *, cluster: str | None = None) -> Plan[Done]:
    """Delete a topic and its messages: on every master of the cluster (or of all), then at the name servers.

    The name servers keep the topic when a broker could not be told: it would be back with its next registration.
    """
    brokers = yield from choose_brokers(context, cluster=cluster)
    done = yield from on_each_broker(
        brokers, lambda each: delete_in_broker(each.address, topic, context.timeout_s)
    )
    if not done.failures:
        header = DeleteTopicInNamesrvHeader(topic, cluster)
        yield from tell_nameservers(context, RequestCode.DELETE_TOPIC_IN_NAMESRV, header)
    context.routes.drop(topic)
    return done


def order_conf(context: AdminContext, topic: str) -> Plan[str | None]:
    """The queues an ordered topic has, as `broker-a:4;broker-b:4`; None for a topic that is not ordered."""
    return (yield from get_kv(context, ORDER_NAMESPACE, topic))


def put_order_conf(context: AdminContext, topic: str, conf: str) -> Plan[None]:
    """Write down which queues an ordered topic has."""
    parts = _parse_order_conf(conf)
    if not parts or not all(count.isascii() and count.isdigit() for count in parts.values()):
        raise ConfigError(f"order configuration {conf!r}: write broker-a:4;broker-b:4")
    yield from put_kv(context, ORDER_NAMESPACE, topic, conf)


def delete_order_conf(context: AdminContext, topic: str) -> Plan[None]:
    """Forget which queues an ordered topic has."""
    yield from delete_kv(context, ORDER_NAMESPACE, topic)


def is_user_topic(topic: str) -> bool:
    """Whether people send to it: no retry, dead-letter or system topic."""
    return not topic.startswith(("%RETRY%", "%DLQ%")) and not is_system_topic(topic)


def topic_exists(context: AdminContext, topic: str) -> Plan[bool]:
    """Whether any name server has a route for it."""
    try:
        yield from asking.topic_route(context, topic)
    except NoRoute:
        return False
    return True


def _parse_order_conf(conf: str | None) -> dict[str, str]:
    parts = [part.strip().rpartition(":") for part in (conf or "").split(";") if part.strip()]
    return {name: count for name, _, count in parts if name}


def _names_of(context: AdminContext, brokers: tuple[ClusterBroker, ...]) -> Plan[list[str]]:
    known = yield from cluster_map(context)
    names = [each.name or known.at(each.address).name for each in brokers]
    if not all(names):
        raise BrokerRefused(
            1, "the name server does not know its name yet", broker=brokers[names.index("")].address
        )
    return names
