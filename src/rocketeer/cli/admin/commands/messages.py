"""Commands that find messages: by id, key, place; what became of one, its trace, entries of a consume queue."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from rocketeer.admin.blocking import Admin
from rocketeer.admin.results import MessageTrack
from rocketeer.cli.admin.commands.sending import producer_of, result_text
from rocketeer.cli.admin.declare import Option, Subject, command
from rocketeer.cli.admin.options import Topic
from rocketeer.cli.admin.output import Output, OutputLines, OutputTable, columns, text_of, when
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.plans.pull import PullResult
from rocketeer.errors import ConfigError, MessageNotFound
from rocketeer.model.message import Message
from rocketeer.model.property_names import KEYS, NOT_SENT_AGAIN, TAGS
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.bodies.running_info import ConsumeDirectResult

ID = Annotated[str, Option("i", "msgId", "the message's id; several with commas")]
MemberGroup = Annotated[str, Option("g", "consumerGroup", "the group that is to consume it now")]
ClientId = Annotated[str, Option("d", "clientId", "the member that is to consume it now")]


@command(
    "queryMsgById", Subject.MESSAGES, "A message by the id its broker gave; or have a member consume it now"
)
def query_msg_by_id(
    admin: Admin,
    ids: ID,
    group: MemberGroup | None = None,
    client_id: ClientId | None = None,
    resend: Annotated[bool, Option("s", "sendMessage", "send it again: true or false")] = False,
    unit_name: Annotated[str, Option("u", "unitName", "the unit to send it to")] | None = None,
) -> Output:
    messages = [admin.view_message(each.strip()) for each in ids.split(",") if each.strip()]
    if not messages:
        raise ConfigError("--msgId names no message")
    if resend:
        return _resent(admin, messages, unit_name)
    if group or client_id:
        return _consumed(admin, messages, group, client_id)
    return _shown(admin, messages, with_id=True)


@command("queryMsgByUniqueKey", Subject.MESSAGES, "A message by the id its producer gave")
def query_msg_by_unique_key(
    admin: Admin,
    topic: Topic,
    message_id: Annotated[str, Option("i", "msgId", "the id its producer gave")],
    group: MemberGroup | None = None,
    client_id: ClientId | None = None,
    show_all: Annotated[bool, Option("a", "showAll", "everything stored under that id", flag=True)] = False,
) -> Output:
    found = admin.messages_with_id(topic, message_id)
    if not found:
        raise MessageNotFound(f"no message with id {message_id} in topic {topic!r}")
    if group or client_id:
        return _consumed(admin, found[:1], group, client_id)
    return _shown(admin, found if show_all else found[:1], with_id=False)


@command("queryMsgByKey", Subject.MESSAGES, "The messages with a key")
def query_msg_by_key(
    admin: Admin, topic: Topic, key: Annotated[str, Option("k", "msgKey", "the key")]
) -> Output:
    rows = [
        (each.message_id, each.stored_queue_id, each.queue_offset)
        for each in admin.messages_with_key(topic, key)
    ]
    if not rows:
        raise MessageNotFound(f"no message of {topic} has the key {key!r}")
    table = OutputTable(
        "%-50s %4s %40s",
        columns("messageId", "#Message ID", "queueId", "#QID", "offset", "#Offset"),
        rows,
    )
    return Output([table])


@command("queryMsgByOffset", Subject.MESSAGES, "The message at a place in a queue")
def query_msg_by_offset(
    admin: Admin,
    topic: Topic,
    broker: Annotated[str, Option("b", "brokerName", "name of the broker")],
    queue_id: Annotated[int, Option("i", "queueId", "number of the queue")],
    offset: Annotated[int, Option("o", "offset", "place in the queue")],
) -> Output:
    queue = MessageQueue(topic, broker, queue_id)
    result = admin.pull_messages(queue, offset, max_count=1)
    found = [each for each in result.messages if each.queue_offset == offset]
    if not found:
        held = f"it holds {result.min_offset} to {result.max_offset - 1}"
        raise MessageNotFound(f"no message at offset {offset} of queue {queue_id} on {broker}: {held}")
    return _shown(admin, found, with_id=True, pulled=pulled_properties(result))


# --- how a message is shown ---------------------------------------------------------------------


def _shown(
    admin: Admin,
    messages: Sequence[ReceivedMessage],
    *,
    with_id: bool,
    pulled: Mapping[str, object] | None = None,
) -> Output:
    tracks = [admin.track_message(each) for each in messages]
    paths = [save_body(each) for each in messages]

    def parts() -> Iterator[OutputLines]:
        for message, path, track in zip(messages, paths, tracks, strict=True):
            yield OutputLines(_message_lines(message, path, with_id, pulled or {}))
            yield OutputLines(["", "", *map(track_text, track)])

    data = [
        {**message_data(message), "bodyPath": str(path), "tracks": [_track_data(each) for each in track]}
        for message, path, track in zip(messages, paths, tracks, strict=True)
    ]
    return Output(parts(), data)


def _message_lines(
    message: ReceivedMessage, path: Path, with_id: bool, pulled: Mapping[str, object]
) -> Iterator[str]:
    values = [
        ("Topic:", message.stored_topic),
        ("Tags:", f"[{message.properties.get(TAGS, 'null')}]"),
        ("Keys:", f"[{message.properties.get(KEYS, 'null')}]"),
        ("Queue ID:", message.stored_queue_id),
        ("Queue Offset:", message.queue_offset),
        ("CommitLog Offset:", message.log_offset),
        ("Reconsume Times:", message.reconsume_times),
        ("Born Timestamp:", when(message.born_ms, millis=",")),
        ("Store Timestamp:", when(message.store_ms, millis=",")),
        ("Born Host:", message.born_host),
        ("Store Host:", message.store_host),
        ("System Flag:", message.sys_flag),
        ("Properties:", properties_text(message, pulled)),
        ("Message Body Path:", path),
    ]
    if with_id:
        values.insert(0, ("OffsetID:", message.offset_message_id))
    for name, value in values:
        yield f"{name:<20} {value}"


def pulled_properties(result: PullResult) -> dict[str, object]:
    """What RocketMQ's client adds to the properties of every message it pulls."""
    return {"MIN_OFFSET": result.min_offset, "MAX_OFFSET": result.max_offset}


def properties_text(message: ReceivedMessage, pulled: Mapping[str, object]) -> str:
    shown = {**pulled, **message.properties}
    return "{" + ", ".join(f"{name}={value}" for name, value in shown.items()) + "}"


def track_text(track: MessageTrack) -> str:
    return (
        f"MessageTrack [consumerGroup={track.group}, trackType={track.state.value}, "
        f"exceptionDesc={track.reason if track.reason is not None else 'null'}]"
    )


def _track_data(track: MessageTrack) -> dict[str, object]:
    return {"group": track.group, "state": track.state.value, "reason": track.reason}


def message_data(message: ReceivedMessage) -> dict[str, object]:
    """A message for --json; a body that is no UTF-8 stands as hexadecimal digits."""
    body: dict[str, object]
    try:
        body = {"body": message.body.decode()}
    except UnicodeDecodeError:
        body = {"bodyHex": message.body.hex()}
    return {
        "topic": message.stored_topic,
        "messageId": message.message_id,
        "offsetMessageId": message.offset_message_id,
        "broker": message.broker_name or None,
        "queueId": message.stored_queue_id,
        "queueOffset": message.queue_offset,
        "logOffset": message.log_offset,
        "reconsumeTimes": message.reconsume_times,
        "bornMs": message.born_ms,
        "storeMs": message.store_ms,
        "bornHost": message.born_host,
        "storeHost": message.store_host,
        "sysFlag": message.sys_flag,
        "properties": dict(message.properties),
        **body,
    }


def save_body(message: ReceivedMessage) -> Path:
    """Write the body to a file of its own, in a folder nobody else can write to."""
    folder = Path(tempfile.gettempdir()) / f"rocketeer-{os.getuid()}" / "msgbodys"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.parent.stat().st_uid != os.getuid():
        raise ConfigError(f"{folder.parent} belongs to somebody else: remove it, or set TMPDIR")
    path = folder / message.message_id.replace("/", "_")
    path.write_bytes(message.body)
    return path


# --- doing something with it --------------------------------------------------------------------


def _consumed(
    admin: Admin, messages: Sequence[ReceivedMessage], group: str | None, client_id: str | None
) -> Output:
    if not group or not client_id:
        raise ConfigError(
            "to have a message consumed give both -g (the group) and -d (the member's client id)"
        )
    results = [admin.consume_directly(group, client_id, each) for each in messages]
    data = [
        {
            "messageId": message.message_id,
            "result": each.result,
            "spentMs": each.spent_ms,
            "remark": each.remark,
        }
        for message, each in zip(messages, results, strict=True)
    ]
    return Output([OutputLines([_direct_text(each) for each in results])], data)


def _direct_text(each: ConsumeDirectResult) -> str:
    return (
        f"ConsumeMessageDirectlyResult [order={text_of(each.order)}, autoCommit={text_of(each.auto_commit)}, "
        f"consumeResult={each.result}, remark={each.remark if each.remark is not None else 'null'}, "
        f"spentTimeMills={each.spent_ms}]"
    )


def _resent(admin: Admin, messages: Sequence[ReceivedMessage], unit_name: str | None) -> Output:
    lines: list[str] = []
    data: list[object] = []
    with producer_of(admin, "ReSendMsgById", unit_name=unit_name) as producer:
        for each in messages:
            copy = Message(
                each.stored_topic,
                each.body,
                tags=each.tags,
                keys=each.keys or None,
                properties={k: v for k, v in each.properties.items() if k not in NOT_SENT_AGAIN},
                flag=each.flag,
            )
            result = producer.send(copy)
            lines.append(f"prepare resend msg. originalMsgId={each.offset_message_id}")
            lines.append(result_text(result))
            data.append({"original": each.offset_message_id, "messageId": result.message_id})
    return Output([OutputLines(lines, good=True)], data)
