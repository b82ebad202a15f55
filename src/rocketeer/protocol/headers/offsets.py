"""Headers about places in a queue: consumers' (14, 15), by time (29), ends (30-32), resets (220-223)."""

from msgspec import field

from rocketeer.protocol.headers.base import I32, I64, Header, QueueOffsetI64


class QueryConsumerOffsetHeader(Header):
    """14 QUERY_CONSUMER_OFFSET."""

    consumer_group: str
    topic: str
    queue_id: I32


class UpdateConsumerOffsetHeader(Header):
    """15 UPDATE_CONSUMER_OFFSET."""

    consumer_group: str
    topic: str
    queue_id: I32
    commit_offset: QueueOffsetI64


class SearchOffsetHeader(Header):
    """29 SEARCH_OFFSET_BY_TIMESTAMP."""

    topic: str
    queue_id: I32
    timestamp_ms: I64 = field(name="timestamp")


class QueueHeader(Header):
    """30 GET_MAX_OFFSET, 31 GET_MIN_OFFSET, 32 GET_EARLIEST_MSG_STORETIME."""

    topic: str
    queue_id: I32


class OffsetReplyHeader(Header):
    """The reply to 14, 29, 30 and 31."""

    offset: QueueOffsetI64


class EarliestStoreTimeReplyHeader(Header):
    """The reply to 32."""

    timestamp_ms: I64 = field(name="timestamp")


class ResetOffsetHeader(Header):
    """222 INVOKE_BROKER_TO_RESET_OFFSET, 220 RESET_CONSUMER_CLIENT_OFFSET (broker to client)."""

    topic: str
    group: str
    timestamp_ms: I64 = field(name="timestamp")
    force: bool = field(default=False, name="isForce")


class GetConsumerStatusHeader(Header):
    """223 INVOKE_BROKER_TO_GET_CONSUMER_STATUS, 221 GET_CONSUMER_STATUS_FROM_CLIENT."""

    topic: str
    group: str
    client_address: str | None = field(default=None, name="clientAddr")


class CloneGroupOffsetHeader(Header):
    """314 CLONE_GROUP_OFFSET."""

    source_group: str = field(name="srcGroup")
    target_group: str = field(name="destGroup")
    topic: str | None = None
    offline: bool = False


class QueryCorrectionOffsetHeader(Header):
    """308 QUERY_CORRECTION_OFFSET."""

    compare_group: str
    topic: str
    filter_groups: str | None = None
