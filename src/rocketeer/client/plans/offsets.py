"""Places in a queue: the group's own (14, 15), its ends and a time's (29 - 32), and where a new group begins."""

from rocketeer.client.plans.brokers import Cluster, broker_of, with_broker
from rocketeer.client.plans.effects import Call, Plan
from rocketeer.client.plans.replies import refused
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import ConsumeFromWhere
from rocketeer.model.topic import RETRY_PREFIX
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request
from rocketeer.protocol.headers import (
    EarliestStoreTimeHeader,
    EarliestStoreTimeReplyHeader,
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    OffsetReplyHeader,
    QueryConsumerOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
    decode_header,
)
from rocketeer.protocol.headers.base import Header


def _ask(cluster: Cluster, queue: MessageQueue, code: int, header: Header) -> Plan[Command]:
    """Ask the queue's broker; any answer but SUCCESS and QUERY_NOT_FOUND is an error that names the queue."""
    where = yield from broker_of(queue, cluster)
    command = request(code, with_broker(header, queue.broker_name))
    reply: Command = yield Call(where.address, command, cluster.timeout_s)
    if reply.code not in (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND):
        raise refused(reply, f"{queue.broker_name} ({where.address})", queue)
    return reply


def _ask_offset(cluster: Cluster, queue: MessageQueue, code: int, header: Header) -> Plan[int]:
    reply = yield from _ask(cluster, queue, code, header)
    return decode_header(OffsetReplyHeader, reply.ext).offset


def committed_offset(cluster: Cluster, group: str, queue: MessageQueue) -> Plan[int | None]:
    """How far the group has consumed; None when the broker has never heard of it."""
    header = QueryConsumerOffsetHeader(group, queue.topic, queue.queue_id)
    reply = yield from _ask(cluster, queue, RequestCode.QUERY_CONSUMER_OFFSET, header)
    if reply.code == ResponseCode.QUERY_NOT_FOUND:
        return None
    offset = decode_header(OffsetReplyHeader, reply.ext).offset
    return offset if offset >= 0 else None


def commit_offset(cluster: Cluster, group: str, queue: MessageQueue, offset: int) -> Plan[None]:
    """Have the broker keep the group's offset; returns when it said so."""
    header = UpdateConsumerOffsetHeader(group, queue.topic, queue.queue_id, offset)
    yield from _ask(cluster, queue, RequestCode.UPDATE_CONSUMER_OFFSET, header)


def max_offset(cluster: Cluster, queue: MessageQueue) -> Plan[int]:
    """Where the next message will be."""
    header = GetMaxOffsetHeader(queue.topic, queue.queue_id)
    return (yield from _ask_offset(cluster, queue, RequestCode.GET_MAX_OFFSET, header))


def min_offset(cluster: Cluster, queue: MessageQueue) -> Plan[int]:
    """The oldest message that is still there."""
    header = GetMinOffsetHeader(queue.topic, queue.queue_id)
    return (yield from _ask_offset(cluster, queue, RequestCode.GET_MIN_OFFSET, header))


def offset_at(cluster: Cluster, queue: MessageQueue, time_ms: int) -> Plan[int]:
    """The message stored nearest to that time."""
    header = SearchOffsetHeader(queue.topic, queue.queue_id, time_ms)
    return (yield from _ask_offset(cluster, queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header))


def earliest_ms(cluster: Cluster, queue: MessageQueue) -> Plan[int]:
    """When the oldest message that is still there was stored; -1 for an empty queue."""
    header = EarliestStoreTimeHeader(queue.topic, queue.queue_id)
    reply = yield from _ask(cluster, queue, RequestCode.GET_EARLIEST_MSG_STORETIME, header)
    return decode_header(EarliestStoreTimeReplyHeader, reply.ext).timestamp_ms


def first_offset(
    cluster: Cluster, queue: MessageQueue, begin: ConsumeFromWhere, timestamp_ms: int
) -> Plan[int]:
    """Where a group begins that has no offset for the queue.

    A retry topic is read from its start: what waits there was sent to it after the group came into being.
    Brokers answer `committed_offset` with 0 for queues so young that nothing was deleted yet, so a new group
    sees all of a young topic whatever `begin` says; this rule is the broker's, not decided here.
    """
    is_retry = queue.topic.startswith(RETRY_PREFIX)
    match begin:
        case ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
            return 0
        case ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
            if is_retry:
                return (yield from max_offset(cluster, queue))
            return (yield from offset_at(cluster, queue, timestamp_ms))
        case _:
            return 0 if is_retry else (yield from max_offset(cluster, queue))


def start_offset(
    cluster: Cluster, group: str, queue: MessageQueue, begin: ConsumeFromWhere, timestamp_ms: int
) -> Plan[tuple[int, bool]]:
    """Where to begin with a queue just assigned; True when the group has been there before."""
    known = yield from committed_offset(cluster, group, queue)
    if known is not None:
        return known, True
    return (yield from first_offset(cluster, queue, begin, timestamp_ms)), False
