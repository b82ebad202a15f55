"""Where groups are and are to be: resets (222, or 29 and 15), copies (314), tables (43, 45), corrections (308)."""

from collections.abc import Mapping
from typing import Final

from rocketeer.admin.context import AdminContext
from rocketeer.admin.plans.asking import (
    ask_broker,
    each_broker,
    in_parallel,
    is_not_online,
    topic_masters,
)
from rocketeer.admin.plans.progress import group_progress
from rocketeer.admin.results import ClusterBroker, NotAnswered, OffsetChange, OffsetReset
from rocketeer.client.plans import offsets as places
from rocketeer.client.plans.effects import Plan
from rocketeer.errors import BrokerRefused, ConfigError, RocketeerError
from rocketeer.model.offsets import QueueOffset
from rocketeer.model.queue import MessageQueue
from rocketeer.protocol.bodies.consume_stats import QueueProgress
from rocketeer.protocol.bodies.offsets import (
    decode_consumer_offsets,
    decode_corrections,
    decode_delay_offsets,
    decode_queue_offsets,
)
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.headers.offsets import (
    CloneGroupOffsetHeader,
    QueryCorrectionOffsetHeader,
    ResetOffsetHeader,
)

NOW_MS: Final = -1
"""As a time to reset to: the end of every queue."""


def reset_offsets(
    context: AdminContext, group: str, topic: str, time_ms: int, *, force: bool = True, cpp: bool = False
) -> Plan[OffsetReset]:
    """Have a group consume a topic from a time on (NOW_MS: what comes from now on).

    Its members are told and go on from there. When none is connected, the brokers' tables are changed instead.
    Without `force` no queue goes forward, over messages that were not consumed.
    """
    brokers = yield from topic_masters(context, topic)
    header = ResetOffsetHeader(topic, group, time_ms, force)

    def reset(each: ClusterBroker) -> Plan[dict[MessageQueue, QueueOffset]]:
        reply = yield from ask_broker(
            context, each.address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header
        )
        return decode_queue_offsets(reply.body)

    if not cpp:
        done = yield from each_broker(brokers, reset)
        if done.answers:
            table = {queue: offset for _, part in done for queue, offset in part.items()}
            changes = tuple(
                OffsetChange(queue, QueueOffset(offset)) for queue, offset in sorted(table.items())
            )
            return OffsetReset(group, topic, True, changes, done.failures)
        if not all(_says_offline(failure.error) for failure in done.failures):
            raise done.failures[0].error
    return (yield from reset_offline_offsets(context, group, topic, time_ms, force=force))


def _says_offline(error: RocketeerError) -> bool:
    """Whether it means that no member is online: 4.9.8 answers 206, or 1 with a text when it never met the group."""
    return is_not_online(error) or (
        isinstance(error, BrokerRefused)
        and error.code == ResponseCode.SYSTEM_ERROR
        and "not exist" in error.remark
    )


def reset_offline_offsets(
    context: AdminContext, group: str, topic: str, time_ms: int, *, force: bool = True
) -> Plan[OffsetReset]:
    """As `reset_offsets`, in the brokers' tables alone: members that run would not notice."""
    progress = yield from group_progress(context, group, topic)
    if not progress.stats.queues:
        raise ConfigError(f"group {group!r} has never consumed topic {topic!r}: there is nothing to reset")
    plans = [
        _reset_queue(context, group, queue, state, time_ms, force)
        for queue, state in sorted(progress.stats.queues.items())
        if queue.topic == topic
    ]
    outcomes = yield from in_parallel(plans)
    changes = tuple(each for each in outcomes if isinstance(each, OffsetChange))
    errors = [each for each in outcomes if isinstance(each, RocketeerError)]
    if errors and not changes:
        raise errors[0]
    failures = tuple(NotAnswered(f"a queue of {topic}", each) for each in errors)
    return OffsetReset(group, topic, False, changes, progress.failures + failures)


def _reset_queue(
    context: AdminContext, group: str, queue: MessageQueue, state: QueueProgress, time_ms: int, force: bool
) -> Plan[OffsetChange]:
    if time_ms == NOW_MS:
        there = yield from places.max_offset(context.cluster, queue)
    else:
        there = yield from places.offset_at(context.cluster, queue, time_ms)
    before = state.consumer_offset
    wanted = there if force or there <= before else before
    if wanted != before:
        yield from places.commit_offset(context.cluster, group, queue, wanted)
    return OffsetChange(queue, wanted, state.broker_offset, before, there)


def clone_offsets(
    context: AdminContext, source: str, target: str, topic: str, *, offline: bool = False
) -> Plan[Mapping[MessageQueue, QueueOffset]]:
    """Have one group begin where another is in a topic; `offline`: though members of the target are connected.

    Every broker of the topic copies its own part; the places the target has then.
    """
    if source == target:
        raise ConfigError(f"group {source!r} cannot be copied onto itself")
    brokers = yield from topic_masters(context, topic)
    header = CloneGroupOffsetHeader(source, target, topic, offline)
    done = yield from each_broker(
        brokers, lambda each: ask_broker(context, each.address, RequestCode.CLONE_GROUP_OFFSET, header)
    )
    if done.failures:
        raise done.failures[0].error
    progress = yield from group_progress(context, target, topic)
    return {queue: state.consumer_offset for queue, state in progress.stats.queues.items()}


def consumer_offsets(context: AdminContext, broker: str) -> Plan[Mapping[str, Mapping[int, QueueOffset]]]:
    """Every group's offsets at one broker: `topic@group` -> queue -> offset."""
    reply = yield from ask_broker(context, broker, RequestCode.GET_ALL_CONSUMER_OFFSET)
    return decode_consumer_offsets(reply.body)


def delay_offsets(context: AdminContext, broker: str) -> Plan[Mapping[int, QueueOffset]]:
    """How far one broker has delivered of each delay level."""
    reply = yield from ask_broker(context, broker, RequestCode.GET_ALL_DELAY_OFFSET)
    return decode_delay_offsets(reply.body)


def offset_corrections(
    context: AdminContext, broker: str, topic: str, compare_group: str, groups: str = ""
) -> Plan[Mapping[int, QueueOffset]]:
    """The least offset of other groups of a topic by queue, where it is behind the compared group's."""
    header = QueryCorrectionOffsetHeader(compare_group, topic, groups)
    reply = yield from ask_broker(context, broker, RequestCode.QUERY_CORRECTION_OFFSET, header)
    return decode_corrections(reply.body)


def queue_range(context: AdminContext, queue: MessageQueue) -> Plan[tuple[QueueOffset, QueueOffset]]:
    """The oldest offset of a queue, and the one after its newest."""
    least = yield from places.min_offset(context.cluster, queue)
    most = yield from places.max_offset(context.cluster, queue)
    return least, most


def offset_at(context: AdminContext, queue: MessageQueue, time_ms: int) -> Plan[QueueOffset]:
    """The message of a queue that was stored nearest to a time."""
    return places.offset_at(context.cluster, queue, time_ms)
