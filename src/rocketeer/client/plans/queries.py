"""Messages looked up by key or id, through a broker's index."""

from typing import Final

from rocketeer.client.plans.effects import Call, Plan
from rocketeer.client.plans.replies import refused
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request
from rocketeer.protocol.headers.query import QueryMessageHeader

FOREVER_MS: Final = (1 << 63) - 1


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
    """The messages of a topic one broker finds by key (or by UNIQ_KEY), stored between the two times.

    They come as records one behind the other. It finds them by the key's hash: others may be among them (`lookups`
    leaves them out).
    """
    header = QueryMessageHeader(topic, key, max_count, begin_ms, end_ms, unique_key)
    reply: Command = yield Call(address, request(RequestCode.QUERY_MESSAGE, header), timeout_s)
    if reply.code == ResponseCode.QUERY_NOT_FOUND:
        return b""
    if reply.code != ResponseCode.SUCCESS:
        raise refused(reply, address)
    return reply.body
