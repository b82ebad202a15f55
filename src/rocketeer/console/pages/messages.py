"""Messages: by topic and time, by key, by id; what is in one, who consumed it; consume directly; download."""

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rocketeer import ReceivedMessage
from rocketeer.console.registry import Action, Outcome, Param, View
from rocketeer.console.visit import BadField, Visit
from rocketeer.errors import RocketeerError

PAGE: Final = 20
HOUR_MS: Final = 3_600_000


@dataclass(frozen=True)
class Shown:
    """A message as pages and API show it."""

    topic: str
    id: str
    log_id: str
    broker: str
    queue_id: int
    queue_offset: int
    born_ms: int
    store_ms: int
    tags: str | None
    keys: str | None
    size: int
    properties: Mapping[str, str]


def shown(message: ReceivedMessage) -> Shown:
    return Shown(
        topic=message.topic,
        id=message.message_id,
        log_id=message.offset_message_id,
        broker=message.queue.broker_name,
        queue_id=message.queue.queue_id,
        queue_offset=message.queue_offset,
        born_ms=message.born_ms,
        store_ms=message.store_ms,
        tags=message.tags,
        keys=" ".join(message.keys) or None,
        size=message.size,
        properties=message.properties,
    )


async def messages(visit: Visit) -> Mapping[str, Any]:
    topic, by = visit.text("topic"), visit.text("by", "time")
    data: dict[str, Any] = {
        "topic": topic,
        "by": by,
        "found": [],
        "next": "",
        "names": await visit.cluster.topics.get(),
    }
    if not topic:
        return data
    admin = visit.cluster.admin
    if by == "key":
        data["found"] = await admin.messages_with_key(topic, visit.needed("value"))
    elif by == "id":
        data["found"] = [await _by_id(visit, topic, visit.needed("value"))]
    else:
        data["found"], data["next"] = await _by_time(visit, topic)
    data["found"] = [shown(message) for message in data["found"]]
    return data


async def _by_id(visit: Visit, topic: str, identity: str) -> ReceivedMessage:
    return await visit.cluster.admin.view_message(identity, topic)


async def _by_time(visit: Visit, topic: str) -> tuple[list[ReceivedMessage], str]:
    """A page of every queue in turn from a time on; `after` says how far each queue was read."""
    admin = visit.cluster.admin
    begin_ms = visit.time_ms("begin", int(time.time() * 1000) - HOUR_MS)
    end_ms = visit.time_ms("end", 2**62)
    queues = sorted(await admin.queues(topic), key=lambda queue: (queue.broker_name, queue.queue_id))
    after = dict(_places(visit.text("after")))
    starts = await asyncio.gather(
        *(_start(admin, queue, after.get(_name(queue)), begin_ms) for queue in queues)
    )
    pulls = await asyncio.gather(
        *(
            admin.pull_messages(queue, start, max_count=PAGE)
            for queue, start in zip(queues, starts, strict=True)
        )
    )
    merged = sorted(
        (message for pull in pulls for message in pull.messages if begin_ms <= message.store_ms <= end_ms),
        key=lambda message: (message.store_ms, message.queue.queue_id),
    )
    shown = merged[:PAGE]
    places = {_name(queue): start for queue, start in zip(queues, starts, strict=True)}
    for message in shown:
        places[_name(message.queue)] = max(places[_name(message.queue)], message.queue_offset + 1)
    more = len(merged) > len(shown) or any(len(pull.messages) == PAGE for pull in pulls)
    return shown, ",".join(f"{name}:{place}" for name, place in places.items()) if more else ""


async def _start(admin: Any, queue: Any, after: int | None, begin_ms: int) -> int:
    return after if after is not None else await admin.offset_at(queue, begin_ms)


def _name(queue: Any) -> str:
    return f"{queue.broker_name}/{queue.queue_id}"


def _places(text: str) -> list[tuple[str, int]]:
    places: list[tuple[str, int]] = []
    for piece in filter(None, text.split(",")):
        name, _, place = piece.rpartition(":")
        if not place.isdigit():
            raise BadField("after is not of the form broker/queue:offset,...")
        places.append((name, int(place)))
    return places


async def message(visit: Visit) -> Mapping[str, Any]:
    found = await visit.cluster.admin.view_message(visit.path["id"], visit.path["topic"])
    tracks: Any = ()
    problem = ""
    try:
        tracks = await visit.cluster.admin.track_message(found)
    except RocketeerError as error:  # who consumed it is an extra: the message itself is there
        problem = str(error)
    return {"message": shown(found), "tracks": tracks, "problem": problem, "body": body_forms(found.body)}


def body_forms(body: bytes) -> Mapping[str, str]:
    """The body as text, as JSON where it is JSON, and as hex; never as HTML."""
    forms: dict[str, str] = {}
    try:
        text = body.decode()
    except UnicodeDecodeError:
        pass
    else:
        forms["text"] = text
        with contextlib.suppress(ValueError, RecursionError):
            forms["json"] = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    rows = [body[at : at + 16] for at in range(0, min(len(body), 4096), 16)]
    forms["hex"] = "\n".join(
        f"{16 * at:08x}  {row.hex(' '):<47}  {''.join(chr(c) if 32 <= c < 127 else '.' for c in row)}"
        for at, row in enumerate(rows)
    )
    return forms


async def consume_directly(visit: Visit) -> Outcome:
    admin = visit.cluster.admin
    found = await admin.view_message(visit.path["id"], visit.path["topic"])
    result = await admin.consume_directly(visit.needed("group"), visit.needed("client"), found)
    return Outcome(f"the member answered {result.result}: {result.remark or 'no remark'}")


VIEWS: Sequence[View] = (
    View("/messages", "messages", "Messages by topic and time, key, or id", messages, "messages.html", nav="Messages",
         query=(Param("topic", "topic"), Param("by", "by", choices=("time", "key", "id")),
                Param("value", "key or id"), Param("begin", "from", "time"), Param("end", "until", "time"),
                Param("after", "next page"))),
    View("/messages/{topic}/{id}", "message", "One message, and who consumed it", message, "message.html",
         nav="Messages"),
)  # fmt: skip
ACTIONS: Sequence[Action] = (
    Action("/messages/{topic}/{id}/consume", "consume_directly", "Have a member consume the message now",
           consume_directly,
           (Param("group", "group", required=True), Param("client", "client id", required=True)),
           warning="The member consumes it once more, whatever it did before."),
)  # fmt: skip
