"""How clients are configured: frozen values with RocketMQ's own names beside ours (times there are in ms).

    config = ProducerConfig(group="shop", nameserver="127.0.0.1:9876", send_timeout_s=5)

Users give the same names as keyword arguments: `Producer("shop", send_timeout_s=5)`.
"""

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, TypedDict

from rocketeer.client.core.consumer_ports import FilterMessageHook, OffsetStore, QueueListener
from rocketeer.client.core.option_types import check_types
from rocketeer.client.core.rpc_hooks import RpcHook
from rocketeer.errors import ConfigError, InvalidGroup
from rocketeer.model.subscription import ConsumeFromWhere, MessageModel
from rocketeer.model.topic import AUTO_CREATE_TOPIC, TRACE_TOPIC, with_namespace
from rocketeer.security.tls import TlsConfig

DEFAULT_INSTANCE: Final = "DEFAULT"
GROUP_CHARS_MAX: Final = 255
_GROUP: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_RESERVED_GROUPS: Final = frozenset({"DEFAULT_PRODUCER", "DEFAULT_CONSUMER"})


def _java(default: Any, name: str) -> Any:
    return field(default=default, metadata={"java": name})


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """What producers and consumers have in common."""

    group: str
    _: KW_ONLY
    nameserver: str | Sequence[str] | None = _java(None, "namesrvAddr")
    """`host:port`, several with `;` or as a list, or an address server's URL. None: `NAMESRV_ADDR`, else the address
    server of `ROCKETMQ_NAMESRV_DOMAIN`."""
    namespace: str | None = _java(None, "namespace")
    """Topics and groups are known to brokers as `namespace%name`; programs see the plain names."""
    instance_name: str = _java(DEFAULT_INSTANCE, "instanceName")
    """Clients of one process with the same name share connections; DEFAULT gives each client its own."""
    unit_name: str | None = _java(None, "unitName")
    """Part of the client id, and of the address server's URL."""
    unit_mode: bool = _java(False, "unitMode")
    """Sent with every message and heartbeat, for clusters that use RocketMQ's units."""
    client_ip: str | None = _java(None, "clientIP")
    """The address in the client id; None: the interface that packets leave through."""
    vip_channel: bool = _java(False, "vipChannelEnabled")
    """Send to the broker's port minus 2, as old clients do."""
    route_poll_s: float = _java(30.0, "pollNameServerInterval")
    """How often the routes of the topics in use are fetched anew."""
    heartbeat_s: float = _java(30.0, "heartbeatBrokerInterval")
    """How often brokers hear of this client's groups."""
    call_timeout_s: float = _java(3.0, "mqClientApiTimeout")
    """Time limit of calls to name servers, and of those to brokers that are no sends or pulls."""
    close_timeout_s: float = 5.0
    """Closing returns within this time, whatever the network does."""
    access_key: str | None = None
    """The account's name; with `secret_key`. None: `ROCKETEER_ACCESS_KEY`, or the file `ROCKETEER_CREDENTIALS`."""
    secret_key: str | None = field(default=None, repr=False)
    """Signs every request; never sent, never shown."""
    tls: bool | TlsConfig | None = field(default=None, metadata={"java": "useTLS"})
    """True: TLS with the certificates the system trusts; TlsConfig: with one's own. None: `ROCKETEER_TLS_CONFIG`."""
    trace: bool = _java(False, "enableMsgTrace")
    """Leave a trace of every message sent or consumed: `mqadmin queryMsgTraceById` shows its life."""
    trace_topic: str = _java(TRACE_TOPIC, "customizedTraceTopic")
    """Where traces are sent to."""
    rpc_hooks: Sequence[RpcHook] = field(default=(), repr=False, metadata={"java": "rpcHook"})
    """They see every request of this client, and its reply."""

    def __post_init__(self) -> None:
        validate_group(self.group)
        check_types(self)
        for name in ("route_poll_s", "heartbeat_s", "call_timeout_s", "close_timeout_s"):
            _positive(self, name)

    @property
    def full_group(self) -> str:
        """The group as brokers know it, in its namespace."""
        return with_namespace(self.group, self.namespace)

    def full_topic(self, topic: str) -> str:
        """The topic as brokers know it, in its namespace."""
        return with_namespace(topic, self.namespace)


@dataclass(frozen=True, slots=True)
class ProducerConfig(ClientConfig):
    """A producer's rules."""

    send_timeout_s: float = _java(3.0, "sendMsgTimeout")
    """All attempts of a send together; it counts from when there was a place in flight for it."""
    retries: int = _java(2, "retryTimesWhenSendFailed")
    """Further attempts of `send`, each on another broker if there is one."""
    async_retries: int = _java(2, "retryTimesWhenSendAsyncFailed")
    """Further attempts of `send_async`, after calls without an answer only."""
    retry_not_stored: bool = _java(False, "retryAnotherBrokerWhenNotStoreOK")
    """Try another broker after FLUSH_DISK_TIMEOUT and the like; the message may then be there twice."""
    latency_faults: bool = _java(False, "sendLatencyFaultEnable")
    """Keep away from brokers that were slow, for longer the slower they were."""
    idempotent: bool = False
    """Number the messages, and send again until each is answered: the broker stores none twice, and all in order."""
    producer_id: str | None = None
    """The name under which the messages are numbered: the same after a restart. None: a new one for each start."""
    linger_ms: float = 0.0
    """How long an async send waits for others to share a request with; 0 joins those of one moment."""
    batch_bytes: int = 128 << 10
    """A shared request is sent when it has this many bytes; 0: every message has a request of its own."""
    compress_over_bytes: int = _java(4096, "compressMsgBodyOverHowmuch")
    """Bodies of this size or more are compressed; 0 compresses all."""
    compress_level: int = _java(5, "rocketmq.message.compressLevel")
    """zlib's level, 0 (none) to 9 (smallest)."""
    message_bytes_max: int = _java(4 << 20, "maxMessageSize")
    """A body, or a batch, over this is refused before it is sent."""
    create_topic_key: str = _java(AUTO_CREATE_TOPIC, "createTopicKey")
    """The topic after whose route brokers make one that does not exist."""
    default_topic_queues: int = _java(4, "defaultTopicQueueNums")
    """Queues of a topic that a send makes."""
    in_flight_max: int = _java(10_000, "backPressureForAsyncSendNum")
    """Unanswered sends at a time; the next one waits for a free place."""
    in_flight_bytes_max: int = _java(100 << 20, "backPressureForAsyncSendSize")
    """Bytes of unanswered sends at a time."""
    place_timeout_s: float | None = None
    """A send that waits for a place gives up when no other was answered for this long. None: `send_timeout_s`."""
    oneway_in_flight_max: int = _java(65_535, "com.rocketmq.remoting.clientOnewaySemaphoreValue")
    """One-way sends that may wait for a slow broker at a time; their bytes have the limit above."""

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)  # slots=True makes a new class, which a bare super() does not find
        for name in (
            "send_timeout_s",
            "message_bytes_max",
            "default_topic_queues",
            "in_flight_max",
            "in_flight_bytes_max",
            "oneway_in_flight_max",
        ):
            _positive(self, name)
        if self.place_timeout_s is not None:
            _positive(self, "place_timeout_s")
        if self.linger_ms < 0 or self.batch_bytes < 0:
            raise ConfigError(f"linger_ms {self.linger_ms}, batch_bytes {self.batch_bytes}: 0 or more")
        if self.compress_over_bytes < 0:
            raise ConfigError(f"compress_over_bytes is {self.compress_over_bytes}: 0 compresses everything")
        if self.producer_id is not None:
            if not self.idempotent:
                raise ConfigError("producer_id belongs to idempotent=True: give both or none")
            if not 0 < len(self.producer_id) <= 128 or {"\x01", "\x02"} & set(self.producer_id):
                raise ConfigError(
                    f"producer_id {self.producer_id!r}: 1 to 128 characters, no control characters"
                )
        if min(self.retries, self.async_retries) < 0:
            raise ConfigError(f"retries {self.retries}, async_retries {self.async_retries}: 0 or more")
        if not 0 <= self.compress_level <= 9:
            raise ConfigError(f"compress_level {self.compress_level} is not between 0 and 9")


@dataclass(frozen=True, slots=True)
class ConsumerConfig(ClientConfig):
    """A consumer's rules; what only one kind of consumer uses is ignored by the others."""

    message_model: MessageModel = field(default=MessageModel.CLUSTERING, metadata={"java": "messageModel"})
    """CLUSTERING: members share the queues; BROADCASTING: each gets every message."""
    consume_from: ConsumeFromWhere = field(
        default=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, metadata={"java": "consumeFromWhere"}
    )
    """Where a group begins that has no offset of a queue yet."""
    consume_timestamp: str | None = _java(None, "consumeTimestamp")
    """yyyyMMddHHmmss for CONSUME_FROM_TIMESTAMP; None: half an hour before the start."""
    concurrency: int = _java(20, "consumeThreadMax")
    """Listeners that run at a time: threads, or tasks for coroutine functions."""
    consume_batch: int = _java(1, "consumeMessageBatchMaxSize")
    """Over 1: listeners are given lists of up to this many messages."""
    pull_batch: int = _java(32, "pullBatchSize")
    """Messages asked for at a time; up to 8 times as many while more wait at a broker of ours."""
    pull_interval_s: float = _java(0.0, "pullInterval")
    """Pause between two pulls of a queue that brought messages."""
    pull_hold_s: float = _java(15.0, "brokerSuspendMaxTimeMillis")
    """How long a broker may hold a pull that finds nothing."""
    pull_timeout_s: float = _java(30.0, "consumerTimeoutMillisWhenSuspend")
    """Time limit of a pull, the broker's hold included."""
    queue_messages_max: int = _java(1000, "pullThresholdForQueue")
    """Pulling of a queue waits while this many of its messages are unfinished."""
    queue_bytes_max: int = _java(100 << 20, "pullThresholdSizeForQueue")
    """Pulling of a queue waits while its unfinished messages have this many bytes."""
    topic_messages_max: int = _java(-1, "pullThresholdForTopic")
    """`queue_messages_max` for a topic, shared evenly by its queues; -1: no such limit."""
    topic_bytes_max: int = _java(-1, "pullThresholdSizeForTopic")
    """`queue_bytes_max` for a topic, shared evenly by its queues; -1: no such limit."""
    span_max: int = _java(2000, "consumeConcurrentlyMaxSpan")
    """Pulling waits while the oldest unfinished message is this far behind the newest (concurrent only)."""
    retries: int = _java(-1, "maxReconsumeTimes")
    """-1: 16 times when concurrent, without end when orderly."""
    suspend_s: float = _java(1.0, "suspendCurrentQueueTimeMillis")
    """Pause of an ordered queue before a message that failed is tried again."""
    consume_timeout_s: float = _java(900.0, "consumeTimeout")
    """A listener that runs longer: its messages go back to the broker for another try."""
    start_timeout_s: float = 60.0
    """How long a start waits for name servers that do not answer yet; 0 does not wait."""
    commit_interval_s: float = _java(5.0, "persistConsumerOffsetInterval")
    """How often offsets are stored."""
    rebalance_s: float = _java(20.0, "rocketmq.client.rebalance.waitInterval")
    """How often it is looked who consumes which queues, beside every change."""
    lock_renew_s: float = _java(20.0, "rocketmq.client.rebalance.lockInterval")
    """How often the locks of ordered queues are renewed."""
    lock_expire_s: float = _java(30.0, "rocketmq.client.rebalance.lockMaxLiveTime")
    """A lock not renewed for this long counts as lost."""
    post_subscription_when_pull: bool = _java(False, "postSubscriptionWhenPull")
    """Send the subscription with every pull, for brokers that do not know it from heartbeats."""
    filter_hooks: Sequence[FilterMessageHook] = field(
        default=(), repr=False, metadata={"java": "filterMessageHook"}
    )
    """They decide which messages of a pull are consumed."""
    queue_listener: QueueListener | None = field(
        default=None, repr=False, metadata={"java": "messageQueueListener"}
    )
    """Told when this member gets other queues of a topic."""
    offset_store: OffsetStore | None = field(default=None, repr=False, metadata={"java": "offsetStore"})
    """Where the group's offsets are kept instead of on the broker."""


class ClientOptions(TypedDict, total=False):
    """ClientConfig's fields as keyword arguments (a test keeps the two alike)."""

    nameserver: str | Sequence[str] | None
    namespace: str | None
    instance_name: str
    unit_name: str | None
    unit_mode: bool
    client_ip: str | None
    vip_channel: bool
    route_poll_s: float
    heartbeat_s: float
    call_timeout_s: float
    close_timeout_s: float
    access_key: str | None
    secret_key: str | None
    tls: bool | TlsConfig | None
    trace: bool
    trace_topic: str
    rpc_hooks: Sequence[RpcHook]


class ProducerOptions(ClientOptions, total=False):
    """ProducerConfig's fields as keyword arguments."""

    send_timeout_s: float
    retries: int
    async_retries: int
    retry_not_stored: bool
    latency_faults: bool
    idempotent: bool
    producer_id: str | None
    linger_ms: float
    batch_bytes: int
    compress_over_bytes: int
    compress_level: int
    message_bytes_max: int
    create_topic_key: str
    default_topic_queues: int
    in_flight_max: int
    in_flight_bytes_max: int
    place_timeout_s: float | None
    oneway_in_flight_max: int


class ConsumerOptions(ClientOptions, total=False):
    """ConsumerConfig's fields as keyword arguments."""

    message_model: MessageModel
    consume_from: ConsumeFromWhere
    consume_timestamp: str | None
    concurrency: int
    consume_batch: int
    pull_batch: int
    pull_interval_s: float
    pull_hold_s: float
    pull_timeout_s: float
    queue_messages_max: int
    queue_bytes_max: int
    topic_messages_max: int
    topic_bytes_max: int
    span_max: int
    retries: int
    suspend_s: float
    consume_timeout_s: float
    start_timeout_s: float
    commit_interval_s: float
    rebalance_s: float
    lock_renew_s: float
    lock_expire_s: float
    post_subscription_when_pull: bool
    filter_hooks: Sequence[FilterMessageHook]
    queue_listener: QueueListener | None
    offset_store: OffsetStore | None


def client_id(config: ClientConfig, *, ip: str, pid: int, nanos: int, keep_default: bool = False) -> str:
    """ip@instance[@unit]; the instance DEFAULT becomes pid#nanos: two clients are never taken for one.

    Broadcasting consumers keep it (`keep_default`): their offset file is named after the id.

    >>> client_id(ClientConfig("g"), ip="10.0.0.1", pid=7, nanos=99)
    '10.0.0.1@7#99'
    """
    instance = config.instance_name
    if instance == DEFAULT_INSTANCE and not keep_default:
        instance = f"{pid}#{nanos}"
    parts = [config.client_ip or ip, instance]
    if config.unit_name and config.unit_name.strip():
        parts.append(config.unit_name)
    return "@".join(parts)


def validate_group(group: str) -> None:
    """Raise InvalidGroup for what RocketMQ's clients refuse."""
    if not isinstance(group, str):
        raise InvalidGroup(f"the group is {group!r:.80}: it must be a text")
    if not group.strip():
        raise InvalidGroup("the group is blank: every producer and consumer belongs to one")
    if len(group) > GROUP_CHARS_MAX:
        raise InvalidGroup(f"group {group[:32]!r}... is longer than {GROUP_CHARS_MAX} characters")
    if _GROUP.fullmatch(group) is None:
        raise InvalidGroup(f"group {group!r} holds characters other than letters, digits and % | _ -")
    if group in _RESERVED_GROUPS:
        raise InvalidGroup(f"group {group!r} is reserved: choose a name of your own")


def _positive(config: ClientConfig, name: str) -> None:
    if getattr(config, name) <= 0:
        raise ConfigError(f"{name} is {getattr(config, name)}: it must be more than 0")
