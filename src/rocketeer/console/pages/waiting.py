"""What waits inside brokers: delayed messages by level, timed ones, half messages of transactions."""

import asyncio
import contextlib
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rocketeer import MessageQueue, ReceivedMessage
from rocketeer.admin.results import ClusterBroker
from rocketeer.console.cluster_view import ClusterView
from rocketeer.console.fan_out import ask_each
from rocketeer.console.i18n import TranslatableText, text
from rocketeer.console.page_request import PageRequest
from rocketeer.console.pages.message_display import displayed
from rocketeer.console.registry import Action, ActionResult, PageView, Param
from rocketeer.console.users import UserRole
from rocketeer.errors import NoRoute
from rocketeer.model.property_names import (
    PGROUP,
    REAL_TOPIC,
    TIMER_DEL_UNIQKEY,
    TIMER_OUT_MS,
    TRANSACTION_CHECK_TIMES,
)
from rocketeer.model.topic import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from rocketeer.protocol.recall_handle import RecallHandle

NEWEST: Final = 1_000
"""Records of a system topic that are looked at, from its end: older ones that still wait are counted elsewhere."""
PULL: Final = 32
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""Under this name brokers keep how far they are with half and op messages."""
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


async def newest(cluster: ClusterView, queue: MessageQueue, *, since: int = 0) -> list[ReceivedMessage]:
    """The last messages of a queue from `since` on, oldest first; at most NEWEST."""
    least, end = await cluster.admin.queue_range(queue)
    at = max(least, since, end - NEWEST)
    found: list[ReceivedMessage] = []
    while at < end:
        pulled = await cluster.admin.pull_messages(queue, at, max_count=PULL)
        found += pulled.messages
        at = max(pulled.next_offset, at + 1)
    return found


async def _queues(cluster: ClusterView, topic: str) -> tuple[MessageQueue, ...]:
    """A topic's queues, also when brokers made it just now and the name servers do not know it yet."""
    try:
        return await cluster.admin.queues(topic)
    except NoRoute:
        tables = await cluster.topic_configs.get()
    found: list[MessageQueue] = []
    for broker, table in tables:
        if topic in table:
            with contextlib.suppress(
                NoRoute
            ):  # every broker has a topic of its own name, so that it can be found
                await cluster.admin.topic_route(broker.name)
                found += [
                    MessageQueue(topic, broker.name, number) for number in range(table[topic].read_queues)
                ]
    return tuple(found)


# --- delayed and timed --------------------------------------------------------------------------


async def delayed(request: PageRequest) -> Mapping[str, Any]:
    cluster = request.cluster
    masters = (await cluster.brokers.get()).masters()
    (levels, failures), timed = await asyncio.gather(
        ask_each(masters, lambda broker: _levels(cluster, broker)), _timed(cluster)
    )
    rows: list[dict[str, Any]] = []
    untimed: list[TranslatableText] = []
    for broker, (its_rows, settings) in levels:
        rows += its_rows
        untimed += no_timers(broker, settings)
    return {
        "rows": rows,
        "has_timers": not masters or len(untimed) < len(masters),
        "untimed": untimed,
        "timed": timed[0],
        "failures": [*failures, *timed[1]],
        "newest": NEWEST,
        "now_ms": int(time.time() * 1000),
    }


def no_timers(broker: ClusterBroker, settings: Mapping[str, str]) -> list[TranslatableText]:
    """Why a broker keeps no timed messages; nothing for one that does."""
    enabled = settings.get("timerWheelEnable")
    if enabled is None:
        return [text("{who} has no timers: RocketMQ 4 delivers timed messages at once.", who=broker.name)]
    return [] if enabled == "true" else [text("{who} has timerWheelEnable=false.", who=broker.name)]


async def _levels(
    cluster: ClusterView, broker: ClusterBroker
) -> tuple[list[dict[str, Any]], Mapping[str, str]]:
    """Every level something waits at: how much, and when the first is due; and the broker's settings."""
    admin = cluster.admin
    offsets, settings = await asyncio.gather(
        admin.delay_offsets(broker.address), admin.broker_settings(broker.address)
    )
    delays = delays_s(settings.get("messageDelayLevel", ""))
    queues = {
        queue.queue_id: queue
        for queue in await _queues(cluster, SCHEDULE_TOPIC)
        if queue.broker_name == broker.name
    }
    rows: list[dict[str, Any]] = []
    for level in sorted({*offsets, *(queue_id + 1 for queue_id in queues)}):
        queue, offset = queues.get(level - 1), offsets.get(level, 0)
        waiting, due_ms = None, None
        if queue is not None:
            _, end = await admin.queue_range(queue)
            if end == 0:
                continue
            waiting = max(end - offset, 0)
            if waiting and level in delays:
                pulled = await admin.pull_messages(queue, offset, max_count=1)
                due_ms = pulled.messages[0].store_ms + delays[level] * 1000 if pulled.messages else None
        rows.append(
            {
                "broker": broker.name,
                "level": level,
                "delay_s": delays.get(level),
                "delivered": offset,
                "waiting": waiting,
                "due_ms": due_ms,
            }
        )
    return rows, settings


def delays_s(levels: str) -> dict[int, int]:
    """Level -> seconds, from a broker's setting `1s 5s 10s`.

    >>> delays_s("1s 2m")
    {1: 1, 2: 120}
    """
    found: dict[int, int] = {}
    for level, word in enumerate(levels.split(), 1):
        match = re.fullmatch(r"(\d{1,9})([smhd])", word)
        if match is not None:
            found[level] = int(match[1]) * _UNITS_S[match[2]]
    return found


async def _timed(cluster: ClusterView) -> tuple[list[dict[str, Any]], list[TranslatableText]]:
    """Timed messages among the newest records: those not due yet and not taken back; who did not answer."""
    now_ms = int(time.time() * 1000)
    queues = await _queues(cluster, TIMER_TOPIC)
    answers, failures = await ask_each(
        queues, lambda queue: newest(cluster, queue), name=lambda queue: queue.broker_name
    )
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for queue, answer in answers:
        for message in answer:
            recalled = message.properties.get(TIMER_DEL_UNIQKEY)
            if recalled is not None:
                topic, _, identity = recalled.partition("+")
                rows.pop((topic, identity), None)
                continue
            due = message.properties.get(TIMER_OUT_MS, "")
            topic = message.properties.get(REAL_TOPIC, "")
            if due.isascii() and due.isdigit() and int(due) > now_ms:
                handle = RecallHandle(topic, queue.broker_name, int(due), message.message_id)
                rows[topic, message.message_id] = {
                    "message": displayed(message),
                    "topic": topic,
                    "due_ms": int(due),
                    "handle": handle.encode(),
                }
    return sorted(rows.values(), key=lambda row: int(row["due_ms"])), failures


async def recall(request: PageRequest) -> ActionResult:
    async with request.cluster.producer() as producer:
        identity = await producer.recall(request.needed("handle"))
    return ActionResult(text("the message {id} will not be delivered", id=identity))


# --- transactions -------------------------------------------------------------------------------


async def transactions(request: PageRequest) -> Mapping[str, Any]:
    """Half messages without an end: of what the broker has not settled, those no op message names."""
    cluster = request.cluster
    masters = (await cluster.brokers.get()).masters()
    answers, failures = await ask_each(masters, lambda broker: _halves(cluster, broker))
    pending: list[dict[str, Any]] = []
    given_up: list[dict[str, Any]] = []
    for broker, (halves, lost) in answers:
        pending += [_half(each, broker) for each in halves]
        given_up += [_half(each, broker) for each in lost]
    pending.sort(key=lambda row: int(row["message"].born_ms))
    return {
        "pending": pending,
        "given_up": given_up[::-1],
        "failures": failures,
        "newest": NEWEST,
        "now_ms": int(time.time() * 1000),
    }


async def _halves(
    cluster: ClusterView, broker: ClusterBroker
) -> tuple[list[ReceivedMessage], list[ReceivedMessage]]:
    """(halves without an end, halves the broker gave up on) of one broker."""
    halves, ops, given_up = await asyncio.gather(
        _of(cluster, TRANS_HALF_TOPIC, broker),
        _of(cluster, TRANS_OP_HALF_TOPIC, broker),
        _of(cluster, TRANS_CHECK_MAX_TIME_TOPIC, broker),
    )
    settled = {int(place) for op in ops for place in _offsets(op.body)}
    # A half that is asked about again is stored again, and the op message of the first names that one only.
    latest: dict[str, ReceivedMessage] = {}
    for half in halves:
        if half.queue_offset in settled:
            latest.pop(half.message_id, None)
        else:
            latest[half.message_id] = half
    return list(latest.values()), given_up


async def _of(cluster: ClusterView, topic: str, broker: ClusterBroker) -> list[ReceivedMessage]:
    """The newest messages a broker has in a system topic, from where it is with them."""
    queues = [queue for queue in await _queues(cluster, topic) if queue.broker_name == broker.name]
    if not queues:
        return []
    table = await cluster.admin.consumer_offsets(broker.address)
    places = table.get(f"{topic}@{TRANSACTION_GROUP}", {})
    found = await asyncio.gather(
        *(newest(cluster, queue, since=places.get(queue.queue_id, 0)) for queue in queues)
    )
    return [message for part in found for message in part]


def _offsets(body: bytes) -> list[bytes]:
    """Places of settled halves: one in 4.9's op messages, several with commas in 5.x's."""
    return [part for part in body.split(b",") if part.isdigit() and len(part) <= 18]


def _half(message: ReceivedMessage, broker: ClusterBroker) -> dict[str, Any]:
    properties = message.properties
    return {
        "message": displayed(message),
        "for_topic": properties.get(REAL_TOPIC, ""),
        "group": properties.get(PGROUP, ""),
        "checks": properties.get(TRANSACTION_CHECK_TIMES, "0"),
        "broker": broker,
    }


async def resume(request: PageRequest) -> ActionResult:
    await request.cluster.admin.resume_half_message(request.path["address"], request.path["id"])
    return ActionResult(text("the producers of {id} will be asked again", id=request.path["id"]))


VIEWS: Sequence[PageView] = (
    PageView("/delayed", "delayed", "Delayed and timed messages that wait", delayed, "delayed.html", nav="Delayed"),
    PageView("/transactions", "transactions", "Half messages", transactions, "transactions.html", nav="Transactions"),
)  # fmt: skip
ACTIONS: Sequence[Action] = (
    Action("/delayed/recall", "recall", "Take back", recall,
           (Param("handle", "recall handle", required=True),), warning="It will never be delivered.", dangerous=True),
    Action("/transactions/{address}/{id}/resume", "resume_half", "Ask its producers again", resume,
           role=UserRole.ADMIN,
           warning="The broker gave up on {id}; its producers are asked once more how it ended."),
)  # fmt: skip
