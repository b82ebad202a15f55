"""Commands that look behind messages: who sent and consumed one (traces), and entries of a consume queue."""

from typing import Annotated

from rocketeer.admin.blocking import Admin
from rocketeer.cli.admin.declare import Option, Subject, command
from rocketeer.cli.admin.options import Topic
from rocketeer.cli.admin.output import Cell, Output, OutputLines, OutputTable, columns, text_of, when
from rocketeer.errors import MessageNotFound
from rocketeer.model.topic import TRACE_TOPIC
from rocketeer.record.trace import TraceEvent, TraceKind

# --- trace --------------------------------------------------------------------------------------


@command(
    "queryMsgTraceById",
    Subject.MESSAGES,
    "Who sent and who consumed a message, if they leave traces",
    aliases=("QueryMsgTraceById",),
)
def query_msg_trace_by_id(
    admin: Admin,
    message_id: Annotated[str, Option("i", "msgId", "the id its producer gave")],
    trace_topic: Annotated[
        str, Option("t", "traceTopic", f"the topic of traces ({TRACE_TOPIC})")
    ] = TRACE_TOPIC,
) -> Output:
    events = admin.message_trace(message_id, trace_topic=trace_topic)
    if not events:
        raise MessageNotFound(f"no trace of message {message_id} in topic {trace_topic!r}: is tracing on?")
    sent = [_row("Pub", each, each) for each in events if each.kind is TraceKind.PUB]
    began = {each.request_id: each for each in events if each.kind is TraceKind.SUB_BEFORE}
    consumed = [
        _row("Sub", each, began.get(each.request_id, each))
        for each in events
        if each.kind is TraceKind.SUB_AFTER
    ]
    parts: list[OutputTable | OutputLines] = []
    if sent:
        parts += [_table("#ProducerGroup", "#SendTime", sent), OutputLines([""])]
    if consumed:
        parts += [_table("#ConsumerGroup", "#ConsumerTime", consumed), OutputLines([""])]
    keys = ("type", "group", "host", "timeMs", "costMs", "status")
    return Output(parts, [dict(zip(keys, each, strict=True)) for each in (*sent, *consumed)])


def _row(kind: str, end: TraceEvent, begin: TraceEvent) -> tuple[object, ...]:
    """One line: a consumption's beginning and end are two events."""
    group = end.group or begin.group or ""
    took = Cell(end.cost_ms, f"{end.cost_ms}ms")
    return (
        kind,
        group,
        end.client_host or "",
        when(begin.time_ms),
        took,
        "success" if end.success else "failed",
    )


def _table(who: str, time_title: str, rows: list[tuple[object, ...]]) -> OutputTable:
    titles = columns(
        "type", "#Type", "group", who, "host", "#ClientHost", "timeMs", time_title, "costMs", "#CostTimes",
        "status", "#Status",
    )  # fmt: skip
    return OutputTable("%-10s %-20s %-20s %-20s %-10s %-10s", titles, rows)


# --- entries ------------------------------------------------------------------------------------


@command("queryCq", Subject.MESSAGES, "Entries of a consume queue, and what a group's filter says of them")
def query_cq(
    admin: Admin,
    topic: Topic,
    queue_id: Annotated[int, Option("q", "queue", "number of the queue")],
    index: Annotated[int, Option("i", "index", "the first entry")],
    count: Annotated[int, Option("c", "count", "how many (10)")] = 10,
    broker: Annotated[str, Option("b", "broker", "address of the broker: host:port")] | None = None,
    group: Annotated[str, Option("g", "consumer", "name of the consumer group")] | None = None,
) -> Output:
    found = admin.queue_entries(topic, queue_id, index, count=count, group=group, broker=broker)
    rule = "=" * 38
    lines: list[str] = []
    if found.subscription is not None:
        lines += ["Subscription data: ", str(found.subscription), rule]
    if found.filter_data is not None:
        lines += ["Filter data: ", found.filter_data, rule]
    lines += ["Queue data: ", f"max: {found.max_index}, min: {found.min_index}", rule]
    for number, each in enumerate(found.entries, start=index):
        lines.append(f"idx: {number}")
        extension, bits, text = (
            "null" if value is None else value for value in (each.extension, each.bits, each.message)
        )
        lines.append(
            f"ConsumeQueueData{{physicOffset={each.log_offset}, physicSize={each.size}, tagsCode={each.tags_code}, "
            f"extendDataJson='{extension}', bitMap='{bits}', eval={text_of(each.matches)}, msg='{text}'}}"
        )
        lines.append(rule)
    data = {
        "minIndex": found.min_index,
        "maxIndex": found.max_index,
        "filterData": found.filter_data,
        "entries": [
            {
                "index": number, "logOffset": each.log_offset, "size": each.size, "tagsCode": each.tags_code,
                "matches": each.matches, "extension": each.extension, "bits": each.bits, "message": each.message,
            }
            for number, each in enumerate(found.entries, start=index)
        ],
    }  # fmt: skip
    return Output([OutputLines(lines)], data)
