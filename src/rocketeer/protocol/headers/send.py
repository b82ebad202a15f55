"""Headers of messages on their way in: send (10; short names 310, 320), send-back (36), replies (324-326)."""

from msgspec import field

from rocketeer.protocol.headers.base import I32, I64, Header, LogOffsetI64, QueueOffsetI64


class SendMessageHeader(Header):
    """10 SEND_MESSAGE, 324 SEND_REPLY_MESSAGE."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queues: I32 = field(name="defaultTopicQueueNums")
    queue_id: I32
    sys_flag: I32
    born_ms: I64 = field(name="bornTimestamp")
    flag: I32
    properties: str | None = None
    reconsume_times: I32 | None = None
    unit_mode: bool = False
    max_reconsume_times: I32 | None = None
    batch: bool = False
    broker_name: str | None = field(default=None, name="bname")


class SendMessageV2Header(Header):
    """310 SEND_MESSAGE_V2, 320 SEND_BATCH_MESSAGE, 325 SEND_REPLY_MESSAGE_V2: names of one letter."""

    producer_group: str = field(name="a")
    topic: str = field(name="b")
    default_topic: str = field(name="c")
    default_topic_queues: I32 = field(name="d")
    queue_id: I32 = field(name="e")
    sys_flag: I32 = field(name="f")
    born_ms: I64 = field(name="g")
    flag: I32 = field(name="h")
    properties: str | None = field(default=None, name="i")
    reconsume_times: I32 | None = field(default=None, name="j")
    unit_mode: bool = field(default=False, name="k")
    max_reconsume_times: I32 | None = field(default=None, name="l")
    batch: bool = field(default=False, name="m")
    broker_name: str | None = field(default=None, name="n")


class SendMessageReplyHeader(Header):
    """The reply to 10, 310, 320, 324 and 325."""

    msg_id: str
    queue_id: I32
    queue_offset: QueueOffsetI64
    transaction_id: str | None = None
    region: str | None = field(default=None, name="MSG_REGION")
    trace_on: str | None = field(default=None, name="TRACE_ON")
    recall_handle: str | None = None


class ConsumerSendMsgBackHeader(Header):
    """36 CONSUMER_SEND_MSG_BACK."""

    offset: LogOffsetI64
    group: str
    delay_level: I32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: I32 | None = None
    # Ours; Apache's brokers do not look at them. The pause, instead of a level, and what a dead letter says.
    delay_ms: I64 | None = None
    failure_reason: str | None = None
    failure_trace: str | None = None
    failure_client: str | None = None


class ReplyMessageHeader(Header):
    """326 PUSH_REPLY_MESSAGE_TO_CLIENT."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queues: I32 = field(name="defaultTopicQueueNums")
    queue_id: I32
    sys_flag: I32
    born_ms: I64 = field(name="bornTimestamp")
    flag: I32
    born_host: str
    store_host: str
    store_ms: I64 = field(name="storeTimestamp")
    properties: str | None = None
    reconsume_times: I32 | None = None
    unit_mode: bool = False


class GetProducerSequenceHeader(Header):
    """300001 GET_PRODUCER_SEQUENCE (ours): where an idempotent producer stands in a queue."""

    producer_id: str
    topic: str
    queue_id: I32


class GetProducerSequenceReplyHeader(Header):
    """The reply to it: the number its next message must have, and the oldest whose resend can be answered."""

    next_sequence: I64
    oldest_sequence: I64
