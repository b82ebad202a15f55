"""Headers of look-ups: messages by key (12) and by place in the log (33)."""

from msgspec import field

from rocketeer.protocol.headers.base import I32, I64, Header, LogOffsetI64


class QueryMessageHeader(Header):
    """12 QUERY_MESSAGE; `unique_key` asks for the UNIQ_KEY alone."""

    topic: str
    key: str
    max_count: I32 = field(name="maxNum")
    begin_ms: I64 = field(name="beginTimestamp")
    end_ms: I64 = field(name="endTimestamp")
    unique_key: bool = field(default=False, name="_UNIQUE_KEY_QUERY")


class QueryMessageReplyHeader(Header):
    """The reply to 12."""

    index_last_ms: I64 = field(name="indexLastUpdateTimestamp")
    index_last_offset: LogOffsetI64 = field(name="indexLastUpdatePhyoffset")


class ViewMessageHeader(Header):
    """33 VIEW_MESSAGE_BY_ID."""

    offset: LogOffsetI64
    topic: str | None = None
