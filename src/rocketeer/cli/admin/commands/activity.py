"""`statsAll`: how busy topics are, and what their groups have left to do."""

from typing import Annotated

from rocketeer.admin.blocking import Admin
from rocketeer.admin.results import TopicActivity
from rocketeer.cli.admin.declare import Option, Subject, Watch, command
from rocketeer.cli.admin.output import Cell, Output, OutputTable, columns, fixed


@command(
    "statsAll",
    Subject.TOPICS,
    "Messages in and out of every topic, and what its groups have left",
    watch=Watch(),
)
def stats_all(
    admin: Admin,
    active: Annotated[bool, Option("a", "activeTopic", "only topics that are in use", flag=True)] = False,
    topic: Annotated[str, Option("t", "topic", "one topic only")] | None = None,
) -> Output:
    found = admin.activity(topic)
    rows = [_activity_row(each) for each in found if not active or _is_active(each)]
    table = OutputTable(
        "%-64s  %-64s %12s %11s %11s %14s %14s",
        columns(
            "topic", "#Topic", "group", "#Consumer Group", "lag", "#Accumulation", "inTps", "#InTPS",
            "outTps", "#OutTPS", "in24h", "#InMsg24Hour", "out24h", "#OutMsg24Hour",
        ),
        rows,
        warn=lambda row: (row["lag"] or 0) > 10_000,  # type: ignore[operator]
    )  # fmt: skip
    return Output([table], failures=tuple(failure for each in found for failure in each.failures))


def _is_active(each: TopicActivity) -> bool:
    counts = (each.in_24h, each.out_24h)
    return any(counts) or (None in counts and bool(each.failures))


def _activity_row(each: TopicActivity) -> tuple[object, ...]:
    in_tps = fixed(each.in_tps)
    if each.group is None:
        nobody = Cell(None, "NO_CONSUMER" if not each.failures else "-")
        return (each.topic, Cell(None, ""), each.lag, in_tps, Cell(None, ""), each.in_24h, nobody)
    return (each.topic, each.group, each.lag, in_tps, fixed(each.out_tps), each.in_24h, each.out_24h)
