"""Dead letters and retries: which groups have some, what is in them; search, export, send one, some or all again."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from rocketeer import Message, ReceivedMessage
from rocketeer.aio import Producer
from rocketeer.console.errors import BadField, Refused
from rocketeer.console.i18n import TranslatableText, text
from rocketeer.console.jobs import Job
from rocketeer.console.page_request import PageRequest, listing
from rocketeer.console.pages.message_display import as_object, displayed, matches
from rocketeer.console.pages.message_list import END_MS, MessageTest, page_of_messages
from rocketeer.console.registry import Action, ActionResult, Attachment, Download, PageView, Param
from rocketeer.errors import RocketeerError
from rocketeer.model.property_names import NOT_SENT_AGAIN, RETRY_TOPIC
from rocketeer.model.topic import DLQ_PREFIX, RETRY_PREFIX

RATE: Final = 200
SOME_MAX: Final = 500
KINDS: Final = ("dead letters", "retry")
PREFIXES: Final = {"dead letters": DLQ_PREFIX, "retry": RETRY_PREFIX}


async def dead_letters(request: PageRequest) -> Mapping[str, Any]:
    kind = _kind(request)
    prefix = PREFIXES[kind]
    names = [name for name in await request.cluster.topics.get() if name.startswith(prefix)]
    page = await asyncio.to_thread(
        listing,
        request,
        [{"topic": name, "group": name.removeprefix(prefix)} for name in names],
        search_in=lambda row: row["group"],
        sorts={"group": lambda row: row["group"]},
        default_sort="group",
    )
    await asyncio.gather(*(_count(request, row, kind) for row in page.rows))
    return {"page": page, "kind": kind, "kinds": KINDS, "jobs": request.cluster.jobs.all()}


def _kind(request: PageRequest) -> str:
    kind = request.text("kind", KINDS[0])
    if kind not in KINDS:
        raise BadField(text("kind is {value}: it must be one of {choices}", value=repr(kind[:40]),
                            choices=", ".join(KINDS)))  # fmt: skip
    return kind


async def _count(request: PageRequest, row: dict[str, Any], kind: str) -> None:
    """Dead letters: all that are stored. Retries: those that wait for the group."""
    row["count"] = None
    try:
        if kind == "retry":
            progress = await request.cluster.admin.group_progress(row["group"], row["topic"])
            if not progress.failures:
                row["count"] = sum(
                    at.lag for queue, at in progress.stats.queues.items() if queue.topic == row["topic"]
                )
        else:
            status = await request.cluster.admin.topic_status(row["topic"])
            if not status.failures:
                row["count"] = sum(each.max_offset - each.min_offset for each in status.queues.values())
    except RocketeerError as error:
        row["problem"] = str(error)


# --- the letters of one group -------------------------------------------------------------------


async def letters(request: PageRequest) -> Mapping[str, Any]:
    kind, group = _kind(request), request.path["group"]
    begin_ms, end_ms, wanted = _chosen(request)
    page = await page_of_messages(
        request.cluster.admin, PREFIXES[kind] + group,
        begin_ms=begin_ms, end_ms=end_ms, after=request.text("after"), wanted=wanted, rows=50,
    )  # fmt: skip
    return {
        "group": group,
        "kind": kind,
        "topic": PREFIXES[kind] + group,
        "found": [
            {
                "message": displayed(each),
                "origin": _origin(each),
                "peek": each.body[:200].decode(errors="replace"),
            }
            for each in page.messages
        ],
        "failures": page.failures,
        "next": page.next,
        "is_first": not request.text("after"),
        "jobs": request.cluster.jobs.all(),
    }


def _chosen(request: PageRequest) -> tuple[int, int, MessageTest]:
    """What the fields q, origin, begin and end choose: the same for the page, the file and sending again."""
    search, origin = request.text("q"), request.text("origin")

    def wanted(message: ReceivedMessage) -> bool:
        return (not origin or _origin(message) == origin) and (not search or matches(message, search))

    return request.time_ms("begin", 0), request.time_ms("end", END_MS), wanted


def _origin(message: ReceivedMessage) -> str:
    """The topic it was first sent to; empty when it does not say."""
    topic = message.properties.get(RETRY_TOPIC) or message.topic
    return "" if topic.startswith((DLQ_PREFIX, RETRY_PREFIX)) else topic


async def _all_chosen(request: PageRequest, topic: str) -> AsyncIterator[ReceivedMessage]:
    """Every letter the fields choose that is there now: what comes meanwhile is left for the next time."""
    begin_ms, end_ms, wanted = _chosen(request)
    status = await request.cluster.admin.topic_status(topic)
    if status.failures:
        raise status.failures[0].error
    ends = {(queue.broker_name, queue.queue_id): bounds.max_offset for queue, bounds in status.queues.items()}
    after, going = "", True
    while going:
        page = await page_of_messages(
            request.cluster.admin,
            topic,
            begin_ms=begin_ms,
            end_ms=end_ms,
            after=after,
            wanted=wanted,
            rows=100,
        )
        if page.failures:
            raise page.failures[0].error
        there = [each for each in page.messages if each.queue_offset < ends.get(_place(each), 0)]
        for each in there:
            yield each
        after = page.next
        going = bool(after) and bool(there or not page.messages)


def _place(message: ReceivedMessage) -> tuple[str, int]:
    return message.queue.broker_name, message.queue.queue_id


async def export(request: PageRequest) -> Attachment:
    topic = PREFIXES[_kind(request)] + request.path["group"]
    await request.cluster.admin.topic_route(topic)  # before the answer begins: an error can still be one

    async def lines() -> AsyncIterator[bytes]:
        async for letter in _all_chosen(request, topic):
            yield json.dumps(as_object(letter), ensure_ascii=False).encode(errors="replace") + b"\n"

    return Attachment(f"{topic}.jsonl", "application/x-ndjson", lines())


# --- sending again ------------------------------------------------------------------------------


async def resend_one(request: PageRequest) -> ActionResult:
    found = await request.cluster.admin.view_message(request.path["id"], request.path["topic"])
    async with request.cluster.producer() as producer:
        topic = await _send_again(producer, found)
    return ActionResult(text("sent to {topic} again, as a new message", topic=topic))


async def resend_some(request: PageRequest) -> ActionResult:
    group, ids = request.path["group"], request.many("ids")
    if not ids:
        raise BadField(text("choose some dead letters first"))
    if len(ids) > SOME_MAX:
        raise BadField(text("{count} are too many at once: at most {most}", count=len(ids), most=SOME_MAX))
    topic = DLQ_PREFIX + group
    letters = await asyncio.gather(*(request.cluster.admin.view_message(each, topic) for each in ids))

    async def chosen() -> AsyncIterator[ReceivedMessage]:
        for letter in letters:
            yield letter

    return _start(request, len(letters), chosen())


async def resend_all(request: PageRequest) -> ActionResult:
    topic = DLQ_PREFIX + request.path["group"]
    _chosen(request)
    whole = not any(request.text(name) for name in ("q", "origin", "begin", "end"))
    return _start(request, await _stored(request, topic) if whole else None, _all_chosen(request, topic))


def _start(request: PageRequest, total: int | None, letters: AsyncIterator[ReceivedMessage]) -> ActionResult:
    group, rate = request.path["group"], request.number("rate", RATE, least=1, most=10_000)
    cluster = request.cluster

    async def steps(job: Job) -> AsyncIterator[None]:
        async with cluster.producer() as producer:
            async for letter in letters:
                if not _origin(letter):
                    job.skipped += 1  # named on the page; the others go on
                    continue
                await _send_again(producer, letter)
                yield
        job.total = job.done + job.skipped

    title = text("dead letters of {group}", group=group)
    cluster.jobs.start(f"resend {group}", title, total, steps, per_second=rate)
    if total is None:
        said = text(
            "dead letters of {group} that fit are being sent again, {rate} a second", group=group, rate=rate
        )
    else:
        said = text("{count} dead letters of {group} are being sent again, {rate} a second",
                    count=f"{total:,}", group=group, rate=rate)  # fmt: skip
    return ActionResult(said)


async def _stored(request: PageRequest, topic: str) -> int:
    status = await request.cluster.admin.topic_status(topic)
    return sum(bounds.max_offset - bounds.min_offset for bounds in status.queues.values())


async def how_many(request: PageRequest) -> list[TranslatableText]:
    count = await _stored(request, DLQ_PREFIX + request.path["group"])
    rate = request.number("rate", RATE, least=1, most=10_000)
    will = [text("{count} dead letters are there; at {rate} a second that takes {seconds} s at least.",
                 count=f"{count:,}", rate=rate, seconds=-(-count // rate))]  # fmt: skip
    for name in ("q", "origin", "begin", "end"):
        if request.text(name):
            will.append(
                text("Only those whose {field} is {value}.", field=name, value=request.text(name)[:200])
            )
    return will


async def stop_job(request: PageRequest) -> ActionResult:
    name = request.needed("name")
    if not request.cluster.jobs.stop(name):
        raise Refused(409, text("{name} does not run", name=name[:200]))
    return ActionResult(text("{name} is stopped", name=name))


async def _send_again(producer: Producer, message: ReceivedMessage) -> str:
    """Send it as a new message to the topic it was first sent to; the dead letter stays where it is."""
    topic = _origin(message)
    if not topic:
        raise Refused(
            400, text("the dead letter {id} does not say where it came from", id=message.message_id)
        )
    own = {name: value for name, value in message.properties.items() if name not in NOT_SENT_AGAIN}
    again = Message(topic, message.body, tags=message.tags, keys=list(message.keys), properties=own)
    await producer.send(again)
    return topic


_SEARCH = (
    Param("q", "text in it"),
    Param("origin", "sent to"),
    Param("begin", "from (UTC)", "time"),
    Param("end", "until (UTC)", "time"),
)
_RATE = Param("rate", "messages a second", "number", str(RATE))
_LETTERS = "Every dead letter of {group} that fits goes to the topic it came from, as a new message."
VIEWS: Sequence[PageView] = (
    PageView("/dead-letters", "dead_letters", "Groups with dead letters or retries", dead_letters,
             "dead_letters.html", nav="Dead letters",
             query=(Param("kind", "kind", choices=KINDS), Param("q", "search"), Param("page", "page", "number"))),
    PageView("/dead-letters/{group}", "letters", "The dead letters, or retries, of one group", letters,
             "letters.html", nav="Dead letters",
             query=(Param("kind", "kind", choices=KINDS), *_SEARCH, Param("after", "next page"))),
)  # fmt: skip
DOWNLOADS: Sequence[Download] = (
    Download("/dead-letters/{group}/export", "export_letters", "The letters that fit, a line of JSON each", export,
             query=(Param("kind", "kind", choices=KINDS), *_SEARCH)),
)  # fmt: skip
ACTIONS: Sequence[Action] = (
    Action("/messages/{topic}/{id}/resend", "resend_message", "Send the message again", resend_one,
           warning="A new message with the same content goes to the topic it came from."),
    Action("/dead-letters/{group}/resend-some", "resend_some", "Send the chosen again", resend_some,
           (Param("ids", "ids", "many", required=True), _RATE),
           warning="New messages with the same content go to the topics they came from."),
    Action("/dead-letters/{group}/resend", "resend_dead_letters", "Send all that fit again", resend_all,
           (_RATE, *_SEARCH), dangerous=True, preview=how_many, warning=_LETTERS),
    Action("/jobs/stop", "stop_job", "Stop", stop_job, (Param("name", "name", required=True),),
           warning="What was sent stays sent."),
)  # fmt: skip
