"""Commands about consumer groups: how far they are, what they are set to, make, change, delete."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import to_builtins

from rocketeer.admin.blocking import Admin
from rocketeer.admin.results import GroupProgress, GroupSummary
from rocketeer.cli.admin.declare import Option, Subject, command
from rocketeer.cli.admin.options import BrokerAddressOption, ClusterName, GroupOption
from rocketeer.cli.admin.output import (
    Cell,
    Output,
    OutputLines,
    OutputTable,
    columns,
    row_object,
    said,
    text_of,
    when,
)
from rocketeer.errors import ConfigError
from rocketeer.model.group import SubscriptionGroup
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import ConsumeType
from rocketeer.protocol.versions import version_name


@command("consumerProgress", Subject.GROUPS, "How far groups are: all in one line each, or one by queue")
def consumer_progress(
    admin: Admin,
    group: Annotated[str, Option("g", "groupName", "one group, by queue")] | None = None,
    show_ip: Annotated[bool, Option("s", "showClientIP", "who has each queue: true or false")] = False,
) -> Output:
    if group is not None:
        return _one(admin, group, show_ip)
    found = admin.groups()
    table = OutputTable(
        "%-64s  %-6s  %-24s %-5s  %-14s  %-7s  %s",
        columns(
            "group", "#Group", "members", "#Count", "version", "#Version", "type", "#Type", "model", "#Model",
            "tps", "#TPS", "lag", "#Diff Total",
        ),
        [_summary_row(each) for each in found],
        warn=lambda row: row["lag"] is None or row["lag"] > 10_000,  # type: ignore[operator]
    )  # fmt: skip
    return Output([table], failures=tuple(failure for each in found for failure in each.failures))


def _summary_row(each: GroupSummary) -> tuple[object, ...]:
    if each.version is None:
        version = Cell(None, "OFFLINE" if each.members == 0 else "-")
    else:
        version = Cell(version_name(each.version), version_name(each.version))
    kind = each.consume_type
    pull = kind == ConsumeType.CONSUME_ACTIVELY
    return (
        each.group,
        each.members,
        version,
        Cell(kind, "" if kind is None else "PULL" if pull else "PUSH"),
        Cell(each.message_model, each.message_model or ""),
        Cell(each.tps, "-" if each.tps is None else str(int(each.tps))),
        each.lag,
    )


def _one(admin: Admin, group: str, show_ip: bool) -> Output:
    progress = admin.group_progress(group)
    if not progress.stats.queues and progress.connections is None and not progress.failures:
        _must_exist(admin, group)
    owners = _owners(admin, progress) if show_ip else {}
    keys = [
        "topic", "#Topic", "broker", "#Broker Name", "queueId", "#QID", "brokerOffset", "#Broker Offset",
        "consumerOffset", "#Consumer Offset", "lag", "#Diff", "lastTime", "#LastTime",
    ]  # fmt: skip
    form = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s  %s"
    if show_ip:
        keys[10:10] = ["clientIp", "#Client IP"]
        form = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s  %s"
    rows = [
        (
            queue.topic,
            queue.broker_name,
            queue.queue_id,
            state.broker_offset,
            state.consumer_offset,
            *([owners.get(queue, Cell(None, "N/A"))] if show_ip else []),
            state.lag,
            when(state.last_ms),
        )
        for queue, state in sorted(progress.stats.queues.items())
    ]
    table = OutputTable(form, columns(*keys), rows, warn=lambda row: row["lag"] > 10_000)  # type: ignore[operator]
    whole = not progress.failures
    data = {
        "group": group,
        "tps": progress.stats.tps if whole else None,
        "lag": progress.lag if whole else None,
        "members": progress.members,
        "queues": [row_object(table, row) for row in rows],
    }
    last = ["", f"Consume TPS: {progress.stats.tps:.2f}", f"Diff Total: {progress.lag}"]
    if not whole:
        last = ["", "Consume TPS: -", "Diff Total: - (not all brokers answered)"]
    return Output([table, OutputLines(last)], data, progress.failures)


def _must_exist(admin: Admin, group: str) -> None:
    """Raise if no broker knows the group: a mistyped one would be shown with a lag of 0."""
    if not admin.group_exists(group):
        raise ConfigError(f"no broker knows the group {group!r}: consumerProgress without -g lists all")


def _owners(admin: Admin, progress: GroupProgress) -> dict[MessageQueue, Cell]:
    """Which member has each queue, by the address before the @ of its client id."""
    owners: dict[MessageQueue, Cell] = {}
    if progress.connections is None:
        return owners
    for connection, info in admin.group_members(progress.group).running.items():
        for queue in info.queues:
            ip = connection.client_id.partition("@")[0]
            owners[queue] = Cell(ip, ip)
    return owners


# --- configuration ------------------------------------------------------------------------------


@command("getConsumerConfig", Subject.GROUPS, "A group's configuration on every broker")
def get_consumer_config(admin: Admin, group: GroupOption) -> Output:
    found = admin.group_configs()
    having = {broker: table[group] for broker, table in found if group in table}
    if not having and not found.failures:
        raise ConfigError(f"no broker has a consumer group {group!r}")

    def parts() -> Iterator[OutputTable | OutputLines]:
        for broker, config in having.items():
            rule = "=" * 29
            yield OutputLines([f"{rule}{broker.cluster}:{broker.name}{rule}"])
            rows = list(to_builtins(config).items())
            yield OutputTable("%-40s=  %s", columns("name", "name", "value", "value"), rows, heading=False)

    data = {broker.name: to_builtins(config) for broker, config in having.items()}
    return Output(parts(), data, found.failures)


@command(
    "updateSubGroup",
    Subject.GROUPS,
    "Make a consumer group or change it, on a broker or on a cluster",
    one_of=(("broker", "cluster"),),
)
def update_sub_group(
    admin: Admin,
    group: GroupOption,
    broker: BrokerAddressOption | None = None,
    cluster: ClusterName | None = None,
    consume: Annotated[bool, Option("s", "consumeEnable", "whether it may consume (true)")] = True,
    from_min: Annotated[
        bool, Option("m", "consumeFromMinEnable", "whether it may begin at the oldest (false)")
    ] = False,
    broadcast: Annotated[
        bool, Option("d", "consumeBroadcastEnable", "whether it may broadcast (false)")
    ] = False,
    retry_queues: Annotated[int, Option("q", "retryQueueNums", "queues of its retry topic (1)")] = 1,
    retry_max: Annotated[int, Option("r", "retryMaxTimes", "tries of a message that fails (16)")] = 16,
    broker_id: Annotated[int, Option("i", "brokerId", "from which broker id it reads (0)")] = 0,
    slow_broker: Annotated[
        int, Option("w", "whichBrokerWhenConsumeSlowly", "from which when it is slow (1)")
    ] = 1,
    notify: Annotated[
        bool, Option("a", "notifyConsumerIdsChanged", "whether members hear of each other at once (true)")
    ] = True,
) -> Output:
    config = SubscriptionGroup(
        group, consume, from_min, broadcast, retry_queues, retry_max, broker_id, slow_broker, notify
    )
    done = admin.update_group(config, broker=broker, cluster=cluster)
    lines = [f"create subscription group to {each.address} success." for each in done.brokers]
    shown = ", ".join(f"{name}={text_of(value)}" for name, value in to_builtins(config).items())
    data = {**to_builtins(config), "brokers": [each.address for each in done.brokers]}
    return said(*lines, f"SubscriptionGroupConfig [{shown}]", data=data, failures=done.failures)


def _delete_danger(
    admin: Admin, group: str, broker: str | None, cluster: str | None, remove_offset: bool
) -> list[str]:
    where = broker or f"every broker of {cluster}"
    lines = [f"Consumer group {group} will be deleted on {where}."]
    if remove_offset:
        lines.append("How far it has consumed is forgotten.")
    if broker is None:
        lines.append(f"Its topics %RETRY%{group} and %DLQ%{group} go with their messages.")
    return lines


@command(
    "deleteSubGroup",
    Subject.GROUPS,
    "Delete a consumer group, from a broker or from a cluster with its retry topics",
    danger=_delete_danger,
    one_of=(("broker", "cluster"),),
)
def delete_sub_group(
    admin: Admin,
    group: GroupOption,
    broker: BrokerAddressOption | None = None,
    cluster: ClusterName | None = None,
    remove_offset: Annotated[bool, Option("r", "removeOffset", "forget its offsets (false)")] = False,
) -> Output:
    done = admin.delete_group(
        group, broker=broker, cluster=None if broker else cluster, offsets=remove_offset
    )
    if broker is not None:
        lines = [f"delete subscription group [{group}] from broker [{broker}] success."]
        return said(*lines, failures=done.failures)
    lines = [
        f"delete subscription group [{group}] from broker [{each.address}] in cluster [{cluster}] success."
        for each in done.brokers
    ]
    if not done.failures:
        for topic in (f"%RETRY%{group}", f"%DLQ%{group}"):
            lines.append(f"delete topic [{topic}] from cluster [{cluster}] success.")
            lines.append(f"delete topic [{topic}] from NameServer success.")
    return said(*lines, failures=done.failures)
