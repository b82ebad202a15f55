"""Request and reply as properties: what makes a message a question, and what makes another its answer. Pure."""

import math
from typing import Final

from rocketeer.client.core.attempts import check_timeout
from rocketeer.client.core.encoding import Encoder, Outgoing
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.errors import BadBody, ClientError
from rocketeer.model import property_names as names
from rocketeer.model.message import InvalidMessage, Message
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.topic import reply_topic
from rocketeer.protocol.headers.send import ReplyMessageHeader
from rocketeer.record.flags import HOSTS_V6
from rocketeer.record.hosts import encode_host
from rocketeer.record.layout import StoredMessage, body_crc, encode_record, host_bits
from rocketeer.record.properties import PROPERTIES_BYTES_MAX

REPLY: Final = "reply"
_ARRIVE_BYTES: Final = 64
_NOWHERE: Final = encode_host("0.0.0.0", 0)


def encode_request(
    encoder: Encoder, message: Message, *, client_id: str, correlation_id: str, timeout_s: float
) -> Outgoing:
    """The message as a question of this client; who consumes it can answer it."""
    if not isinstance(message, Message):
        raise InvalidMessage(f"a Message can be answered, not {type(message).__name__}")
    check_timeout(timeout_s)
    properties = message.all_properties()
    properties[names.CORRELATION_ID] = correlation_id
    properties[names.REPLY_TO_CLIENT] = client_id
    properties[names.TTL] = str(math.ceil(timeout_s * 1000))
    return encoder.raw(message.topic, message.body, properties, message.flag)


def encode_reply(encoder: Encoder, asked: ReceivedMessage, body: bytes) -> Outgoing:
    """The answer to a message that was received; raises ClientError when it was no question."""
    if not isinstance(asked, ReceivedMessage):
        raise ClientError(f"a ReceivedMessage can be answered, not {type(asked).__name__}")
    told = asked.properties
    missing = [
        name for name in (names.REPLY_TO_CLIENT, names.CORRELATION_ID, names.CLUSTER) if not told.get(name)
    ]
    if missing:
        raise ClientError(
            f"message {asked.message_id} cannot be answered: it has no property {' and no '.join(missing)}, so "
            "nobody waits for an answer (questions are sent with request())"
        )
    properties = {
        names.MSG_TYPE: REPLY,
        names.CORRELATION_ID: told[names.CORRELATION_ID],
        names.REPLY_TO_CLIENT: told[names.REPLY_TO_CLIENT],
        names.TTL: told.get(names.TTL, ""),
    }
    topic = reply_topic(told[names.CLUSTER])
    outgoing = encoder.raw(topic, body, properties)
    outgoing.topic = topic  # the cluster's own: outside of every namespace
    return outgoing


def queue_of_same_broker(asked: ReceivedMessage, queues: tuple[MessageQueue, ...]) -> MessageQueue | None:
    """A queue for the answer where the question was stored: who asked is certainly known there."""
    for queue in queues:
        if queue.broker_name == asked.broker_name:
            return queue
    return None


def received_reply(header: ReplyMessageHeader, body: bytes, broker_name: str, now_ms: int) -> ReceivedMessage:
    """What a broker pushed, as a message like every other."""
    properties = (header.properties or "").rstrip("\x02").encode("utf-8", "replace")
    if len(properties) > PROPERTIES_BYTES_MAX - _ARRIVE_BYTES:
        raise BadBody(f"an answer with {len(properties)} bytes of properties")
    properties += f"\x02{names.ARRIVE_TIME}\x01{now_ms}".encode()
    born_host, store_host = _host(header.born_host), _host(header.store_host)
    record = encode_record(
        StoredMessage(
            topic=header.topic,
            queue_id=header.queue_id,
            queue_offset=QueueOffset(0),
            log_offset=LogOffset(0),
            size=0,
            flag=header.flag,
            sys_flag=(header.sys_flag & ~HOSTS_V6) | host_bits(born_host, store_host),
            born_ms=header.born_ms,
            born_host=born_host,
            store_ms=header.store_ms,
            store_host=store_host,
            reconsume_times=header.reconsume_times or 0,
            prepared_offset=0,
            body_crc=body_crc(body),
            body=body,
            properties=properties,
        )
    )
    queue = MessageQueue(header.topic, broker_name, header.queue_id)
    return ReceivedMessage(record, queue, QueueOffset(0), len(record))


def _host(text: str) -> bytes:
    host, _, port = text.rpartition(":")
    try:
        return encode_host(host.strip("[]"), int(port))
    except (ValueError, OverflowError):
        return _NOWHERE
