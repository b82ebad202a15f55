"""How far consumer groups are: one (208), all of them in one line each, the times of what is left (303)."""

from rocketeer.admin.context import AdminContext
from rocketeer.admin.plans.asking import (
    CircuitBreaker,
    ask_broker,
    each_broker,
    in_parallel,
    is_not_online,
    some_brokers,
)
from rocketeer.admin.plans.clusters import cluster_map
from rocketeer.admin.plans.groups import brokers_of_group, connections_at
from rocketeer.admin.plans.topics import topics
from rocketeer.admin.results import ClusterBroker, GroupProgress, GroupSummary, NotAnswered
from rocketeer.client.plans.effects import Plan
from rocketeer.errors import RocketeerError
from rocketeer.model.topic import RETRY_PREFIX
from rocketeer.protocol.bodies.connections import GroupConnections
from rocketeer.protocol.bodies.consume_stats import ConsumeStats, decode_consume_stats, merge
from rocketeer.protocol.bodies.time_spans import ConsumeTimeSpan, decode_time_spans
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.headers.topics import GetConsumeStatsHeader, QueryConsumeTimeSpanHeader


def group_progress(context: AdminContext, group: str, topic: str | None = None) -> Plan[GroupProgress]:
    """How far a group is in every queue (of one topic), and who is connected."""
    brokers = yield from brokers_of_group(context, group)
    circuit = CircuitBreaker(context)
    found = yield from some_brokers(brokers, lambda each: _stats_at(circuit, group, each, topic))
    return (yield from _with_members(circuit, group, brokers, list(found.answers.values()), found.failures))


def groups(context: AdminContext) -> Plan[tuple[GroupSummary, ...]]:
    """Every group that has a retry topic, in one line each: all that ever had a member that consumes."""
    names = yield from topics(context)
    known = yield from cluster_map(context)
    circuit = CircuitBreaker(context)
    found = [name.removeprefix(RETRY_PREFIX) for name in names if name.startswith(RETRY_PREFIX)]
    outcomes = yield from in_parallel([_summary(circuit, group, known.masters()) for group in found])
    return tuple(
        GroupSummary(group, None, failures=(NotAnswered(f"group {group}", outcome),))
        if isinstance(outcome, RocketeerError)
        else outcome
        for group, outcome in zip(found, outcomes, strict=True)
    )


def _summary(circuit: CircuitBreaker, group: str, brokers: tuple[ClusterBroker, ...]) -> Plan[GroupSummary]:
    progress = yield from progress_at(circuit, group, brokers, None)
    stats, members = progress.stats, progress.connections
    whole = not progress.failures
    return GroupSummary(
        group,
        progress.members if whole or members else None,
        min((each.version for each in members.connections), default=None) if members else None,
        members.consume_type if members else None,
        members.message_model if members else None,
        stats.tps if whole else None,
        stats.lag if whole else None,
        progress.failures,
    )


def progress_at(
    circuit: CircuitBreaker, group: str, brokers: tuple[ClusterBroker, ...], topic: str | None
) -> Plan[GroupProgress]:
    """A group's progress on these brokers, one after the other; who does not answer is named."""
    parts: list[ConsumeStats] = []
    failures: list[NotAnswered] = []
    for each in brokers:
        try:
            parts.append((yield from _stats_at(circuit, group, each, topic)))
        except RocketeerError as error:
            failures.append(NotAnswered(str(each), error))
    return (yield from _with_members(circuit, group, brokers, parts, tuple(failures)))


def _stats_at(
    circuit: CircuitBreaker, group: str, broker: ClusterBroker, topic: str | None
) -> Plan[ConsumeStats]:
    header = GetConsumeStatsHeader(group, topic)
    reply = yield from circuit.ask(broker, RequestCode.GET_CONSUME_STATS, header)
    return decode_consume_stats(reply.body)


def _with_members(
    circuit: CircuitBreaker,
    group: str,
    brokers: tuple[ClusterBroker, ...],
    parts: list[ConsumeStats],
    failures: tuple[NotAnswered, ...],
) -> Plan[GroupProgress]:
    connections: GroupConnections | None = None
    try:
        connections = yield from connections_at(circuit, group, brokers)
    except RocketeerError as error:
        if not is_not_online(error) and not failures:
            failures = (NotAnswered(f"group {group}", error),)
    return GroupProgress(group, merge(parts), connections, failures)


def time_spans(context: AdminContext, group: str, topic: str) -> Plan[tuple[ConsumeTimeSpan, ...]]:
    """The times of what a group still has to consume of a topic, by queue."""
    brokers = yield from brokers_of_group(context, group)
    header = QueryConsumeTimeSpanHeader(topic, group)

    def spans(each: ClusterBroker) -> Plan[list[ConsumeTimeSpan]]:
        reply = yield from ask_broker(context, each.address, RequestCode.QUERY_CONSUME_TIME_SPAN, header)
        return decode_time_spans(reply.body)

    found = yield from each_broker(brokers, spans)
    if found.failures:
        raise found.failures[0].error
    return tuple(span for _, part in found for span in part)
