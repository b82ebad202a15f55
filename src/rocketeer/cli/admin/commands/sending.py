"""Commands that send: one message, or some to see how long a broker takes."""

import time
from collections.abc import Sequence
from typing import Annotated

from rocketeer.admin.blocking import Admin
from rocketeer.cli.admin.declare import Option, Subject, Watch, command
from rocketeer.cli.admin.options import Topic
from rocketeer.cli.admin.output import Cell, Output, OutputLines, OutputTable, columns, fixed
from rocketeer.client.core.send_result import SendResult
from rocketeer.client.sync.producer import Producer
from rocketeer.errors import ConfigError, RocketeerError
from rocketeer.model.message import Message
from rocketeer.model.queue import MessageQueue

Amount = Annotated[int, Option("a", "amount", "how many messages (100)")]
Size = Annotated[int, Option("s", "size", "bytes of each (128)")]


def producer_of(admin: Admin, group: str, *, trace: bool = False, unit_name: str | None = None) -> Producer:
    """A producer at the same name servers."""
    addresses = admin.context().nameservers.addresses
    return Producer(group, nameserver=addresses, trace=trace, unit_name=unit_name)


def result_text(result: SendResult) -> str:
    """As RocketMQ's tool prints it."""
    queue = result.queue
    return (
        f"SendResult [sendStatus={result.status}, msgId={result.message_id}, "
        f"offsetMsgId={result.offset_message_id}, messageQueue=MessageQueue [topic={queue.topic}, "
        f"brokerName={queue.broker_name}, queueId={queue.queue_id}], queueOffset={result.queue_offset}]"
    )


@command("sendMessage", Subject.MESSAGES, "Send a message")
def send_message(
    admin: Admin,
    topic: Topic,
    body: Annotated[str, Option("p", "body", "the body, as UTF-8 text")],
    key: Annotated[str, Option("k", "key", "its keys")] | None = None,
    tags: Annotated[str, Option("c", "tags", "its tag")] | None = None,
    broker: Annotated[str, Option("b", "broker", "name of the broker to send to")] | None = None,
    queue_id: Annotated[int, Option("i", "qid", "number of the queue to send to")] | None = None,
    trace: Annotated[bool, Option("m", "msgTraceEnable", "leave a trace: true or false (false)")] = False,
) -> Output:
    if queue_id is not None and broker is None:
        raise ConfigError("sendMessage: -i is a queue of one broker: give -b too")
    message = Message(topic, body.encode(), tags=tags, keys=key or None)
    with producer_of(admin, "PID_SMSG", trace=trace) as producer:
        if broker is None:
            result = producer.send(message)
        else:
            result = producer.send(message, queue=_queue(admin, topic, broker, queue_id))
    row = (result.queue.broker_name, result.queue.queue_id, str(result.status), result.message_id)
    table = OutputTable(
        "%-32s  %-4s  %-20s    %s",
        columns("broker", "#Broker Name", "queueId", "#QID", "result", "#Send Result", "messageId", "#MsgId"),
        [row],
    )
    return Output([table])


def _queue(admin: Admin, topic: str, broker: str, queue_id: int | None) -> MessageQueue:
    counts = {each.broker_name: each.write_queues for each in admin.topic_route(topic).queues}
    if broker not in counts:
        raise ConfigError(f"topic {topic!r} is not on broker {broker}: it is on {', '.join(sorted(counts))}")
    if queue_id is None:
        return MessageQueue(topic, broker, time.monotonic_ns() % max(counts[broker], 1))
    if not 0 <= queue_id < counts[broker]:
        raise ConfigError(f"topic {topic!r} has queues 0 to {counts[broker] - 1} on {broker}, not {queue_id}")
    return MessageQueue(topic, broker, queue_id)


@command("sendMsgStatus", Subject.MESSAGES, "Send messages to one broker and show what each brought")
def send_msg_status(
    admin: Admin,
    broker: Annotated[str, Option("b", "brokerName", "name of the broker")],
    size: Annotated[int, Option("s", "messageSize", "bytes of each (128)")] = 128,
    count: Annotated[int, Option("c", "count", "how many (50)")] = 50,
) -> Output:
    # Every broker has a topic of its own name.
    queue = MessageQueue(broker, broker, 0)
    admin.topic_route(broker)
    lines: list[str] = []
    data: list[object] = []
    with producer_of(admin, "PID_SMSG") as producer:
        for _ in range(count):
            started_s = time.monotonic()
            result = producer.send(Message(broker, b"a" * size), queue=queue)
            took_ms = round((time.monotonic() - started_s) * 1000)
            lines.append(f"rt={took_ms}ms, SendResult={result_text(result)}")
            data.append({"ms": took_ms, "result": str(result.status), "messageId": result.message_id})
    return Output([OutputLines(lines)], data)


def _timed(producer: Producer, queue: MessageQueue, size: int) -> tuple[int, RocketeerError | None]:
    """Milliseconds of one send, and why it failed."""
    started_s = time.monotonic()
    error: RocketeerError | None = None
    try:
        producer.send(Message(queue.topic, b"a" * size), queue=queue)
    except RocketeerError as why:
        error = why
    return round((time.monotonic() - started_s) * 1000), error


@command("checkMsgSendRT", Subject.MESSAGES, "How long sends to a topic take, queue by queue")
def check_msg_send_rt(admin: Admin, topic: Topic, amount: Amount = 100, size: Size = 128) -> Output:
    queues = [
        MessageQueue(topic, each.broker_name, number)
        for each in sorted(admin.topic_route(topic).queues, key=lambda each: each.broker_name)
        for number in range(each.write_queues)
    ]
    if not queues:
        raise ConfigError(f"topic {topic!r} has no queue to write to")
    rows: list[tuple[object, ...]] = []
    times: list[int] = []
    with producer_of(admin, "PID_RT") as producer:
        for number in range(amount):
            queue = queues[number % len(queues)]
            took_ms, error = _timed(producer, queue, size)
            times.append(took_ms)
            rows.append((queue.broker_name, queue.queue_id, error is None, took_ms))
    table = OutputTable(
        "%-32s  %-4s  %-20s    %s",
        columns("broker", "#Broker Name", "queueId", "#QID", "sent", "#Send Result", "ms", "#RT"),
        rows,
        warn=lambda row: not row["sent"],
    )
    mean = mean_without_first(times)
    data = {
        "averageMs": mean,
        "sends": [dict(zip(("broker", "queueId", "sent", "ms"), row, strict=True)) for row in rows],
    }
    last = [f"Avg RT: {'-' if mean is None else f'{mean:.2f}'}"]
    return Output([table, OutputLines(last)], data)


def mean_without_first(times: Sequence[int]) -> float | None:
    """The mean of all times but the first, which connecting took, if there are others."""
    counted = times[1:] if len(times) > 1 else times
    return sum(counted) / len(counted) if counted else None


@command(
    "clusterRT",
    Subject.CLUSTERS,
    "How long sends to every broker take, again and again",
    watch=Watch(every_s=10.0),
)
def cluster_rt(
    admin: Admin,
    amount: Amount = 100,
    size: Size = 128,
    cluster: Annotated[str, Option("c", "cluster", "one cluster only")] | None = None,
    print_log: Annotated[bool, Option("p", "print log", "as lines for a log: true or false (false)")] = False,
    machine_room: Annotated[str, Option("m", "machine room", "name in those lines (noname)")] = "noname",
) -> Output:
    known = admin.cluster_map()
    if cluster is not None and cluster not in known.clusters:
        raise ConfigError(f"no cluster {cluster!r}: the name server knows {', '.join(known.clusters)}")
    rows: list[tuple[object, ...]] = []
    with producer_of(admin, "PID_RT") as producer:
        for broker in known.masters(cluster):
            queue = MessageQueue(broker.name, broker.name, 0)
            outcomes = [_timed(producer, queue, size) for _ in range(amount)]
            good = [ms for ms, error in outcomes if error is None]
            mean = mean_without_first(good)
            rows.append((broker.cluster, broker.name, fixed(mean), len(good), len(outcomes) - len(good)))
    titles = columns(
        "cluster", "#Cluster Name", "broker", "#Broker Name", "ms", "#RT", "sent", "#successCount", "failed",
        "#failCount",
    )  # fmt: skip
    if print_log:
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        lines = [f"{now}|{machine_room}|{row[0]}|{row[1]}|{_whole(row[2])}" for row in rows]
        keys = [column.key for column in titles]
        return Output([OutputLines(lines)], [dict(zip(keys, row, strict=True)) for row in rows])
    table = OutputTable(
        "%-24s  %-24s  %-4s  %-8s          %-16s",
        titles,
        rows,
        head_form="%-24s  %-24s  %-4s  %-13s  %s",
        warn=lambda row: bool(row["failed"]),
    )
    return Output([table])


def _whole(value: object) -> str:
    assert isinstance(value, Cell)
    return "-" if not isinstance(value.value, float) else str(round(value.value))
