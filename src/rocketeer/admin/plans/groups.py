"""Consumer groups: their configuration (200, 201, 207) and their members (203, 223, 307)."""

from collections.abc import Mapping

from rocketeer.admin.context import AdminContext
from rocketeer.admin.plans.asking import (
    CircuitBreaker,
    ask_broker,
    each_broker,
    in_parallel,
    is_not_online,
    on_each_broker,
    route_brokers,
    some_brokers,
)
from rocketeer.admin.plans.clusters import choose_brokers, cluster_map
from rocketeer.admin.plans.topics import delete_topic
from rocketeer.admin.results import (
    ClusterBroker,
    Done,
    GroupMembers,
    NotAnswered,
    PerBroker,
)
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.routes import fetch_route
from rocketeer.errors import BrokerRefused, ConfigError, RocketeerError
from rocketeer.model.group import SubscriptionGroup, is_usable_group
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import dlq_topic, retry_topic
from rocketeer.protocol.bodies.connections import (
    ClientConnection,
    GroupConnections,
    decode_group_connections,
)
from rocketeer.protocol.bodies.groups import decode_group_table, encode_group
from rocketeer.protocol.bodies.offsets import decode_members_status
from rocketeer.protocol.bodies.running_info import RunningInfo, decode_running_info
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.headers.clients import ConsumerGroupHeader, GetConsumerRunningInfoHeader
from rocketeer.protocol.headers.offsets import GetConsumerStatusHeader
from rocketeer.protocol.headers.topics import DeleteSubscriptionGroupHeader

# --- configuration ------------------------------------------------------------------------------


def group_configs(
    context: AdminContext, *, broker: str | None = None, cluster: str | None = None
) -> Plan[PerBroker[Mapping[str, SubscriptionGroup]]]:
    """Every consumer group's configuration, by broker."""
    brokers = yield from choose_brokers(context, broker=broker, cluster=cluster)

    def table(each: ClusterBroker) -> Plan[Mapping[str, SubscriptionGroup]]:
        reply = yield from ask_broker(context, each.address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return decode_group_table(reply.body).groups

    return (yield from each_broker(brokers, table))


def group_exists(context: AdminContext, group: str) -> Plan[bool]:
    """Whether any broker has the group; raises when none says yes and one does not answer."""
    tables = yield from group_configs(context)
    if any(group in table for table in tables.answers.values()):
        return True
    if tables.failures:
        raise tables.failures[0].error
    return False


def update_group(
    context: AdminContext,
    group: SubscriptionGroup,
    *,
    broker: str | None = None,
    cluster: str | None = None,
) -> Plan[Done]:
    """Make a consumer group or change it: on one broker (by address), or on every master of a cluster."""
    if not is_usable_group(group.name):
        raise ConfigError(f"{group.name!r} cannot be a consumer group: 1 to 255 bytes, no / and no @")
    if broker is None and cluster is None:
        raise ConfigError("say where the group is to be: broker= its address, or cluster= its name")
    brokers = yield from choose_brokers(context, broker=broker, cluster=cluster)
    body, code = encode_group(group), RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    return (
        yield from on_each_broker(brokers, lambda each: ask_broker(context, each.address, code, body=body))
    )


def delete_group(
    context: AdminContext,
    group: str,
    *,
    broker: str | None = None,
    cluster: str | None = None,
    offsets: bool = False,
    topics_too: bool = True,
) -> Plan[Done]:
    """Delete a consumer group; `offsets`: what it had consumed too; `topics_too`: its retry and dead-letter topics,
    when it is deleted from a cluster."""
    if broker is None and cluster is None:
        raise ConfigError("say where the group is to go: broker= an address, or cluster= a name")
    brokers = yield from choose_brokers(context, broker=broker, cluster=cluster)
    header = DeleteSubscriptionGroupHeader(group, offsets, offsets)
    code = RequestCode.DELETE_SUBSCRIPTIONGROUP
    done = yield from on_each_broker(brokers, lambda each: ask_broker(context, each.address, code, header))
    if cluster is not None and topics_too and not done.failures:
        for topic in (retry_topic(group), dlq_topic(group)):
            yield from delete_topic(context, topic, cluster=cluster)
    return done


# --- members ------------------------------------------------------------------------------------


def group_connections(
    context: AdminContext, group: str, *, broker: str | None = None
) -> Plan[GroupConnections]:
    """Who is connected in a consumer group and what it subscribes to; raises BrokerRefused when nobody is."""
    brokers = (ClusterBroker("", "", 0, broker),) if broker else (yield from brokers_of_group(context, group))
    return (yield from connections_at(CircuitBreaker(context), group, brokers))


def connections_at(
    circuit: CircuitBreaker, group: str, brokers: tuple[ClusterBroker, ...]
) -> Plan[GroupConnections]:
    """What the first broker knows that knows the group's members: clients tell all of them the same."""
    failure: RocketeerError | None = None
    for each in brokers:
        header = ConsumerGroupHeader(group)
        try:
            reply = yield from circuit.ask(each, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        except RocketeerError as error:
            # "Nobody is online" is an answer; that nobody could be asked is none.
            failure = error if failure is None or is_not_online(error) else failure
            continue
        return decode_group_connections(reply.body)
    if failure is None:
        raise ConfigError(f"no broker could be asked for the members of group {group!r}")
    raise failure


def running_info(
    context: AdminContext, group: str, client_id: str, *, broker: str | None = None, stacks: bool = False
) -> Plan[RunningInfo]:
    """What one member tells of itself; `stacks`: also where its threads are. A member may need seconds for that."""
    brokers = (ClusterBroker("", "", 0, broker),) if broker else (yield from brokers_of_group(context, group))
    header = GetConsumerRunningInfoHeader(group, client_id, stacks)
    failure: RocketeerError | None = None
    for each in brokers:
        try:
            reply = yield from ask_broker(
                context, each.address, RequestCode.GET_CONSUMER_RUNNING_INFO, header
            )
        except RocketeerError as error:
            failure = failure or error
            continue
        return decode_running_info(reply.body)
    raise failure or ConfigError(f"no broker could be asked for member {client_id!r} of group {group!r}")


def group_members(
    context: AdminContext, group: str, *, broker: str | None = None, stacks: bool = False
) -> Plan[GroupMembers]:
    """Every member of a group with its running state."""
    found = yield from group_connections(context, group, broker=broker)
    plans = [
        running_info(context, group, each.client_id, broker=broker, stacks=stacks)
        for each in found.connections
    ]
    outcomes = yield from in_parallel(plans)
    running: dict[ClientConnection, RunningInfo] = {}
    failures: list[NotAnswered] = []
    for connection, outcome in zip(found.connections, outcomes, strict=True):
        if isinstance(outcome, RocketeerError):
            failures.append(NotAnswered(f"member {connection.client_id}", outcome))
        else:
            running[connection] = outcome
    return GroupMembers(group, found, running, tuple(failures))


def member_offsets(
    context: AdminContext, group: str, topic: str, *, client_id: str | None = None
) -> Plan[Mapping[str, Mapping[MessageQueue, QueueOffset]]]:
    """Where each member says it is in its queues of a topic, by client id."""
    brokers = yield from brokers_of_group(context, group)
    header = GetConsumerStatusHeader(topic, group, client_id)
    code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS

    def ask_members(each: ClusterBroker) -> Plan[dict[str, dict[MessageQueue, QueueOffset]]]:
        reply = yield from ask_broker(context, each.address, code, header)
        return decode_members_status(reply.body)

    found = yield from some_brokers(brokers, ask_members)
    members: dict[str, dict[MessageQueue, QueueOffset]] = {}
    for _, table in found:
        for member, offsets in table.items():
            members.setdefault(member, {}).update(offsets)
    return members


def brokers_of_group(context: AdminContext, group: str) -> Plan[tuple[ClusterBroker, ...]]:
    """The masters of the clusters the group is in: those with its retry topic; of all when it has none.

    Not only the brokers that have the retry topic: one makes it when the first member tells it of itself.
    """
    if not group.strip():
        raise ConfigError("the consumer group is empty: give its name")
    route = yield from fetch_route(retry_topic(group), context.nameservers, context.timeout_s)
    known = yield from cluster_map(context)
    clusters = {data.cluster for data in route.brokers} if route is not None else set(known.clusters)
    masters = tuple(each for each in known.masters() if each.cluster in clusters)
    if masters:
        return masters
    if route is not None and route.brokers:
        return route_brokers(route)  # slaves whose master is gone
    raise BrokerRefused(1, "no broker is registered", broker="(none)")
