"""The public names that the clients for threads and for asyncio share: messages, results, options, hooks, errors.

`rocketeer` and `rocketeer.aio` offer all of them; `docs/reference.md` is made from their docstrings.
"""

from rocketeer.client.core.allocate import (
    AVERAGELY,
    Averagely,
    AveragelyByCircle,
    ByConfig,
    ByMachineRoom,
    ConsistentHash,
    MachineRoomNearby,
    Strategy,
)
from rocketeer.client.core.codecs import JSON, MSGPACK, PROTOBUF, AvroCodec, Codec, typed_message
from rocketeer.client.core.config import ConsumerConfig, ConsumerOptions, ProducerConfig, ProducerOptions
from rocketeer.client.core.consumer_ports import FilterMessageHook, OffsetStore, QueueListener
from rocketeer.client.core.depends import Depends
from rocketeer.client.core.encoding import Outgoing, split_batch
from rocketeer.client.core.failure import Failure
from rocketeer.client.core.hooks import (
    ConsumeContext,
    ConsumeHook,
    SendContext,
    SendHook,
    SendMode,
    TransactionContext,
    TransactionHook,
)
from rocketeer.client.core.middleware import (
    Consuming,
    Context,
    Middleware,
    Pause,
    PublishContext,
    Publishing,
    Within,
)
from rocketeer.client.core.outcome import COMMIT, RETRY, ROLLBACK, Outcome, Retry
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.retry_policy import RetryPolicy
from rocketeer.client.core.rpc_hooks import RpcContext, RpcHook
from rocketeer.client.core.selectors import Selector, by_hash, by_random
from rocketeer.client.core.send_result import SendResult, SendStatus
from rocketeer.client.core.transactions import UNKNOWN, Transaction, TransactionResult, TransactionState
from rocketeer.client.plans.pull import PullResult, PullStatus
from rocketeer.errors import (
    AccessDenied,
    BadMessageId,
    BadRecallHandle,
    BadSqlExpression,
    BrokerRefused,
    CallTimeout,
    ClientClosed,
    ClientError,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    InvalidGroup,
    InvalidTopic,
    MessageNotFound,
    MessageTooLarge,
    NoBroker,
    NoNameServer,
    NoRoute,
    ProtocolError,
    RemotingError,
    RequestTimeout,
    RocketeerError,
    SendFailed,
    SendTimeout,
    TooManyInFlight,
    UndecodableBody,
    UnknownOption,
)
from rocketeer.model.group import SubscriptionGroup
from rocketeer.model.message import InvalidMessage, Message
from rocketeer.model.offsets import LogOffset, QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import BadTagExpression, ConsumeFromWhere, MessageModel
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.command import Command
from rocketeer.record.trace import ConsumeCode
from rocketeer.security.tls import TlsConfig

__all__ = [
    "AVERAGELY",
    "COMMIT",
    "JSON",
    "MSGPACK",
    "PROTOBUF",
    "RETRY",
    "ROLLBACK",
    "UNKNOWN",
    "AccessDenied",
    "Averagely",
    "AveragelyByCircle",
    "AvroCodec",
    "BadMessageId",
    "BadRecallHandle",
    "BadSqlExpression",
    "BadTagExpression",
    "BrokerRefused",
    "ByConfig",
    "ByMachineRoom",
    "CallTimeout",
    "ClientClosed",
    "ClientError",
    "Codec",
    "Command",
    "ConfigError",
    "ConnectFailed",
    "ConnectionLost",
    "ConsistentHash",
    "ConsumeCode",
    "ConsumeContext",
    "ConsumeFromWhere",
    "ConsumeHook",
    "ConsumerConfig",
    "ConsumerOptions",
    "Consuming",
    "Context",
    "Depends",
    "Failure",
    "FilterMessageHook",
    "InvalidGroup",
    "InvalidMessage",
    "InvalidTopic",
    "LogOffset",
    "MachineRoomNearby",
    "Message",
    "MessageModel",
    "MessageNotFound",
    "MessageQueue",
    "MessageTooLarge",
    "Middleware",
    "NoBroker",
    "NoNameServer",
    "NoRoute",
    "OffsetStore",
    "Outcome",
    "Outgoing",
    "Pause",
    "ProducerConfig",
    "ProducerOptions",
    "ProtocolError",
    "PublishContext",
    "Publishing",
    "PullResult",
    "PullStatus",
    "QueueListener",
    "QueueOffset",
    "ReceivedMessage",
    "RemotingError",
    "RequestTimeout",
    "Retry",
    "RetryPolicy",
    "RocketeerError",
    "RpcContext",
    "RpcHook",
    "Selector",
    "SendContext",
    "SendFailed",
    "SendHook",
    "SendMode",
    "SendResult",
    "SendStatus",
    "SendTimeout",
    "Strategy",
    "SubscriptionGroup",
    "TlsConfig",
    "TooManyInFlight",
    "TopicConfig",
    "Transaction",
    "TransactionContext",
    "TransactionHook",
    "TransactionResult",
    "TransactionState",
    "UndecodableBody",
    "UnknownOption",
    "Within",
    "by_hash",
    "by_random",
    "split_batch",
    "typed_message",
]
