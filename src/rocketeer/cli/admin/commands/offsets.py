"""Commands about offsets: set groups back or forward, copy one group's places to another."""

from typing import Annotated

from rocketeer.admin.blocking import Admin
from rocketeer.admin.plans.offsets import NOW_MS
from rocketeer.admin.results import OffsetReset
from rocketeer.cli.admin.declare import Option, Subject, command
from rocketeer.cli.admin.options import Topic, time_ms
from rocketeer.cli.admin.output import Output, OutputLines, OutputTable, columns, said, text_of

TheGroup = Annotated[str, Option("g", "group", "name of the consumer group")]
Force = Annotated[bool, Option("f", "force", "also over messages not consumed yet: true or false (true)")]
Timestamp = Annotated[
    str, Option("s", "timestamp", "now, milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS")
]
Cpp = Annotated[bool, Option("c", "cplus", "the group's members are C++ clients: tables only", flag=True)]


def _reset_danger(admin: Admin, group: str, topic: str, timestamp: str, force: bool, cpp: bool) -> list[str]:
    _target(timestamp)
    progress = admin.group_progress(group, topic)
    return [
        f"Group {group} will consume topic {topic} from {timestamp} on, in {len(progress.stats.queues)} queues; "
        f"it has {progress.lag:,} messages left now and {progress.members} members connected."
    ]


def _target(timestamp: str) -> int:
    return NOW_MS if timestamp.lower() == "now" else time_ms(timestamp)


@command(
    "resetOffsetByTime",
    Subject.OFFSETS,
    "Have a group consume a topic from a time on, while its members run",
    danger=_reset_danger,
)
def reset_offset_by_time(
    admin: Admin, group: TheGroup, topic: Topic, timestamp: Timestamp, force: Force = True, cpp: Cpp = False
) -> Output:
    target = _target(timestamp)
    done = admin.reset_offsets(group, topic, target, force=force, cpp=cpp)
    kind = "group" if done.online else "consumerGroup"
    head = (
        f"rollback consumer offset by specified {kind}[{group}], topic[{topic}], force[{text_of(force)}], "
        f"timestamp(string)[{timestamp}], timestamp(long)[{target}]"
    )
    return _shown(done, [head])


def _skip_danger(admin: Admin, group: str, topic: str, force: bool) -> list[str]:
    progress = admin.group_progress(group, topic)
    return [f"Group {group} will skip {progress.lag:,} messages of topic {topic} it has not consumed."]


@command(
    "skipAccumulatedMessage",
    Subject.OFFSETS,
    "Have a group skip all it has not consumed yet of a topic",
    danger=_skip_danger,
)
def skip_accumulated_message(admin: Admin, group: TheGroup, topic: Topic, force: Force = True) -> Output:
    return _shown(admin.reset_offsets(group, topic, NOW_MS, force=force), [])


def _shown(done: OffsetReset, head: list[str]) -> Output:
    if done.online:
        table = OutputTable(
            "%-40s  %-40s  %-40s",
            columns("broker", "#brokerName", "queueId", "#queueId", "offset", "#offset"),
            [(each.queue.broker_name, each.queue.queue_id, each.offset) for each in done.changes],
        )
    else:
        table = OutputTable(
            "%-20s  %-20s  %-20s  %-20s  %-20s  %-20s",
            columns(
                "broker", "#brokerName", "queueId", "#queueId", "brokerOffset", "#brokerOffset",
                "consumerOffset", "#consumerOffset", "timestampOffset", "#timestampOffset", "offset",
                "#rollbackOffset",
            ),
            [
                (
                    each.queue.broker_name, each.queue.queue_id, each.broker_offset, each.consumer_offset,
                    each.offset_at_time, each.offset,
                )
                for each in done.changes
            ],
        )  # fmt: skip
    data = {
        "group": done.group,
        "topic": done.topic,
        "online": done.online,
        "queues": [
            {"broker": each.queue.broker_name, "queueId": each.queue.queue_id, "offset": each.offset}
            for each in done.changes
        ],
    }
    return Output([OutputLines(head), table], data, done.failures)


@command("cloneGroupOffset", Subject.OFFSETS, "Have one group begin where another is in a topic")
def clone_group_offset(
    admin: Admin,
    source: Annotated[str, Option("s", "srcGroup", "the group to copy from")],
    target: Annotated[str, Option("d", "destGroup", "the group to copy to")],
    topic: Topic,
    offline: Annotated[
        bool, Option("o", "offline", "though members of the other group are connected: true or false")
    ] = False,
) -> Output:
    offsets = admin.clone_offsets(source, target, topic, offline=offline)
    data = {
        "source": source,
        "target": target,
        "topic": topic,
        "queues": [
            {"broker": queue.broker_name, "queueId": queue.queue_id, "offset": offset}
            for queue, offset in sorted(offsets.items())
        ],
    }
    return said(
        f"clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]", data=data
    )
