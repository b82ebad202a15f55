"""Clusters and brokers: who there is (106), how they are (28), settings (25, 26), chores (306, 316, 329)."""

from collections.abc import Mapping
from typing import TypeAlias

from rocketeer.admin.context import AdminContext
from rocketeer.admin.plans.asking import (
    ask_broker,
    ask_nameserver,
    each_broker,
    on_each_broker,
    tell_nameservers,
)
from rocketeer.admin.results import BrokerRuntime, ClusterBroker, ClusterMap, Done, PerBroker
from rocketeer.client.plans.effects import Plan
from rocketeer.errors import ConfigError
from rocketeer.protocol.bodies.broker_stats import BrokerStats, decode_broker_stats
from rocketeer.protocol.bodies.consume_stats import BrokerConsumeStats, decode_broker_consume_stats
from rocketeer.protocol.bodies.kv import decode_kv_table
from rocketeer.protocol.bodies.properties import decode_settings, encode_settings
from rocketeer.protocol.bodies.route import decode_cluster_info
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.headers.admin import GetBrokerConsumeStatsHeader, ViewBrokerStatsHeader
from rocketeer.protocol.headers.base import decode_header
from rocketeer.protocol.headers.nameserver import (
    AddWritePermReplyHeader,
    BrokerNameHeader,
    WipeWritePermReplyHeader,
)
from rocketeer.protocol.headers.transaction import ResumeCheckHalfMessageHeader

BrokerSettings: TypeAlias = Mapping[str, str]


def cluster_map(context: AdminContext) -> Plan[ClusterMap]:
    """All clusters and their brokers, as the name server knows them."""
    reply = yield from ask_nameserver(context, RequestCode.GET_BROKER_CLUSTER_INFO)
    info = decode_cluster_info(reply.body)
    brokers = [
        ClusterBroker(data.cluster, name, broker_id, address)
        for name, data in info.brokers.items()
        for broker_id, address in data.addresses.items()
    ]
    clusters = {name: tuple(sorted(names)) for name, names in sorted(info.clusters.items())}
    return ClusterMap(clusters, tuple(sorted(brokers)))


def choose_brokers(
    context: AdminContext, *, broker: str | None = None, cluster: str | None = None, masters_only: bool = True
) -> Plan[tuple[ClusterBroker, ...]]:
    """One broker by its address, or those of a cluster; neither: all. A cluster nobody has is an error."""
    if broker is not None:
        return (ClusterBroker("", "", 0, broker),)
    known = yield from cluster_map(context)
    if cluster is not None and cluster not in known.clusters:
        names = ", ".join(known.clusters) or "none"
        raise ConfigError(f"no cluster {cluster!r}: the name server knows {names}")
    chosen = known.masters(cluster) if masters_only else known.of(cluster)
    if not chosen:
        raise ConfigError("no broker is registered" + (f" in cluster {cluster!r}" if cluster else ""))
    return chosen


def broker_runtime(context: AdminContext, broker: str) -> Plan[BrokerRuntime]:
    """The running state of the broker at an address."""
    reply = yield from ask_broker(context, broker, RequestCode.GET_BROKER_RUNTIME_INFO)
    return BrokerRuntime(decode_kv_table(reply.body))


def cluster_runtime(context: AdminContext, cluster: str | None = None) -> Plan[PerBroker[BrokerRuntime]]:
    """The running state of every broker of a cluster, slaves too; of all clusters without a name."""
    brokers = yield from choose_brokers(context, cluster=cluster, masters_only=False)
    return (yield from each_broker(brokers, lambda each: broker_runtime(context, each.address)))


def broker_settings(context: AdminContext, broker: str) -> Plan[BrokerSettings]:
    """Every setting in force at the broker with this address, under RocketMQ's keys."""
    reply = yield from ask_broker(context, broker, RequestCode.GET_BROKER_CONFIG)
    return decode_settings(reply.body)


def cluster_settings(context: AdminContext, cluster: str | None = None) -> Plan[PerBroker[BrokerSettings]]:
    """The settings of every broker of a cluster, slaves too."""
    brokers = yield from choose_brokers(context, cluster=cluster, masters_only=False)
    return (yield from each_broker(brokers, lambda each: broker_settings(context, each.address)))


def update_broker_settings(
    context: AdminContext, changes: BrokerSettings, *, broker: str | None = None, cluster: str | None = None
) -> Plan[Done]:
    """Change settings while brokers run: of one (by address), of a cluster's masters, of all masters."""
    brokers = yield from choose_brokers(context, broker=broker, cluster=cluster)
    body = encode_settings(changes)
    done = yield from on_each_broker(
        brokers, lambda each: ask_broker(context, each.address, RequestCode.UPDATE_BROKER_CONFIG, body=body)
    )
    return done


def broker_stats(context: AdminContext, broker: str, name: str, key: str) -> Plan[BrokerStats]:
    """What a broker counts under a name (`TOPIC_PUT_NUMS`) and a key; raises BrokerRefused when it has none."""
    header = ViewBrokerStatsHeader(name, key)
    reply = yield from ask_broker(context, broker, RequestCode.VIEW_BROKER_STATS_DATA, header)
    return decode_broker_stats(reply.body)


def broker_consume_stats(
    context: AdminContext, broker: str, *, order: bool = False
) -> Plan[BrokerConsumeStats]:
    """The progress of every group of one broker; with `order` only topics that are ordered."""
    header = GetBrokerConsumeStatsHeader(order)
    reply = yield from ask_broker(context, broker, RequestCode.GET_BROKER_CONSUME_STATS, header)
    return decode_broker_consume_stats(reply.body)


def clean_expired_queues(
    context: AdminContext, *, broker: str | None = None, cluster: str | None = None
) -> Plan[Done]:
    """Have brokers delete files of consume queues whose messages are gone."""
    return _chore(context, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, broker, cluster)


def delete_expired_log(
    context: AdminContext, *, broker: str | None = None, cluster: str | None = None
) -> Plan[Done]:
    """Have brokers delete the files of the log that are past their time now."""
    return _chore(context, RequestCode.DELETE_EXPIRED_COMMITLOG, broker, cluster)


def clean_unused_topics(
    context: AdminContext, *, broker: str | None = None, cluster: str | None = None
) -> Plan[Done]:
    """Have brokers delete the queues of topics they have no configuration of any more."""
    return _chore(context, RequestCode.CLEAN_UNUSED_TOPIC, broker, cluster)


def _chore(context: AdminContext, code: int, broker: str | None, cluster: str | None) -> Plan[Done]:
    brokers = yield from choose_brokers(context, broker=broker, cluster=cluster)
    return (yield from on_each_broker(brokers, lambda each: ask_broker(context, each.address, code)))


def wipe_write_perm(context: AdminContext, broker_name: str) -> Plan[Mapping[str, int]]:
    """Have every name server hide a broker from producers; how many topics that changed, by name server."""
    replies = yield from tell_nameservers(
        context, RequestCode.WIPE_WRITE_PERM_OF_BROKER, BrokerNameHeader(broker_name)
    )
    return {at: decode_header(WipeWritePermReplyHeader, reply.ext).topics for at, reply in replies.items()}


def add_write_perm(context: AdminContext, broker_name: str) -> Plan[Mapping[str, int]]:
    """Undo `wipe_write_perm`."""
    replies = yield from tell_nameservers(
        context, RequestCode.ADD_WRITE_PERM_OF_BROKER, BrokerNameHeader(broker_name)
    )
    return {at: decode_header(AddWritePermReplyHeader, reply.ext).topics for at, reply in replies.items()}


def resume_half_message(context: AdminContext, broker: str, message_id: str) -> Plan[None]:
    """Have a broker ask again about a half message it gave up on."""
    header = ResumeCheckHalfMessageHeader(message_id)
    yield from ask_broker(context, broker, RequestCode.RESUME_CHECK_HALF_MESSAGE, header)
