"""Headers of messages on their way out: pull (11)."""

from msgspec import field

from rocketeer.protocol.headers.base import I32, I64, Header, QueueOffsetI64


class PullMessageHeader(Header):
    """11 PULL_MESSAGE."""

    consumer_group: str
    topic: str
    queue_id: I32
    queue_offset: QueueOffsetI64
    max_count: I32 = field(name="maxMsgNums")
    sys_flag: I32
    commit_offset: QueueOffsetI64
    suspend_ms: I64 = field(name="suspendTimeoutMillis")
    sub_version: I64
    subscription: str | None = None
    expression_type: str | None = None
    large_bytes: I32 | None = field(name="rocketeerMaxBytes", default=None)
    """Our own: so many bytes of messages at once, instead of RocketMQ's caps. Java brokers do not see it."""


class PullMessageReplyHeader(Header):
    """The reply to 11."""

    suggest_broker_id: I64 = field(name="suggestWhichBrokerId")
    next_offset: QueueOffsetI64 = field(name="nextBeginOffset")
    min_offset: QueueOffsetI64
    max_offset: QueueOffsetI64
