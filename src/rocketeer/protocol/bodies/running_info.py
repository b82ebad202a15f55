"""What a running consumer tells of itself (307), and what it did with one message (309), as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from rocketeer.model.queue import MessageQueue
from rocketeer.model.subscription import Subscription
from rocketeer.protocol.bodies.queue_keys import encode_queue_keyed, load_queue_keyed, queue_of
from rocketeer.protocol.bodies.subscription import (
    SubscriptionWire,
    subscription_from_wire,
    subscription_to_wire,
)
from rocketeer.protocol.bodies.wire import Wire, decoder, encode, load_as
from rocketeer.protocol.java_types import I32, I64


@dataclass(frozen=True, slots=True)
class HeldQueue:
    """A queue in a consumer's hands."""

    commit_offset: int
    cached_min_offset: int = 0
    cached_max_offset: int = 0
    cached_count: int = 0
    cached_mib: int = 0
    in_transaction_min_offset: int = 0
    in_transaction_max_offset: int = 0
    in_transaction_count: int = 0
    locked: bool = False
    unlock_tries: int = 0
    last_lock_ms: int = 0
    dropped: bool = False
    last_pull_ms: int = 0
    last_consume_ms: int = 0


@dataclass(frozen=True, slots=True)
class TopicConsumption:
    """How fast a consumer is with a topic: times in milliseconds, rates a second."""

    pull_ms: float = 0.0
    pull_tps: float = 0.0
    consume_ms: float = 0.0
    consume_ok_tps: float = 0.0
    consume_failed_tps: float = 0.0
    consume_failed_count: int = 0


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


class _HeldWire(Wire):
    cached_msg_count: I32 = 0
    cached_msg_max_offset: I64 = 0
    cached_msg_min_offset: I64 = 0
    cached_msg_size_in_mi_b: I32 = msgspec.field(default=0, name="cachedMsgSizeInMiB")
    commit_offset: I64 = 0
    droped: bool = False
    last_consume_timestamp: I64 = 0
    last_lock_timestamp: I64 = 0
    last_pull_timestamp: I64 = 0
    locked: bool = False
    transaction_msg_count: I32 = 0
    transaction_msg_max_offset: I64 = 0
    transaction_msg_min_offset: I64 = 0
    try_unlock_times: I64 = 0


class _TopicWire(Wire):
    consume_failed_msgs: I64 = 0
    consume_failed_tps: float = msgspec.field(default=0.0, name="consumeFailedTPS")
    consume_ok_tps: float = msgspec.field(default=0.0, name="consumeOKTPS")
    consume_rt: float = msgspec.field(default=0.0, name="consumeRT")
    pull_rt: float = msgspec.field(default=0.0, name="pullRT")
    pull_tps: float = msgspec.field(default=0.0, name="pullTPS")


class _InfoWire(Wire):
    mq_table: dict[str, _HeldWire] | None = None
    properties: dict[str, str | None] | None = None
    status_table: dict[str, _TopicWire] | None = None
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
    """The queues stand as keys, which only fastjson reads."""
    topics = {topic: _topic_to_wire(each) for topic, each in info.topics.items()}
    parts = [
        b'"mqTable":'
        + encode_queue_keyed((queue, encode(_held_to_wire(each))) for queue, each in info.queues.items()),
        b'"properties":' + encode(dict(info.properties)),
        b'"statusTable":' + encode(topics),
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
        {queue_of(key): _held_from_wire(each) for key, each in (wire.mq_table or {}).items()},
        {topic: _topic_from_wire(each) for topic, each in (wire.status_table or {}).items()},
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


def _held_to_wire(held: HeldQueue) -> _HeldWire:
    return _HeldWire(
        held.cached_count,
        held.cached_max_offset,
        held.cached_min_offset,
        held.cached_mib,
        held.commit_offset,
        held.dropped,
        held.last_consume_ms,
        held.last_lock_ms,
        held.last_pull_ms,
        held.locked,
        held.in_transaction_count,
        held.in_transaction_max_offset,
        held.in_transaction_min_offset,
        held.unlock_tries,
    )


def _held_from_wire(wire: _HeldWire) -> HeldQueue:
    return HeldQueue(
        wire.commit_offset,
        wire.cached_msg_min_offset,
        wire.cached_msg_max_offset,
        wire.cached_msg_count,
        wire.cached_msg_size_in_mi_b,
        wire.transaction_msg_min_offset,
        wire.transaction_msg_max_offset,
        wire.transaction_msg_count,
        wire.locked,
        wire.try_unlock_times,
        wire.last_lock_timestamp,
        wire.droped,
        wire.last_pull_timestamp,
        wire.last_consume_timestamp,
    )


def _topic_to_wire(each: TopicConsumption) -> _TopicWire:
    return _TopicWire(
        each.consume_failed_count,
        each.consume_failed_tps,
        each.consume_ok_tps,
        each.consume_ms,
        each.pull_ms,
        each.pull_tps,
    )


def _topic_from_wire(wire: _TopicWire) -> TopicConsumption:
    return TopicConsumption(
        wire.pull_rt,
        wire.pull_tps,
        wire.consume_rt,
        wire.consume_ok_tps,
        wire.consume_failed_tps,
        wire.consume_failed_msgs,
    )
