"""What waits inside brokers: delayed messages by level, timed ones, half messages of transactions."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rocketeer.console.pages.messages import shown
from rocketeer.console.pages.topics import CONSOLE_GROUP
from rocketeer.console.registry import Action, Outcome, Param, View
from rocketeer.console.visit import Visit
from rocketeer.errors import ClientError, RocketeerError
from rocketeer.model.property_names import REAL_TOPIC
from rocketeer.model.topic import SCHEDULE_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC

HALVES: Final = 50


async def delayed(visit: Visit) -> Mapping[str, Any]:
    known = await visit.cluster.brokers.get()
    masters = [broker for broker in known.brokers if broker.broker_id == 0]
    answers = await asyncio.gather(
        *(visit.cluster.admin.delay_offsets(broker.address) for broker in masters), return_exceptions=True
    )
    ends: dict[tuple[str, int], int] = {}
    try:
        status = await visit.cluster.admin.topic_status(SCHEDULE_TOPIC)
        ends = {
            (queue.broker_name, queue.queue_id): bounds.max_offset for queue, bounds in status.queues.items()
        }
    except ClientError:
        pass  # nothing was ever delayed: the topic has no route
    rows: list[dict[str, Any]] = []
    failures: list[str] = []
    for broker, answer in zip(masters, answers, strict=True):
        if isinstance(answer, RocketeerError):
            failures.append(f"{broker.name} did not answer: {answer}")
            continue
        if isinstance(answer, BaseException):
            raise answer
        for level, offset in sorted(answer.items()):
            end = ends.get((broker.name, level - 1))
            rows.append(
                {
                    "broker": broker.name,
                    "level": level,
                    "delivered": offset,
                    "waiting": None if end is None else max(end - offset, 0),
                }
            )
    return {"rows": rows, "failures": failures}


async def recall(visit: Visit) -> Outcome:
    async with visit.cluster.producer(CONSOLE_GROUP) as producer:
        identity = await producer.recall(visit.needed("handle"))
    return Outcome(f"the message {identity} will not be delivered")


async def transactions(visit: Visit) -> Mapping[str, Any]:
    """The newest half messages; those with an end have an op message, which says so to the broker alone."""
    admin = visit.cluster.admin
    halves: list[Any] = []
    counts: dict[str, int | None] = {"halves": None, "ops": None}
    try:
        status, ops = await asyncio.gather(
            admin.topic_status(TRANS_HALF_TOPIC), admin.topic_status(TRANS_OP_HALF_TOPIC)
        )
    except ClientError as error:
        return {"halves": [], "counts": counts, "problem": str(error), "now_ms": int(time.time() * 1000)}
    counts = {
        "halves": sum(bounds.max_offset - bounds.min_offset for bounds in status.queues.values()),
        "ops": sum(bounds.max_offset - bounds.min_offset for bounds in ops.queues.values()),
    }
    for queue, bounds in status.queues.items():
        if bounds.max_offset > bounds.min_offset:
            start = max(bounds.min_offset, bounds.max_offset - HALVES)
            pulled = await admin.pull_messages(queue, start, max_count=HALVES)
            halves += [
                {"message": shown(each), "for_topic": each.properties.get(REAL_TOPIC, ""),
                 "group": each.properties.get("PGROUP", "")}
                for each in pulled.messages
            ]  # fmt: skip
    return {"halves": halves[::-1], "counts": counts, "problem": "", "now_ms": int(time.time() * 1000)}


VIEWS: Sequence[View] = (
    View("/delayed", "delayed", "Delayed messages by level", delayed, "delayed.html", nav="Delayed"),
    View(
        "/transactions",
        "transactions",
        "Half messages",
        transactions,
        "transactions.html",
        nav="Transactions",
    ),
)
ACTIONS: Sequence[Action] = (
    Action("/delayed/recall", "recall", "Take a timed message back", recall,
           (Param("handle", "recall handle", required=True),), warning="It will never be delivered.", dangerous=True),
)  # fmt: skip
