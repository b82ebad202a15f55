"""Places in a queue: the group's own (14, 15), its ends and a time's (29 - 32), and where a new group begins."""

from collections.abc import Iterable, Mapping

from rocketeer.client.plans.brokers import ClusterRoutes, broker_of, with_broker
from rocketeer.client.plans.effects import Call, CallAll, Plan
from rocketeer.client.plans.replies import refused
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import ConsumeFromWhere
from rocketeer.model.topic import RETRY_PREFIX
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request
from rocketeer.protocol.headers.base import Header, decode_header
from rocketeer.protocol.headers.offsets import (
    EarliestStoreTimeReplyHeader,
    OffsetReplyHeader,
    QueryConsumerOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)


def _ask(cluster: ClusterRoutes, queue: MessageQueue, code: int, header: Header) -> Plan[Command]:
    """Ask the queue's broker; any answer but SUCCESS and QUERY_NOT_FOUND is an error that names the queue."""
    where = yield from broker_of(queue, cluster)
    command = request(code, with_broker(header, queue.broker_name))
    reply: Command = yield Call(where.address, command, cluster.timeout_s)
    if reply.code not in (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND):
        raise refused(reply, f"{queue.broker_name} ({where.address})", queue)
    return reply


def _ask_offset(cluster: ClusterRoutes, queue: MessageQueue, code: int, header: Header) -> Plan[QueueOffset]:
    reply = yield from _ask(cluster, queue, code, header)
    return _offset_in(reply)


def _offset_in(reply: Command) -> QueueOffset:
    return QueueOffset(decode_header(OffsetReplyHeader, reply.ext).offset)


def committed_offset(cluster: ClusterRoutes, group: str, queue: MessageQueue) -> Plan[QueueOffset | None]:
    """How far the group has consumed; None when the broker has never heard of it."""
    header = QueryConsumerOffsetHeader(group, queue.topic, queue.queue_id)
    reply = yield from _ask(cluster, queue, RequestCode.QUERY_CONSUMER_OFFSET, header)
    if reply.code == ResponseCode.QUERY_NOT_FOUND:
        return None
    offset = _offset_in(reply)
    return offset if offset >= 0 else None


def commit_offset(cluster: ClusterRoutes, group: str, queue: MessageQueue, offset: QueueOffset) -> Plan[None]:
    """Have the broker keep the group's offset; returns when it said so."""
    header = _commit_header(group, queue, offset)
    yield from _ask(cluster, queue, RequestCode.UPDATE_CONSUMER_OFFSET, header)


def max_offset(cluster: ClusterRoutes, queue: MessageQueue) -> Plan[QueueOffset]:
    """Where the next message will be."""
    return (yield from _ask_offset(cluster, queue, RequestCode.GET_MAX_OFFSET, _queue_header(queue)))


def min_offset(cluster: ClusterRoutes, queue: MessageQueue) -> Plan[QueueOffset]:
    """The oldest message that is still there."""
    return (yield from _ask_offset(cluster, queue, RequestCode.GET_MIN_OFFSET, _queue_header(queue)))


def min_offsets(
    cluster: ClusterRoutes, queues: Iterable[MessageQueue]
) -> Plan[dict[MessageQueue, QueueOffset]]:
    """The oldest message that is still there, of many queues; each broker is asked once for all it has."""
    code = RequestCode.GET_MIN_OFFSET
    return (yield from _ask_offsets(cluster, code, {each: _queue_header(each) for each in queues}))


def max_offsets(
    cluster: ClusterRoutes, queues: Iterable[MessageQueue]
) -> Plan[dict[MessageQueue, QueueOffset]]:
    """Where the next message will be, of many queues."""
    code = RequestCode.GET_MAX_OFFSET
    return (yield from _ask_offsets(cluster, code, {each: _queue_header(each) for each in queues}))


def commit_offsets(
    cluster: ClusterRoutes, group: str, offsets: Mapping[MessageQueue, QueueOffset]
) -> Plan[None]:
    """Have the brokers keep the group's offsets."""
    headers = {queue: _commit_header(group, queue, offset) for queue, offset in offsets.items()}
    yield from _ask_all(cluster, RequestCode.UPDATE_CONSUMER_OFFSET, headers)


def _ask_offsets(
    cluster: ClusterRoutes, code: int, headers: Mapping[MessageQueue, Header]
) -> Plan[dict[MessageQueue, QueueOffset]]:
    replies = yield from _ask_all(cluster, code, headers)
    return {
        queue: QueueOffset(decode_header(OffsetReplyHeader, reply.ext).offset)
        for queue, reply in replies.items()
    }


def _ask_all(
    cluster: ClusterRoutes, code: int, headers: Mapping[MessageQueue, Header]
) -> Plan[dict[MessageQueue, Command]]:
    """One question about each queue; any answer but SUCCESS is an error that names the queue."""
    by_address: dict[str, list[MessageQueue]] = {}
    for queue in headers:
        where = yield from broker_of(queue, cluster)
        by_address.setdefault(where.address, []).append(queue)
    answers: dict[MessageQueue, Command] = {}
    for address, queues in by_address.items():
        commands = [request(code, with_broker(headers[queue], queue.broker_name)) for queue in queues]
        replies: list[Command] = yield CallAll(address, commands, cluster.timeout_s)
        for queue, reply in zip(queues, replies, strict=True):
            if reply.code != ResponseCode.SUCCESS:
                raise refused(reply, f"{queue.broker_name} ({address})", queue)
            answers[queue] = reply
    return answers


def _queue_header(queue: MessageQueue) -> QueueHeader:
    return QueueHeader(queue.topic, queue.queue_id)


def _commit_header(group: str, queue: MessageQueue, offset: QueueOffset) -> UpdateConsumerOffsetHeader:
    return UpdateConsumerOffsetHeader(group, queue.topic, queue.queue_id, offset)


def offset_at(cluster: ClusterRoutes, queue: MessageQueue, time_ms: int) -> Plan[QueueOffset]:
    """The message stored nearest to that time."""
    header = SearchOffsetHeader(queue.topic, queue.queue_id, time_ms)
    return (yield from _ask_offset(cluster, queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header))


def earliest_ms(cluster: ClusterRoutes, queue: MessageQueue) -> Plan[int]:
    """When the oldest message that is still there was stored; -1 for an empty queue."""
    reply = yield from _ask(cluster, queue, RequestCode.GET_EARLIEST_MSG_STORETIME, _queue_header(queue))
    return decode_header(EarliestStoreTimeReplyHeader, reply.ext).timestamp_ms


def first_offset(
    cluster: ClusterRoutes, queue: MessageQueue, begin: ConsumeFromWhere, timestamp_ms: int
) -> Plan[QueueOffset]:
    """Where a group begins that has no offset for the queue.

    A retry topic is read from its start: what waits there was sent to it after the group came into being.
    Brokers answer `committed_offset` with 0 for queues so young that nothing was deleted yet, so a new group
    sees all of a young topic whatever `begin` says; this rule is the broker's, not decided here.
    """
    is_retry = queue.topic.startswith(RETRY_PREFIX)
    match begin:
        case ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
            return QueueOffset(0)
        case ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
            if is_retry:
                return (yield from max_offset(cluster, queue))
            return (yield from offset_at(cluster, queue, timestamp_ms))
        case _:
            return QueueOffset(0) if is_retry else (yield from max_offset(cluster, queue))


def start_offset(
    cluster: ClusterRoutes, group: str, queue: MessageQueue, begin: ConsumeFromWhere, timestamp_ms: int
) -> Plan[tuple[QueueOffset, bool]]:
    """Where to begin with a queue just assigned; True when the group has been there before."""
    known = yield from committed_offset(cluster, group, queue)
    if known is not None:
        return known, True
    return (yield from first_offset(cluster, queue, begin, timestamp_ms)), False
