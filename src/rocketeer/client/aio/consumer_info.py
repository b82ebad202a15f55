"""What a consumer answers when a broker asks on an operator's behalf: its state (307, 221), one message (309)."""

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import fields

from rocketeer.client.aio.consuming import DirectRun
from rocketeer.client.core.config import ConsumerConfig
from rocketeer.client.core.offsets import OffsetTable
from rocketeer.client.core.outcome import COMMIT, ROLLBACK
from rocketeer.client.core.process_queue import ProcessQueue
from rocketeer.model.subscription import ConsumeType, Subscription
from rocketeer.protocol.bodies.running_info import (
    ConsumeDirectResult,
    HeldQueue,
    RunningInfo,
    TopicConsumption,
    encode_direct_result,
    encode_running_info,
)
from rocketeer.protocol.codes import VERSION


def direct_result(job: DirectRun, *, orderly: bool, auto_commit: bool, spent_ms: int) -> bytes:
    """The body for 309: what the listener did with the message."""
    if job.error is not None:
        result = "CR_THROW_EXCEPTION"
    elif job.outcome is None:
        result = "CR_SUCCESS"
    elif job.outcome is COMMIT:
        result = "CR_COMMIT"
    elif job.outcome is ROLLBACK:
        result = "CR_ROLLBACK"
    else:
        result = "CR_LATER"
    remark = None if job.error is None else f"{type(job.error).__name__}: {job.error}"
    return encode_direct_result(ConsumeDirectResult(result, orderly, auto_commit, remark, spent_ms))


def running_info(
    config: ConsumerConfig,
    *,
    consume_type: ConsumeType,
    orderly: bool,
    nameservers: Iterable[str],
    started_ms: int,
    subscriptions: Iterable[Subscription],
    held: Iterable[ProcessQueue],
    offsets: OffsetTable,
    consumed: Mapping[str, int],
    failed: Mapping[str, int],
    stacks: bool,
) -> bytes:
    """The body for 307, as `mqadmin consumerStatus` reads it."""
    subscriptions = list(subscriptions)
    now_ms = time.time_ns() // 1_000_000
    up_s = max((now_ms - started_ms) / 1000, 0.001)
    now_s = time.monotonic()
    return encode_running_info(
        RunningInfo(
            {
                **_settings(config),
                "PROP_CONSUME_TYPE": str(consume_type),
                "PROP_CONSUMEORDERLY": _text(orderly),
                "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in nameservers),
                "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
                "PROP_THREADPOOL_CORE_SIZE": str(config.concurrency),
                "PROP_CLIENT_VERSION": f"V{VERSION}",
            },
            tuple(subscriptions),
            {each.queue: _held(each, offsets, now_s, now_ms) for each in held},
            {
                each.topic: TopicConsumption(
                    pull_tps=(consumed.get(each.topic, 0) + failed.get(each.topic, 0)) / up_s,
                    consume_ok_tps=consumed.get(each.topic, 0) / up_s,
                    consume_failed_tps=failed.get(each.topic, 0) / up_s,
                    consume_failed_count=failed.get(each.topic, 0),
                )
                for each in subscriptions
            },
            stack_traces() if stacks else None,
        )
    )


def _held(held: ProcessQueue, offsets: OffsetTable, now_s: float, now_ms: int) -> HeldQueue:
    offset = offsets.get(held.queue)
    return HeldQueue(
        held.commit_offset if offset is None else offset,
        held.min_offset,
        held.max_offset,
        held.count,
        held.bytes >> 20,
        in_transaction_count=held.taken,
        locked=held.lock_held(now_s),
        last_lock_ms=now_ms,
        dropped=held.dropped,
        last_pull_ms=held.pulled_ms,
        last_consume_ms=held.consumed_ms,
    )


def _settings(config: ConsumerConfig) -> dict[str, str]:
    """The configuration under Java's names; times there are in milliseconds, or as Java has them."""
    values = {"consumerGroup": config.full_group, "consumeThreadMin": str(config.concurrency)}
    for field in fields(config):
        name = field.metadata.get("java")
        value = getattr(config, field.name)
        if name is None or value is None:
            continue
        if name == "consumeTimeout":
            value = int(value // 60)
        elif name in ("pullThresholdSizeForQueue", "pullThresholdSizeForTopic"):
            value = max(value >> 20, 1) if value > 0 else value
        elif isinstance(value, float):
            value = int(value * 1000)
        values[name] = _text(value)
    return values


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def stack_traces() -> str:
    """Where every thread and every task is at this moment."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts: list[str] = []
    for number, frame in sys._current_frames().items():
        name = names.get(number, str(number))
        lines = [f"{name:<40}TID: {number}"]
        lines += [f"{name:<40}{at.name} ({at.filename}:{at.lineno})" for at in traceback.extract_stack(frame)]
        parts.append("\n".join(lines))
    for task in asyncio.all_tasks():
        name = task.get_name()
        lines = [f"{name:<40}TASK"]
        lines += [
            f"{name:<40}{at.f_code.co_qualname} ({at.f_code.co_filename}:{at.f_lineno})"
            for at in task.get_stack(limit=20)
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
