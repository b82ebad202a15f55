"""`startMonitoring`: looks at everything again and again and says what is wrong."""

import time
from typing import Annotated
from weakref import WeakKeyDictionary

from rocketeer.admin import health
from rocketeer.admin.blocking import Admin
from rocketeer.admin.plans.asking import in_parallel
from rocketeer.admin.plans.groups import group_members
from rocketeer.admin.results import ClusterBroker
from rocketeer.cli.admin.declare import Option, Subject, Watch, command
from rocketeer.cli.admin.output import Output, OutputLines, OutputTable, columns, row_object
from rocketeer.errors import RocketeerError


@command(
    "startMonitoring",
    Subject.CLUSTERS,
    "Say what is wrong: lag, stuck members, differing subscriptions, full disks, dead brokers",
    watch=Watch(every_s=60.0),
)
def start_monitoring(
    admin: Admin,
    lag: Annotated[int, Option("l", "lag", "messages a group may have left (10000)")] = 10_000,
    disk: Annotated[float, Option("d", "disk", "how full a disk may be (0.75)")] = 0.75,
    blocked_s: Annotated[int, Option("s", "blocked", "seconds a member may hold messages (60)")] = 60,
) -> Output:
    limits = health.HealthLimits(lag, disk, blocked_s * 1000)
    found = _vanished(admin) + look(admin, limits)
    rows = [(time.strftime("%Y-%m-%d %H:%M:%S"), each.kind.value, each.text) for each in found]
    if not rows:
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        return Output([OutputLines([f"{now}  nothing is wrong"], good=True)], [])
    table = OutputTable(
        "%s  %-14s %s",
        columns("time", "#Time", "kind", "#Kind", "finding", "#Finding"),
        rows,
        heading=False,
        warn=lambda row: True,
    )
    return Output([table], [row_object(table, row) for row in rows])


_seen: WeakKeyDictionary[Admin, set[ClusterBroker]] = WeakKeyDictionary()
"""The brokers of earlier rounds: a name server forgets one that is gone, and then nobody would miss it."""


def _vanished(admin: Admin) -> list[health.Finding]:
    now = set(admin.cluster_map().brokers)
    seen = _seen.setdefault(admin, set())
    gone = sorted(seen - now)
    seen |= now
    return [
        health.Finding(
            health.FindingKind.DEAD,
            each.address,
            f"{each} is not registered any more: it ended or is cut off",
        )
        for each in gone
    ]


def look(admin: Admin, limits: health.HealthLimits) -> list[health.Finding]:
    """Return all that is wrong with the cluster at this moment."""
    found = health.broker_findings(admin.cluster_runtime(), limits)
    dead = {each.who for each in found if each.kind is health.FindingKind.DEAD}
    groups = admin.groups()
    others = [failure for each in groups for failure in each.failures if failure.who not in dead]
    found += health.failure_findings(others)
    found += health.group_findings(groups, limits)
    online = [each.group for each in groups if each.members]
    context = admin.context()
    outcomes = admin.run(in_parallel([group_members(context, group) for group in online]))
    for group, members in zip(online, outcomes, strict=True):
        if isinstance(members, RocketeerError):
            text = f"the members of group {group} cannot be asked: {members}"
            found.append(health.Finding(health.FindingKind.DEAD, group, text))
        else:
            found += health.member_findings(members, time.time_ns() // 1_000_000, limits)
    return found
