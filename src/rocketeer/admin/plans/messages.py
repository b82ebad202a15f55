"""Messages: found by id, key and place (12, 33, 11), what became of one (300, 203, 208), its trace, one handed to a
member (309), entries of a consume queue (321)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rocketeer.admin.context import AdminContext
from rocketeer.admin.plans.asking import (
    CircuitBreaker,
    ask_broker,
    in_parallel,
    is_not_online,
    route_brokers,
    topic_route,
)
from rocketeer.admin.plans.groups import brokers_of_group, connections_at
from rocketeer.admin.plans.progress import progress_at
from rocketeer.admin.plans.topics import groups_of_topic
from rocketeer.admin.results import MessageTrack, TrackState
from rocketeer.client.core.config import ClientConfig
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.routes import subscribe_queues
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.lookups import COUNT_MAX, Lookups
from rocketeer.client.plans.pull import PullResult, PullSettings, pull
from rocketeer.client.plans.queries import FOREVER_MS
from rocketeer.errors import BrokerRefused, ConfigError, RocketeerError
from rocketeer.filter.subscribing import subscription_of
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import SUB_ALL, TAG, ConsumeType, MessageModel
from rocketeer.model.topic import TRACE_TOPIC
from rocketeer.protocol.bodies.connections import GroupConnections
from rocketeer.protocol.bodies.consume_queue import QueueEntries, decode_queue_entries
from rocketeer.protocol.bodies.running_info import ConsumeDirectResult, decode_direct_result
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.headers.clients import ConsumeMessageDirectlyHeader
from rocketeer.protocol.headers.topics import QueryConsumeQueueHeader
from rocketeer.record.trace import TraceEvent, decode_trace

TOOLS_GROUP: Final = "TOOLS_CONSUMER"
"""The group every broker knows for tools that read."""


def _lookups(context: AdminContext) -> Lookups:
    return Lookups(ClientConfig(TOOLS_GROUP), context.cluster, context.clock)


def view_message(context: AdminContext, message_id: str, topic: str | None = None) -> Plan[ReceivedMessage]:
    """The message of a broker's id, or with `topic` also of the id its sender gave; raises MessageNotFound."""
    return _lookups(context).view(message_id, topic)


def messages_with_id(context: AdminContext, topic: str, message_id: str) -> Plan[tuple[ReceivedMessage, ...]]:
    """Everything stored under the id a sender gave: one that was sent again is there more than once."""
    return (yield from _lookups(context).all_with_id(topic, message_id))


def messages_with_key(
    context: AdminContext,
    topic: str,
    key: str,
    *,
    begin_ms: int = 0,
    end_ms: int = FOREVER_MS,
    max_count: int = COUNT_MAX,
) -> Plan[tuple[ReceivedMessage, ...]]:
    """The messages with a key stored between two times, oldest first; at most so many a broker."""
    found = yield from _lookups(context).query(
        topic, key, begin_ms=begin_ms, end_ms=end_ms, max_count=max_count
    )
    return tuple(found)


def message_at(context: AdminContext, queue: MessageQueue, offset: int) -> Plan[ReceivedMessage]:
    """The message at a place in a queue; raises MessageNotFound."""
    return _lookups(context).message_at(queue, offset)


def queues(context: AdminContext, topic: str) -> Plan[tuple[MessageQueue, ...]]:
    """The queues of a topic that can be read."""
    route = yield from topic_route(context, topic)
    return subscribe_queues(topic, route)


def pull_messages(
    context: AdminContext,
    queue: MessageQueue,
    offset: int,
    *,
    tags: str = SUB_ALL,
    max_count: int = 32,
    group: str = TOOLS_GROUP,
) -> Plan[PullResult]:
    """The messages of a queue from an offset on, as many as the broker gives at a time."""
    settings = PullSettings(group, max_count, hold_s=0.0)
    subscription = subscription_of(queue.topic, tags)
    return (
        yield from pull(
            settings, context.cluster, queue, QueueOffset(offset), subscription, timeout_s=context.timeout_s
        )
    )


def message_trace(
    context: AdminContext, message_id: str, *, trace_topic: str = TRACE_TOPIC
) -> Plan[tuple[TraceEvent, ...]]:
    """What producers and consumers with trace=True wrote about a message, in the order it happened."""
    found = yield from _lookups(context).query(trace_topic, message_id)
    events = {
        event if event.client_host else replace(event, client_host=message.born_host.rpartition(":")[0])
        for message in found
        for event in decode_trace(message.body)
        if event.message_id == message_id
    }
    return tuple(sorted(events, key=lambda event: (event.time_ms, event.kind)))


def consume_directly(
    context: AdminContext, group: str, client_id: str, message: ReceivedMessage
) -> Plan[ConsumeDirectResult]:
    """Hand a stored message to one member of a group, here and now; its offsets stay as they are."""
    header = ConsumeMessageDirectlyHeader(
        group, client_id, message.offset_message_id, message.broker_name or None
    )
    code = RequestCode.CONSUME_MESSAGE_DIRECTLY
    reply = yield from ask_broker(context, message.store_host, code, header)
    return decode_direct_result(reply.body)


def queue_entries(
    context: AdminContext,
    topic: str,
    queue_id: int,
    index: int,
    *,
    count: int = 10,
    group: str | None = None,
    broker: str | None = None,
) -> Plan[QueueEntries]:
    """Entries of a consume queue from an index on; with `group` also what its filter says of them."""
    if broker is None:
        route = yield from topic_route(context, topic)
        brokers = route_brokers(route)
        if not brokers:
            raise ConfigError(f"topic {topic!r} is on no broker")
        broker = brokers[0].address
    header = QueryConsumeQueueHeader(topic, queue_id, index, count, group)
    reply = yield from ask_broker(context, broker, RequestCode.QUERY_CONSUME_QUEUE, header)
    return decode_queue_entries(reply.body)


# --- what became of a message -------------------------------------------------------------------


def track_message(context: AdminContext, message: ReceivedMessage) -> Plan[tuple[MessageTrack, ...]]:
    """Whether each group of the message's topic has consumed it."""
    circuit = CircuitBreaker(context)
    found = yield from groups_of_topic(context, message.stored_topic, circuit)
    outcomes = yield from in_parallel([_track(context, circuit, group, message) for group in found.groups])
    return tuple(
        MessageTrack(group, TrackState.UNKNOWN, str(each)) if isinstance(each, RocketeerError) else each
        for group, each in zip(found.groups, outcomes, strict=True)
    )


def _track(
    context: AdminContext, circuit: CircuitBreaker, group: str, message: ReceivedMessage
) -> Plan[MessageTrack]:
    try:
        brokers = yield from brokers_of_group(context, group)
        members = yield from connections_at(circuit, group, brokers)
    except BrokerRefused as error:
        state = TrackState.NOT_ONLINE if is_not_online(error) else TrackState.UNKNOWN
        return MessageTrack(group, state, f"CODE:{error.code} DESC:{error.remark}")
    except RocketeerError as error:
        return MessageTrack(group, TrackState.UNKNOWN, str(error))
    if members.consume_type == ConsumeType.CONSUME_ACTIVELY:
        return MessageTrack(group, TrackState.PULL)
    if members.message_model == MessageModel.BROADCASTING:
        return MessageTrack(group, TrackState.CONSUME_BROADCASTING)
    progress = yield from progress_at(circuit, group, brokers, message.stored_topic)
    place = next(
        (
            state.consumer_offset
            for queue, state in progress.stats.queues.items()
            if queue.topic == message.stored_topic
            and queue.queue_id == message.stored_queue_id
            and _is_at(context, queue.broker_name, message.store_host)
        ),
        None,
    )
    if place is None and progress.failures:
        return MessageTrack(group, TrackState.UNKNOWN, str(progress.failures[0]))
    if place is None or place <= message.queue_offset:
        return MessageTrack(group, TrackState.NOT_CONSUME_YET)
    if _is_filtered(members, message):
        return MessageTrack(group, TrackState.CONSUMED_BUT_FILTERED)
    return MessageTrack(group, TrackState.CONSUMED)


def _is_at(context: AdminContext, broker_name: str, address: str) -> bool:
    return address in context.routes.brokers().get(broker_name, {}).values()


def _is_filtered(members: GroupConnections, message: ReceivedMessage) -> bool:
    subscription = members.subscriptions.get(message.stored_topic)
    if subscription is None or subscription.kind != TAG or subscription.expression in ("", SUB_ALL):
        return False
    return message.tags not in subscription.tags


def latest(messages: Sequence[ReceivedMessage]) -> ReceivedMessage:
    """The one that was stored last."""
    return max(messages, key=lambda message: message.store_ms)
