"""Messages looked up: by their place in a broker's log, and by key or id through its index."""

from typing import Final

from rocketeer.client.plans.effects import Call, Plan
from rocketeer.client.plans.replies import ask, refused
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request
from rocketeer.protocol.headers.query import QueryMessageHeader, ViewMessageHeader
from rocketeer.record.hosts import host_text
from rocketeer.record.ids import parse_offset_msg_id
from rocketeer.record.layout import StoredMessage, decode_record, split_records

FOREVER_MS: Final = (1 << 63) - 1


def view_message(offset_message_id: str, timeout_s: float) -> Plan[StoredMessage]:
    """The message of an offset id; the id itself says which broker to ask. Raises BrokerRefused."""
    host, log_offset = parse_offset_msg_id(offset_message_id)
    command = request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(log_offset))
    reply = yield from ask(host_text(host), command, timeout_s)
    return decode_record(reply.body)


def query_messages(
    address: str,
    topic: str,
    key: str,
    timeout_s: float,
    *,
    max_count: int = 32,
    begin_ms: int = 0,
    end_ms: int = FOREVER_MS,
    unique_key: bool = False,
) -> Plan[list[StoredMessage]]:
    """The messages of a topic one broker finds by key (or by UNIQ_KEY), stored between the two times.

    It finds them by the key's hash: others may be among them (`lookups` leaves them out).
    """
    body = yield from query_records(
        address,
        topic,
        key,
        timeout_s,
        max_count=max_count,
        begin_ms=begin_ms,
        end_ms=end_ms,
        unique_key=unique_key,
    )
    return list(split_records(body))


def query_records(
    address: str,
    topic: str,
    key: str,
    timeout_s: float,
    *,
    max_count: int,
    begin_ms: int,
    end_ms: int,
    unique_key: bool,
) -> Plan[bytes]:
    """As `query_messages`, the records one behind the other as the broker sends them."""
    header = QueryMessageHeader(topic, key, max_count, begin_ms, end_ms, unique_key)
    reply: Command = yield Call(address, request(RequestCode.QUERY_MESSAGE, header), timeout_s)
    if reply.code == ResponseCode.QUERY_NOT_FOUND:
        return b""
    if reply.code != ResponseCode.SUCCESS:
        raise refused(reply, address)
    return reply.body
