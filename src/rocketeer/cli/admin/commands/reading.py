"""Commands that print messages of a topic or of a queue, one after the other, however many there are."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Final, NamedTuple

from rocketeer.admin.blocking import Admin
from rocketeer.admin.plans.messages import TOOLS_GROUP
from rocketeer.cli.admin.commands.messages import message_data, properties_text, pulled_properties
from rocketeer.cli.admin.declare import Option, Subject, command
from rocketeer.cli.admin.options import Topic, time_ms
from rocketeer.cli.admin.output import Output, OutputLines
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.plans.pull import PullResult
from rocketeer.errors import ConfigError
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import SUB_ALL

Charset = Annotated[str, Option("c", "charsetName", "how bodies are written (UTF-8)")]
Tags = Annotated[str, Option("s", "subExpression", "tags: TagA || TagB (all)")]
BeginOption = Annotated[int, Option("b", "beginTimestamp", "from this time on", parse=time_ms)]
End = Annotated[int, Option("e", "endTimestamp", "up to this time", parse=time_ms)]

RULE: Final = "-" * 56


class Pulled(NamedTuple):
    """A message, and the answer it came with."""

    message: ReceivedMessage
    result: PullResult


def message_line(pulled: Pulled, charset: str | None) -> str:
    """A message as RocketMQ's tool prints it; the body at its end when a charset is given."""
    message = pulled.message
    numbers = [byte - 256 if byte > 127 else byte for byte in message.body]  # Java's bytes have a sign
    transaction = message.properties.get("__transactionId__")
    text = (
        f"MSGID: {message.message_id} MessageExt [brokerName={message.broker_name}, "
        f"queueId={message.stored_queue_id}, storeSize={message.size}, queueOffset={message.queue_offset}, "
        f"sysFlag={message.sys_flag}, bornTimestamp={message.born_ms}, bornHost=/{message.born_host}, "
        f"storeTimestamp={message.store_ms}, storeHost=/{message.store_host}, "
        f"msgId={message.offset_message_id}, commitLogOffset={message.log_offset}, "
        f"bodyCRC={message.body_crc}, reconsumeTimes={message.reconsume_times}, "
        f"preparedTransactionOffset={message.prepared_offset}, "
        f"toString()=Message{{topic='{message.stored_topic}', flag={message.flag}, "
        f"properties={properties_text(message, pulled_properties(pulled.result))}, body={numbers}, "
        f"transactionId='{transaction or 'null'}'}}]"
    )
    return f"{text} BODY: {body_text(message, charset)}" if charset else text


def body_text(message: ReceivedMessage, charset: str) -> str:
    try:
        return message.body.decode(charset, "replace")
    except LookupError:
        raise ConfigError(f"--charsetName {charset!r} is no charset: UTF-8, GBK ...") from None


def read(
    admin: Admin, queue: MessageQueue, begin: int, end: int, tags: str = SUB_ALL, group: str = TOOLS_GROUP
) -> Iterator[Pulled]:
    """The messages of a queue from one offset up to another, pulled as they are wanted."""
    at = begin
    while at < end:
        result = admin.pull_messages(queue, at, tags=tags, group=group)
        for message in result.messages:
            if message.queue_offset >= end:
                return
            yield Pulled(message, result)
        if result.next_offset <= at:
            return
        at = result.next_offset


def bounds(admin: Admin, queue: MessageQueue, begin_ms: int | None, end_ms: int | None) -> tuple[int, int]:
    """The offsets between two times; the queue's own where no time is given."""
    least, most = admin.queue_range(queue)
    begin = least if begin_ms is None else admin.offset_at(queue, begin_ms)
    end = most if end_ms is None else admin.offset_at(queue, end_ms)
    return begin, end


@command("printMsg", Subject.MESSAGES, "Print the messages of a topic")
def print_msg(
    admin: Admin,
    topic: Topic,
    charset: Charset = "UTF-8",
    tags: Tags = SUB_ALL,
    begin_ms: BeginOption | None = None,
    end_ms: End | None = None,
    print_body: Annotated[bool, Option("d", "printBody", "with bodies: true or false (true)")] = True,
) -> Output:
    queues = admin.queues(topic)
    ranges = [(queue, *bounds(admin, queue, begin_ms, end_ms)) for queue in queues]

    def parts() -> Iterator[OutputLines]:
        for queue, begin, end in ranges:
            shown = f"MessageQueue [topic={topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
            yield OutputLines([f"minOffset={begin}, maxOffset={end}, {shown}"])
            messages = read(admin, queue, begin, end, tags)
            yield OutputLines(message_line(each, charset if print_body else None) for each in messages)
            yield OutputLines([RULE])

    return Output(parts(), rows=_rows(admin, ranges, tags))


def _rows(
    admin: Admin, ranges: list[tuple[MessageQueue, int, int]], tags: str, group: str = TOOLS_GROUP
) -> Iterator[dict[str, object]]:
    for queue, begin, end in ranges:
        for pulled in read(admin, queue, begin, end, tags, group):
            yield message_data(pulled.message)


@command("printMsgByQueue", Subject.MESSAGES, "Print the messages of one queue, or count their tags")
def print_msg_by_queue(
    admin: Admin,
    topic: Topic,
    broker: Annotated[str, Option("a", "brokerName", "name of the broker")],
    queue_id: Annotated[int, Option("i", "queueId", "number of the queue")],
    charset: Charset = "UTF-8",
    tags: Tags = SUB_ALL,
    begin_ms: BeginOption | None = None,
    end_ms: End | None = None,
    print_messages: Annotated[bool, Option("p", "print msg", "print them: true or false (false)")] = False,
    print_body: Annotated[bool, Option("d", "printBody", "with bodies: true or false (false)")] = False,
    count_tags: Annotated[bool, Option("f", "calculate", "count tags: true or false (false)")] = False,
) -> Output:
    queue = MessageQueue(topic, broker, queue_id)
    if queue not in admin.queues(topic):
        raise ConfigError(f"topic {topic!r} has no queue {queue_id} on {broker}")
    begin, end = bounds(admin, queue, begin_ms, end_ms)
    counts: Counter[str] = Counter()

    def lines() -> Iterator[str]:
        for pulled in read(admin, queue, begin, end, tags):
            tag = pulled.message.tags
            if tag is not None:
                counts[tag] += 1
            if print_messages:
                yield message_line(pulled, charset if print_body else None)
        if count_tags:
            for tag, count in counts.most_common():
                yield f"Tag: {tag:<30} Count: {count}"

    return Output([OutputLines(lines())], rows=_rows(admin, [(queue, begin, end)], tags))


@command("consumeMessage", Subject.MESSAGES, "Print some messages of a topic, as a consumer would get them")
def consume_message(
    admin: Admin,
    topic: Topic,
    broker: Annotated[str, Option("b", "brokerName", "name of the broker")] | None = None,
    queue_id: Annotated[int, Option("i", "queueId", "number of the queue")] | None = None,
    offset: Annotated[int, Option("o", "offset", "place in the queue")] | None = None,
    group: Annotated[str, Option("g", "consumerGroup", f"the group to ask as ({TOOLS_GROUP})")] = TOOLS_GROUP,
    begin_ms: Annotated[int, Option("s", "beginTimestamp", "from this time on", parse=time_ms)] | None = None,
    end_ms: Annotated[int, Option("e", "endTimestamp", "up to this time", parse=time_ms)] | None = None,
    count: Annotated[int, Option("c", "MessageNumber", "how many of each queue (128)")] = 128,
) -> Output:
    if (broker is None) != (queue_id is None):
        raise ConfigError("consumeMessage: give -b and -i together, or neither")
    if offset is not None and broker is None:
        raise ConfigError("consumeMessage: -o is a place in one queue: give -b and -i too")
    if broker is not None and queue_id is not None:
        queues: tuple[MessageQueue, ...] = (MessageQueue(topic, broker, queue_id),)
    else:
        queues = admin.queues(topic)
    ranges: list[tuple[MessageQueue, int, int]] = []
    for queue in queues:
        begin, end = bounds(admin, queue, begin_ms, end_ms)
        begin = max(begin, offset) if offset is not None else begin
        ranges.append((queue, begin, min(end, begin + count)))

    def parts() -> Iterator[OutputLines]:
        for queue, begin, end in ranges:
            if end <= begin:
                continue
            if offset is not None:
                yield OutputLines([f"The oldler {end - begin} message will be provided"])
            else:
                yield OutputLines(
                    [f"The older {end - begin} message of the {queue.queue_id} queue will be provided"]
                )
            yield OutputLines(["Consume ok"])
            yield OutputLines(
                message_line(each, "UTF-8") for each in read(admin, queue, begin, end, SUB_ALL, group)
            )

    return Output(parts(), rows=_rows(admin, ranges, SUB_ALL, group))
