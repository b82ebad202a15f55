"""What a running consumer tells of itself (307), and what it did with one message (309), as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rocketeer.model.java_types import I32, I64, JavaValue, QueueOffsetI64, java
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import Subscription
from rocketeer.protocol.bodies.queue_keys import encode_queue_keyed, load_queue_keyed, queue_of
from rocketeer.protocol.bodies.subscription import (
    SubscriptionWire,
    subscription_from_wire,
    subscription_to_wire,
)
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_as


class HeldQueue(JavaValue, frozen=True):
    """A queue in a consumer's hands."""

    commit_offset: QueueOffsetI64 = QueueOffset(0)
    cached_min_offset: QueueOffsetI64 = java("cachedMsgMinOffset", 0)
    cached_max_offset: QueueOffsetI64 = java("cachedMsgMaxOffset", 0)
    cached_count: I32 = java("cachedMsgCount", 0)
    cached_mib: I32 = java("cachedMsgSizeInMiB", 0)
    in_transaction_min_offset: QueueOffsetI64 = java("transactionMsgMinOffset", 0)
    in_transaction_max_offset: QueueOffsetI64 = java("transactionMsgMaxOffset", 0)
    in_transaction_count: I32 = java("transactionMsgCount", 0)
    locked: bool = False
    unlock_tries: I64 = java("tryUnlockTimes", 0)
    last_lock_ms: I64 = java("lastLockTimestamp", 0)
    dropped: bool = java("droped", False)
    last_pull_ms: I64 = java("lastPullTimestamp", 0)
    last_consume_ms: I64 = java("lastConsumeTimestamp", 0)


class TopicConsumption(JavaValue, frozen=True):
    """How fast a consumer is with a topic: times in milliseconds, rates a second."""

    pull_ms: float = java("pullRT", 0.0)
    pull_tps: float = java("pullTPS", 0.0)
    consume_ms: float = java("consumeRT", 0.0)
    consume_ok_tps: float = java("consumeOKTPS", 0.0)
    consume_failed_tps: float = java("consumeFailedTPS", 0.0)
    consume_failed_count: I64 = java("consumeFailedMsgs", 0)


@dataclass(frozen=True, slots=True)
class RunningInfo:
    """One member of a consumer group; `stacks` is where its threads are, if that was asked for."""

    properties: Mapping[str, str]
    subscriptions: tuple[Subscription, ...]
    queues: Mapping[MessageQueue, HeldQueue]
    topics: Mapping[str, TopicConsumption] = field(default_factory=dict)
    stacks: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumeDirectResult:
    """What a listener did with the message it was handed: CR_SUCCESS, CR_LATER, CR_THROW_EXCEPTION ..."""

    result: str
    order: bool = False
    auto_commit: bool = True
    remark: str | None = None
    spent_ms: int = 0


class _InfoWire(Wire):
    mq_table: dict[str, HeldQueue] | None = None
    properties: dict[str, str | None] | None = None
    status_table: dict[str, TopicConsumption] | None = None
    subscription_set: list[SubscriptionWire] | None = None
    jstack: str | None = None


class _DirectWire(Wire):
    auto_commit: bool = True
    consume_result: str | None = None
    order: bool = False
    spent_time_mills: I64 = 0
    remark: str | None = None


_info_decoder = decoder(_InfoWire)
_direct_decoder = decoder(_DirectWire)


def encode_running_info(info: RunningInfo) -> bytes:
    """The body of 307; the queues stand as keys, which only fastjson reads."""
    parts = [
        b'"mqTable":' + encode_queue_keyed((queue, encode(each)) for queue, each in info.queues.items()),
        b'"properties":' + encode(dict(info.properties)),
        b'"statusTable":' + encode(dict(info.topics)),
        b'"subscriptionSet":' + encode([subscription_to_wire(each) for each in info.subscriptions]),
    ]
    if info.stacks is not None:
        parts.append(b'"jstack":' + encode(info.stacks))
    return b"{%b}" % b",".join(parts)


def decode_running_info(data: bytes) -> RunningInfo:
    wire = load_queue_keyed(_info_decoder, data)
    return RunningInfo(
        {name: value for name, value in (wire.properties or {}).items() if value is not None},
        tuple(subscription_from_wire(each) for each in wire.subscription_set or ()),
        {queue_of(key): each for key, each in (wire.mq_table or {}).items()},
        wire.status_table or {},
        wire.jstack,
    )


def encode_direct_result(result: ConsumeDirectResult) -> bytes:
    fields: dict[str, object] = {
        "autoCommit": result.auto_commit,
        "consumeResult": result.result,
        "order": result.order,
        "spentTimeMills": result.spent_ms,
    }
    if result.remark is not None:
        fields["remark"] = result.remark
    return encode(fields)


def decode_direct_result(data: bytes) -> ConsumeDirectResult:
    wire = load_as(_direct_decoder, data)
    return ConsumeDirectResult(
        wire.consume_result or "", wire.order, wire.auto_commit, wire.remark, wire.spent_time_mills
    )
