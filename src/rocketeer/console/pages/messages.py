"""Messages: by topic and time, by key, by id; what is in one, who consumed it; consume directly; download."""

import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from rocketeer import ReceivedMessage
from rocketeer.admin.results import MessageTrack, TrackState
from rocketeer.console.errors import BadField
from rocketeer.console.fan_out import ask_each
from rocketeer.console.i18n import text
from rocketeer.console.page_request import PageRequest
from rocketeer.console.pages.message_display import as_object, body_forms, displayed
from rocketeer.console.pages.message_list import END_MS, MessagePage, page_of_messages
from rocketeer.console.registry import Action, ActionResult, Attachment, Download, PageView, Param
from rocketeer.errors import RocketeerError

HOUR_MS: Final = 3_600_000

WAYS: Final = ("time", "key", "id")
STATES: Final = {
    TrackState.CONSUMED: text("consumed"),
    TrackState.CONSUMED_BUT_FILTERED: text("filtered out"),
    TrackState.PULL: text("pulls by itself: not known"),
    TrackState.NOT_CONSUME_YET: text("not consumed yet"),
    TrackState.NOT_ONLINE: text("no member online"),
    TrackState.CONSUME_BROADCASTING: text("broadcasting: every member has its own place"),
    TrackState.UNKNOWN: text("not known"),
}


async def messages(request: PageRequest) -> Mapping[str, Any]:
    topic, by = request.text("topic"), request.text("by", "time")
    if by not in WAYS:
        raise BadField(text("by is {value}: it must be one of time, key, id", value=repr(by[:40])))
    now_ms = int(time.time() * 1000)
    begin_ms, end_ms = request.time_ms("begin", now_ms - HOUR_MS), request.time_ms("end", END_MS)
    admin = request.cluster.admin
    page = MessagePage([], "", ())
    found: Sequence[ReceivedMessage] = ()
    if topic and by == "time":
        page = await page_of_messages(
            admin, topic, begin_ms=begin_ms, end_ms=end_ms, after=request.text("after")
        )
        found = page.messages
    elif topic and by == "key":
        found = await admin.messages_with_key(
            topic, request.needed("value"), begin_ms=request.time_ms("begin", 0), end_ms=end_ms
        )
    elif topic:
        found = await _with_id(request, topic, request.needed("value"))
    return {
        "topic": topic,
        "by": by,
        "found": [displayed(message) for message in found],
        "next": page.next,
        "failures": page.failures,
        "is_first": not request.text("after"),
        "begin_ms": begin_ms if by == "time" else None,
        "names": await request.cluster.topics.get(),
    }


async def _with_id(request: PageRequest, topic: str, identity: str) -> Sequence[ReceivedMessage]:
    """A sender's id may be stored more than once; a broker's id is one place."""
    found = await request.cluster.admin.messages_with_id(topic, identity)
    return found or [await request.cluster.admin.view_message(identity, topic)]


async def message(request: PageRequest) -> Mapping[str, Any]:
    admin = request.cluster.admin
    found = await admin.view_message(request.path["id"], request.path["topic"])
    tracks: Sequence[MessageTrack] = ()
    problem = ""
    try:
        tracks = await admin.track_message(found)
    except RocketeerError as error:  # who consumed it is an extra: the message itself is there
        problem = str(error)
    online = [
        track.group for track in tracks if track.state not in (TrackState.NOT_ONLINE, TrackState.UNKNOWN)
    ]
    known, _ = await ask_each(online[:20], admin.group_connections)
    members = [(group, client.client_id) for group, each in known for client in each.connections]
    return {
        "message": displayed(found),
        "stored_topic": found.stored_topic,
        "tracks": [(track, STATES[track.state]) for track in tracks],
        "members": members,
        "problem": problem,
        "body": body_forms(found.body),
        "body_bytes": len(found.body),
    }


async def consume_directly(request: PageRequest) -> ActionResult:
    admin = request.cluster.admin
    found = await admin.view_message(request.path["id"], request.path["topic"])
    client = request.needed("client")
    result = await admin.consume_directly(request.needed("group"), client, found)
    ms = result.spent_ms
    said = text("{client} answered {result} after {ms} ms", client=client, result=result.result, ms=ms)
    return ActionResult(said, failures=[result.remark] if result.remark else ())


# --- files --------------------------------------------------------------------------------------


async def body_file(request: PageRequest) -> Attachment:
    found = await request.cluster.admin.view_message(request.path["id"], request.path["topic"])
    return Attachment(f"{found.message_id}.bin", "application/octet-stream", in_pieces(found.body))


async def message_file(request: PageRequest) -> Attachment:
    found = await request.cluster.admin.view_message(request.path["id"], request.path["topic"])
    data = json.dumps(as_object(found), indent=2, ensure_ascii=False).encode(errors="replace")
    return Attachment(f"{found.message_id}.json", "application/json", in_pieces(data))


async def in_pieces(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 1 << 16):
        yield data[at : at + (1 << 16)]


VIEWS: Sequence[PageView] = (
    PageView("/messages", "messages", "Messages by topic and time, key, or id", messages, "messages.html",
             nav="Messages",
             query=(Param("topic", "topic"), Param("by", "by", choices=WAYS),
                    Param("value", "key or id"), Param("begin", "from", "time"), Param("end", "until", "time"),
                    Param("after", "next page"))),
    PageView("/messages/{topic}/{id}", "message", "One message, and who consumed it", message, "message.html",
             nav="Messages"),
)  # fmt: skip
DOWNLOADS: Sequence[Download] = (
    Download("/messages/{topic}/{id}/body", "message_body", "The body of a message, as it is", body_file),
    Download(
        "/messages/{topic}/{id}/file", "message_file", "A message with its properties, as JSON", message_file
    ),
)
ACTIONS: Sequence[Action] = (
    Action("/messages/{topic}/{id}/consume", "consume_directly", "Have a member consume the message now",
           consume_directly,
           (Param("group", "group", required=True), Param("client", "client id", required=True)),
           warning="The member consumes it once more, whatever it did before."),
)  # fmt: skip
