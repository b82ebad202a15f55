"""How busy topics are: messages in and out a second and in 24 hours (315), and what groups have left to do (208)."""

from collections.abc import Mapping, Sequence

from rocketeer.admin.context import AdminContext
from rocketeer.admin.plans.asking import CircuitBreaker, in_parallel, route_brokers, topic_route
from rocketeer.admin.plans.progress import progress_at
from rocketeer.admin.plans.topics import groups_of_topic, is_user_topic, topic_configs, topics
from rocketeer.admin.results import ClusterBroker, NotAnswered, TopicActivity
from rocketeer.client.plans.effects import Plan
from rocketeer.errors import BrokerRefused, RocketeerError
from rocketeer.protocol.bodies.broker_stats import (
    GROUP_GET_NUMS,
    TOPIC_PUT_NUMS,
    BrokerStats,
    decode_broker_stats,
)
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.headers.admin import ViewBrokerStatsHeader


def activity(context: AdminContext, topic: str | None = None) -> Plan[tuple[TopicActivity, ...]]:
    """Every topic (or one) with each of its groups: rates, sums of 24 hours, lag; no retries and dead letters."""
    names = (topic,) if topic is not None else (yield from topics(context))
    circuit = CircuitBreaker(context)
    wanted = [name for name in names if topic is not None or not name.startswith(("%RETRY%", "%DLQ%"))]
    outcomes = yield from in_parallel([_topic_activity(context, circuit, name) for name in wanted])
    lines: list[TopicActivity] = []
    for name, found in zip(wanted, outcomes, strict=True):
        if isinstance(found, RocketeerError):
            if topic is not None:
                raise found
            lines.append(TopicActivity(name, None, failures=(NotAnswered(f"topic {name}", found),)))
        else:
            lines += found
    return tuple(lines)


def topic_rates(context: AdminContext) -> Plan[Mapping[str, float | None]]:
    """Messages stored a second of every topic people send to; None when one of its brokers did not say."""
    tables = yield from topic_configs(context)
    brokers: dict[str, list[ClusterBroker]] = {}
    for broker, table in tables:
        for name in table:
            if is_user_topic(name):
                brokers.setdefault(name, []).append(broker)
    circuit = CircuitBreaker(context)
    plans = [_sum(circuit, having, TOPIC_PUT_NUMS, name) for name, having in brokers.items()]
    outcomes = yield from in_parallel(plans)
    return {
        name: None if isinstance(found, RocketeerError) or found[0] is None else found[0][0]
        for name, found in zip(brokers, outcomes, strict=True)
    }


def _topic_activity(context: AdminContext, circuit: CircuitBreaker, topic: str) -> Plan[list[TopicActivity]]:
    route = yield from topic_route(context, topic)
    brokers = route_brokers(route)
    put, failures = yield from _sum(circuit, brokers, TOPIC_PUT_NUMS, topic)
    in_tps, in_24h = (None, None) if put is None else put
    found = yield from groups_of_topic(context, topic, circuit)
    if not found.groups:
        lag = None if found.failures else 0
        return [TopicActivity(topic, None, lag, in_tps, None, in_24h, None, failures or found.failures)]
    lines: list[TopicActivity] = []
    for group in found.groups:
        got, missing = yield from _sum(circuit, brokers, GROUP_GET_NUMS, f"{topic}@{group}")
        out_tps, out_24h = (None, None) if got is None else got
        progress = yield from progress_at(circuit, group, brokers, topic)
        lag = None if progress.failures else progress.lag
        said = failures or missing or progress.failures or found.failures
        lines.append(TopicActivity(topic, group, lag, in_tps, out_tps, in_24h, out_24h, said))
    return lines


def _sum(
    circuit: CircuitBreaker, brokers: Sequence[ClusterBroker], name: str, key: str
) -> Plan[tuple[tuple[float, int] | None, tuple[NotAnswered, ...]]]:
    """(messages a second, in 24 hours) over the brokers; None when one of them did not say."""
    tps, total = 0.0, 0
    failures: list[NotAnswered] = []
    for broker in brokers:
        try:
            stats = yield from _stats(circuit, broker, name, key)
        except RocketeerError as error:
            failures.append(NotAnswered(str(broker), error))
            continue
        if stats is not None:
            tps += stats.minute.tps
            total += (stats.day.sum or stats.hour.sum) or stats.minute.sum
    return (None if failures else (tps, total)), tuple(failures)


def _stats(circuit: CircuitBreaker, broker: ClusterBroker, name: str, key: str) -> Plan[BrokerStats | None]:
    """None when the broker has never counted anything there."""
    header = ViewBrokerStatsHeader(name, key)
    try:
        reply = yield from circuit.ask(broker, RequestCode.VIEW_BROKER_STATS_DATA, header)
    except BrokerRefused as error:
        if error.code == ResponseCode.SYSTEM_ERROR and "not exist" in error.remark:
            return None
        raise
    return decode_broker_stats(reply.body)
