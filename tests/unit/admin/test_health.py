"""Laws of what is wrong with a cluster: each kind of trouble is found, and what is well is not."""

import dataclasses

from rocketeer.admin.health import (
    Finding,
    FindingKind,
    HealthLimits,
    broker_findings,
    group_findings,
    member_findings,
    rebalance_findings,
)
from rocketeer.admin.results import (
    BrokerRuntime,
    ClusterBroker,
    GroupMembers,
    GroupSummary,
    NotAnswered,
    PerBroker,
)
from rocketeer.errors import CallTimeout
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import Subscription
from rocketeer.protocol.bodies.connections import ClientConnection, GroupConnections
from rocketeer.protocol.bodies.running_info import HeldQueue, RunningInfo

A = ClusterBroker("c", "broker-a", 0, "10.0.0.1:10911")
QUEUE = MessageQueue("Orders", "broker-a", 0)
NOW_MS = 1_000_000
LIMITS = HealthLimits(lag_max=100, disk_ratio_max=0.75, blocked_ms=60_000)


def kinds(findings: list[Finding]) -> list[FindingKind]:
    return [each.kind for each in findings]


def members(*infos: RunningInfo) -> GroupMembers:
    clients = [ClientConnection(f"10.0.0.{n}:1", f"10.0.0.{n}@x", "PYTHON", 409) for n in range(len(infos))]
    connections = GroupConnections(tuple(clients), None, None, None)
    return GroupMembers("billing", connections, dict(zip(clients, infos, strict=True)))


def running(held: HeldQueue | None = None, *, expression: str = "*", ordered: bool = False) -> RunningInfo:
    properties = {"PROP_CONSUMEORDERLY": "true" if ordered else "false"}
    return RunningInfo(
        properties, (Subscription("Orders", expression),), {} if held is None else {QUEUE: held}
    )


def test_a_silent_broker_and_a_full_disk_are_found() -> None:
    silent = NotAnswered("broker-b (10.0.0.2:10911)", CallTimeout("10.0.0.2:10911", 28, 3))
    full = PerBroker({A: BrokerRuntime({"commitLogDiskRatio": "0.91"})}, (silent,))
    found = broker_findings(full, LIMITS)
    assert kinds(found) == [FindingKind.DEAD, FindingKind.DISK]
    assert "91% full" in found[1].text
    assert broker_findings(PerBroker({A: BrokerRuntime({"commitLogDiskRatio": "0.5"})}), LIMITS) == []


def test_a_figure_the_broker_does_not_tell_is_no_finding() -> None:
    assert broker_findings(PerBroker({A: BrokerRuntime({})}), LIMITS) == []


def test_lag_is_found_and_who_nobody_consumes_for_is_said() -> None:
    groups = [
        GroupSummary("well", 1, lag=100),
        GroupSummary("late", 1, lag=101),
        GroupSummary("left", 0, lag=5000),
        GroupSummary("unknown", None, lag=None),
    ]
    found = group_findings(groups, LIMITS)
    assert [each.who for each in found] == ["late", "left"]
    assert "no member is connected" in found[1].text


def test_a_member_that_holds_messages_and_finishes_none_is_stuck() -> None:
    stuck = HeldQueue(5, cached_count=3, last_consume_ms=NOW_MS - 60_001)
    assert kinds(member_findings(members(running(stuck)), NOW_MS, LIMITS)) == [FindingKind.STUCK]
    for well in (
        HeldQueue(5, cached_count=3, last_consume_ms=NOW_MS - 59_000),
        HeldQueue(5, cached_count=0, last_consume_ms=0),
        HeldQueue(5, cached_count=3, last_consume_ms=0, dropped=True),
    ):
        assert member_findings(members(running(well)), NOW_MS, LIMITS) == []


def test_an_ordered_consumer_may_hold_messages_for_long() -> None:
    held = HeldQueue(5, cached_count=3, last_consume_ms=0)
    assert member_findings(members(running(held, ordered=True)), NOW_MS, LIMITS) == []


def test_members_that_subscribe_differently_are_found() -> None:
    same = members(running(expression="a"), running(expression="a"))
    assert member_findings(same, NOW_MS, LIMITS) == []
    differ = members(running(expression="a"), running(expression="b"))
    (found,) = member_findings(differ, NOW_MS, LIMITS)
    assert found.kind is FindingKind.SUBSCRIPTIONS
    assert "10.0.0.0@x; 10.0.0.1@x" in found.text


def test_queues_nobody_has_and_queues_two_members_have_are_found() -> None:
    other = MessageQueue("Orders", "broker-a", 1)
    one = running(HeldQueue(0))
    assert rebalance_findings(members(one), [QUEUE]) == []
    (nobody,) = rebalance_findings(members(one), [QUEUE, other])
    assert "queueId=1] is held by no member" in nobody.text
    (both,) = rebalance_findings(members(one, running(HeldQueue(0))), [QUEUE])
    assert "is held by 10.0.0.0@x and 10.0.0.1@x" in both.text
    assert rebalance_findings(members(one, running(HeldQueue(0, dropped=True))), [QUEUE]) == []


def test_who_did_not_tell_may_have_the_queue() -> None:
    found = members(running())
    silent = NotAnswered("member x", CallTimeout("10.0.0.2:10911", 307, 3))
    assert rebalance_findings(dataclasses.replace(found, failures=(silent,)), [QUEUE]) == []
