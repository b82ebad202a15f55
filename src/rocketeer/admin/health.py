"""What is wrong with a cluster: lag, members that are stuck or differ, full disks, dead brokers. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rocketeer.admin.results import (
    BrokerRuntime,
    ClusterBroker,
    GroupMembers,
    GroupSummary,
    NotAnswered,
    PerBroker,
)
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import Subscription
from rocketeer.protocol.bodies.running_info import HeldQueue

BLOCKED_MS: Final = 60_000
"""How long a member may hold messages of a queue without finishing one."""


class FindingKind(Enum):
    """What a finding is about."""

    LAG = "lag"
    STUCK = "stuck"
    SUBSCRIPTIONS = "subscriptions"
    REBALANCE = "rebalance"
    DISK = "disk"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """What is still well."""

    lag_max: int = 10_000
    disk_ratio_max: float = 0.75
    blocked_ms: int = BLOCKED_MS


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong, in a sentence."""

    kind: FindingKind
    who: str
    text: str

    def __str__(self) -> str:
        return self.text


def broker_findings(states: PerBroker[BrokerRuntime], limits: HealthLimits) -> list[Finding]:
    """Brokers that do not answer, and disks that are too full."""
    found = [Finding(FindingKind.DEAD, each.who, str(each)) for each in states.failures]
    for broker, state in states:
        found += _disk(broker, state, limits)
    return found


def _disk(broker: ClusterBroker, state: BrokerRuntime, limits: HealthLimits) -> list[Finding]:
    ratio = state.disk_ratio
    if ratio is None or ratio <= limits.disk_ratio_max:
        return []
    text = f"the disk of {broker} is {ratio:.0%} full (limit {limits.disk_ratio_max:.0%})"
    return [Finding(FindingKind.DISK, broker.address, text)]


def group_findings(groups: Iterable[GroupSummary], limits: HealthLimits) -> list[Finding]:
    """Groups that are too far behind."""
    found: list[Finding] = []
    for each in groups:
        if each.lag is not None and each.lag > limits.lag_max:
            nobody = ", and no member is connected" if each.members == 0 else ""
            text = f"group {each.group} has {each.lag:,} messages left (limit {limits.lag_max:,}){nobody}"
            found.append(Finding(FindingKind.LAG, each.group, text))
    return found


def member_findings(members: GroupMembers, now_ms: int, limits: HealthLimits | None = None) -> list[Finding]:
    """Members of one group that subscribe differently, or that have stopped."""
    limits = limits or HealthLimits()
    found = [Finding(FindingKind.STUCK, each.who, str(each)) for each in members.failures]
    subscriptions: dict[frozenset[tuple[str, str, str]], list[str]] = {}
    for connection, info in members.running.items():
        subscriptions.setdefault(_expressions(info.subscriptions), []).append(connection.client_id)
        # An ordered consumer may hold messages for long without being stuck.
        if info.properties.get("PROP_CONSUMEORDERLY") == "true":
            continue
        for queue, held in sorted(info.queues.items()):
            found += _stuck(connection.client_id, queue, held, now_ms, limits)
    if len(subscriptions) > 1:
        parts = "; ".join(", ".join(sorted(ids)) for ids in subscriptions.values())
        text = f"members of group {members.group} subscribe differently: {parts}"
        found.append(Finding(FindingKind.SUBSCRIPTIONS, members.group, text))
    return found


def rebalance_findings(members: GroupMembers, queues: Iterable[MessageQueue]) -> list[Finding]:
    """Queues of the group's topics that no member has, or that several have: normal while members come and go.

    Nothing is said when a member did not tell what it has: the queues may be in its hands.
    """
    if members.failures:
        return []
    holders: dict[MessageQueue, list[str]] = {}
    for connection, info in members.running.items():
        for queue, held in info.queues.items():
            if not held.dropped:
                holders.setdefault(queue, []).append(connection.client_id)
    found: list[Finding] = []
    for queue in sorted(queues):
        who = holders.get(queue, [])
        if len(who) != 1:
            text = f"{_shown(queue)} is held by {' and '.join(sorted(who)) or 'no member'}"
            found.append(Finding(FindingKind.REBALANCE, members.group, text))
    return found


def _shown(queue: MessageQueue) -> str:
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


def _expressions(subscriptions: Iterable[Subscription]) -> frozenset[tuple[str, str, str]]:
    return frozenset((each.topic, each.expression, each.kind) for each in subscriptions)


def _stuck(
    client_id: str, queue: MessageQueue, held: HeldQueue, now_ms: int, limits: HealthLimits
) -> list[Finding]:
    waited_ms = now_ms - held.last_consume_ms
    if held.cached_count <= 0 or held.dropped or waited_ms <= limits.blocked_ms:
        return []
    text = f"{client_id} {_shown(queue)} can't consume for a while, maybe blocked, {waited_ms}ms"
    return [Finding(FindingKind.STUCK, client_id, text)]


def failure_findings(failures: Iterable[NotAnswered]) -> list[Finding]:
    """Who did not answer, each once."""
    return [Finding(FindingKind.DEAD, each, each) for each in dict.fromkeys(map(str, failures))]
