"""A consumer among its group: who else is there (38), locks of ordered queues (41, 42), messages sent back (36)."""

from collections.abc import Iterable
from typing import NamedTuple

from rocketeer.client.core.failure import Failure
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.plans.brokers import ClusterRoutes, broker_of, with_broker
from rocketeer.client.plans.effects import Plan
from rocketeer.client.plans.replies import ask
from rocketeer.model.property_names import ORIGIN_MESSAGE_ID
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.bodies.clients import decode_consumer_list
from rocketeer.protocol.bodies.locks import LockRequest, decode_locked_queues, encode_lock_request
from rocketeer.protocol.bodies.subscription import SubscriptionWire
from rocketeer.protocol.bodies.wire import Wire, decoder, load_as
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import request
from rocketeer.protocol.headers.clients import ConsumerGroupHeader
from rocketeer.protocol.headers.send import ConsumerSendMsgBackHeader


def consumer_ids(address: str, group: str, timeout_s: float) -> Plan[list[str]]:
    """The client ids of the group's members, as one broker knows them."""
    command = request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupHeader(group))
    reply = yield from ask(address, command, timeout_s)
    return decode_consumer_list(reply.body)


def lock_queues(
    address: str, group: str, client_id: str, queues: Iterable[MessageQueue], timeout_s: float
) -> Plan[frozenset[MessageQueue]]:
    """Take or renew the locks of queues on one broker; those of the answer are ours, for 60 s there."""
    body = encode_lock_request(LockRequest(group, client_id, frozenset(queues)))
    reply = yield from ask(address, request(RequestCode.LOCK_BATCH_MQ, body=body), timeout_s)
    return decode_locked_queues(reply.body)


def unlock_queues(
    address: str, group: str, client_id: str, queues: Iterable[MessageQueue], timeout_s: float
) -> Plan[None]:
    """Give locks back; returns when the broker has done so, and the next member can have them."""
    body = encode_lock_request(LockRequest(group, client_id, frozenset(queues)))
    yield from ask(address, request(RequestCode.UNLOCK_BATCH_MQ, body=body), timeout_s)


def send_back(
    cluster: ClusterRoutes,
    group: str,
    message: ReceivedMessage,
    *,
    delay_level: int,
    retries_max: int,
    delay_ms: int | None = None,
    failure: Failure | None = None,
) -> Plan[None]:
    """Have the broker deliver the message again later, or put it with the dead letters when it had its tries.

    Brokers of our own wait for `delay_ms`, and a dead letter there says what the `failure` was.
    """
    where = yield from broker_of(message.queue, cluster)
    header = ConsumerSendMsgBackHeader(
        offset=message.log_offset,
        group=group,
        delay_level=delay_level,
        origin_msg_id=message.properties.get(ORIGIN_MESSAGE_ID) or message.message_id,
        # With its namespace: the broker puts it into RETRY_TOPIC, and the retry is shown under it.
        origin_topic=message.origin_topic,
        max_reconsume_times=retries_max,
        delay_ms=delay_ms,
        failure_reason=failure.reason if failure else None,
        failure_trace=(failure.trace or None) if failure else None,
        failure_client=(failure.client or None) if failure else None,
    )
    command = request(RequestCode.CONSUMER_SEND_MSG_BACK, with_broker(header, message.broker_name))
    yield from ask(where.address, command, cluster.timeout_s, broker=message.broker_name)


class GroupView(NamedTuple):
    """How a broker sees a group: the expression of each topic, and how the group consumes."""

    expressions: dict[str, str]
    message_model: str | None


class _ConnectionsWire(Wire):
    subscription_table: dict[str, SubscriptionWire] | None = None
    message_model: str | None = None


_decoder = decoder(_ConnectionsWire)


def group_view(address: str, group: str, timeout_s: float) -> Plan[GroupView]:
    """What the broker took from the group's heartbeats (203): members that differ overwrite each other there."""
    command = request(RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupHeader(group))
    reply = yield from ask(address, command, timeout_s)
    wire = load_as(_decoder, reply.body)
    expressions = {topic: each.sub_string or "*" for topic, each in (wire.subscription_table or {}).items()}
    return GroupView(expressions, wire.message_model)
