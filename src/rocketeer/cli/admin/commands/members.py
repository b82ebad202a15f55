"""Commands about the members of a consumer group: who is connected, and what each tells of itself."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from rocketeer.admin import health
from rocketeer.admin.blocking import Admin
from rocketeer.admin.plans import groups as plans
from rocketeer.admin.results import GroupMembers
from rocketeer.cli.admin.declare import Option, Subject, command
from rocketeer.cli.admin.options import BrokerAddressOption, ConsumerGroupOption
from rocketeer.cli.admin.output import Cell, Output, OutputLines, OutputTable, columns, when
from rocketeer.errors import NoRoute
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import ConsumeType, MessageModel
from rocketeer.protocol.bodies.running_info import HeldQueue, RunningInfo
from rocketeer.protocol.versions import version_name

STACKS_S = 30.0
"""A member may need long to write down where its threads are."""


@command("consumerConnection", Subject.GROUPS, "Who is connected in a group, and what it subscribes to")
def consumer_connection(
    admin: Admin, group: ConsumerGroupOption, broker: BrokerAddressOption | None = None
) -> Output:
    found = admin.group_connections(group, broker=broker)
    clients = OutputTable(
        "%-36s %-22s %-10s %s",
        columns(
            "clientId", "#ClientId", "address", "#ClientAddr", "language", "#Language", "version", "#Version"
        ),
        [
            (each.client_id, each.address, each.language, version_name(each.version))
            for each in found.connections
        ],
    )
    topics = OutputTable(
        "%-20s %s",
        columns("topic", "#Topic", "expression", "#SubExpression"),
        [(topic, each.expression) for topic, each in sorted(found.subscriptions.items())],
    )
    how = [
        "",
        f"ConsumeType: {found.consume_type}",
        f"MessageModel: {found.message_model}",
        f"ConsumeFromWhere: {found.consume_from_where}",
    ]
    data = {
        "group": group,
        "connections": [
            {
                "clientId": each.client_id, "address": each.address, "language": each.language,
                "version": version_name(each.version),
            }
            for each in found.connections
        ],
        "subscriptions": {topic: each.expression for topic, each in sorted(found.subscriptions.items())},
        "consumeType": found.consume_type,
        "messageModel": found.message_model,
        "consumeFromWhere": found.consume_from_where,
    }  # fmt: skip
    return Output([clients, OutputLines(["", "Below is subscription:"]), topics, OutputLines(how)], data)


@command(
    "consumerStatus", Subject.GROUPS, "What the members of a group are doing, and what is wrong with them"
)
def consumer_status(
    admin: Admin,
    group: ConsumerGroupOption,
    client_id: Annotated[str, Option("i", "clientId", "one member, in full")] | None = None,
    broker: BrokerAddressOption | None = None,
    stacks: Annotated[bool, Option("s", "jstack", "with where its threads are", flag=True)] = False,
) -> Output:
    context = replace(admin.context(), timeout_s=max(STACKS_S, admin.context().timeout_s))
    if client_id is not None:
        plan = plans.running_info(context, group, client_id, broker=broker, stacks=stacks)
        info = admin.run(plan)
        return Output(_info_parts(info), _info_data(info))
    members = admin.run(plans.group_members(context, group, broker=broker, stacks=stacks))
    folder = Path(str(time.time_ns() // 1_000_000))
    rows: list[tuple[object, ...]] = []
    for number, (connection, info) in enumerate(members.running.items(), start=1):
        path = folder / connection.client_id.replace("/", "_")
        folder.mkdir(exist_ok=True)
        path.write_text("\n".join(_part_lines(info)) + "\n")
        rows.append((number, connection.client_id, version_name(connection.version), str(path)))
    table = OutputTable(
        "%-10s %-40s %-20s %s",
        columns(
            "number", "#Index", "clientId", "#ClientId", "version", "#Version", "file",
            "#ConsumerRunningInfoFile",
        ),
        rows,
    )  # fmt: skip
    now_ms = time.time_ns() // 1_000_000
    wrong = health.member_findings(members, now_ms)
    same = "Same" if not any(each.kind is health.FindingKind.SUBSCRIPTIONS for each in wrong) else "Different"
    unshared = health.rebalance_findings(members, _shared_queues(admin, members))
    wrong += unshared
    shared = "Rebalance OK" if not unshared else "Rebalance Failed"
    last = ["", "", f"{same} subscription in the same group of consumer", "", shared]
    last += [str(each) for each in wrong]
    data = {
        "group": group,
        "members": {each.client_id: _info_data(info) for each, info in members.running.items()},
        "findings": [str(each) for each in wrong],
    }
    return Output([table, OutputLines(last)], data, members.failures)


def _shared_queues(admin: Admin, members: GroupMembers) -> list[MessageQueue]:
    """The queues the members should have shared out among them: only those who consume in turns do that."""
    group = members.connections
    if group.message_model != MessageModel.CLUSTERING or group.consume_type != ConsumeType.CONSUME_PASSIVELY:
        return []
    found: list[MessageQueue] = []
    for topic in group.subscriptions:
        with contextlib.suppress(NoRoute):  # subscribed, and not made yet
            found += admin.queues(topic)
    return found


def _info_data(info: RunningInfo) -> dict[str, object]:
    return {
        "properties": dict(info.properties),
        "subscriptions": {each.topic: each.expression for each in info.subscriptions},
        "queues": [
            {
                "topic": queue.topic, "broker": queue.broker_name, "queueId": queue.queue_id,
                "commitOffset": held.commit_offset, "cached": held.cached_count, "locked": held.locked,
                "dropped": held.dropped, "lastPullMs": held.last_pull_ms,
                "lastConsumeMs": held.last_consume_ms,
            }
            for queue, held in sorted(info.queues.items())
        ],
        "stacks": info.stacks,
    }  # fmt: skip


def _part_lines(info: RunningInfo) -> Iterator[str]:
    from rocketeer.cli.admin.output import plain_lines

    yield from plain_lines(Output(_info_parts(info)))


def _info_parts(info: RunningInfo) -> Iterator[OutputTable | OutputLines]:
    yield OutputLines(["#Consumer Properties#"])
    yield OutputTable(
        "%-40s: %s", columns("name", "name", "value", "value"), list(info.properties.items()), heading=False
    )
    yield OutputLines(["", "", "#Consumer Subscription#"])
    yield OutputLines(
        f"{number:03d} Topic: {each.topic:<40} ClassFilter: {str(each.class_filter).lower():<8} "
        f"SubExpression: {each.expression}"
        for number, each in enumerate(sorted(info.subscriptions, key=lambda each: each.topic), start=1)
    )
    yield OutputLines(["", "", "#Consumer Offset#"])
    places = sorted(info.queues.items())
    where = ("topic", "#Topic", "broker", "#Broker Name", "queueId", "#QID")
    yield OutputTable(
        "%-32s  %-32s  %-4s  %-20s",
        columns(*where, "offset", "#Consumer Offset"),
        [(queue.topic, queue.broker_name, queue.queue_id, held.commit_offset) for queue, held in places],
        head_form="%-64s  %-32s  %-4s  %-20s",
    )
    yield OutputLines(["", "", "#Consumer MQ Detail#"])
    yield OutputTable(
        "%-64s  %-32s  %-4s  %-20s",
        columns(*where, "state", "#ProcessQueueInfo"),
        [(queue.topic, queue.broker_name, queue.queue_id, _held_text(held)) for queue, held in places],
    )
    yield OutputLines(["", "", "#Consumer RT&TPS#"])
    yield OutputTable(
        "%-32s  %14s %14s %14s %14s %18s %25s",
        columns(
            "topic", "#Topic", "pullMs", "#Pull RT", "pullTps", "#Pull TPS", "consumeMs", "#Consume RT",
            "consumeTps", "#ConsumeOK TPS", "failedTps", "#ConsumeFailed TPS", "failed",
            "#ConsumeFailedMsgsInHour",
        ),
        [
            (
                topic, f"{each.pull_ms:.2f}", f"{each.pull_tps:.2f}", f"{each.consume_ms:.2f}",
                f"{each.consume_ok_tps:.2f}", f"{each.consume_failed_tps:.2f}", each.consume_failed_count,
            )
            for topic, each in sorted(info.topics.items())
        ],
        head_form="%-64s  %14s %14s %14s %14s %18s %25s",
    )  # fmt: skip
    if info.stacks is not None:
        yield OutputLines(["", "", "#Consumer jstack#"])
        yield OutputLines(info.stacks.splitlines())


def _held_text(held: HeldQueue) -> Cell:
    lock, pull, consume = (
        when(ms, "%Y%m%d%H%M%S").text + f"{ms % 1000:03d}" if ms else "0"
        for ms in (held.last_lock_ms, held.last_pull_ms, held.last_consume_ms)
    )
    text = (
        f"ProcessQueueInfo [commitOffset={held.commit_offset}, cachedMsgMinOffset={held.cached_min_offset}, "
        f"cachedMsgMaxOffset={held.cached_max_offset}, cachedMsgCount={held.cached_count}, "
        f"cachedMsgSizeInMiB={held.cached_mib}, transactionMsgMinOffset={held.in_transaction_min_offset}, "
        f"transactionMsgMaxOffset={held.in_transaction_max_offset}, "
        f"transactionMsgCount={held.in_transaction_count}, locked={str(held.locked).lower()}, "
        f"tryUnlockTimes={held.unlock_tries}, lastLockTimestamp={lock}, droped={str(held.dropped).lower()}, "
        f"lastPullTimestamp={pull}, lastConsumeTimestamp={consume}]"
    )
    return Cell(text, text)
