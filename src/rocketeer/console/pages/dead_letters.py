"""Dead letters: which groups have some; send one, or all, to where they came from, with a limit and progress."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from rocketeer import Message, ReceivedMessage
from rocketeer.aio import Producer
from rocketeer.console.jobs import Job
from rocketeer.console.pages.topics import CONSOLE_GROUP
from rocketeer.console.registry import Action, Outcome, Param, View
from rocketeer.console.visit import Visit, listing
from rocketeer.errors import ClientError
from rocketeer.model.property_names import RESERVED
from rocketeer.model.topic import DLQ_PREFIX

ORIGIN: Final = "RETRY_TOPIC"
RATE: Final = 200


async def dead_letters(visit: Visit) -> Mapping[str, Any]:
    names = [name for name in await visit.cluster.topics.get() if name.startswith(DLQ_PREFIX)]
    page = listing(
        visit,
        [{"topic": name, "group": name.removeprefix(DLQ_PREFIX)} for name in names],
        search_in=lambda row: row["group"],
        sorts={"group": lambda row: row["group"]},
        default_sort="group",
    )
    for row in page.rows:
        try:
            status = await visit.cluster.admin.topic_status(row["topic"])
            row["count"] = sum(bounds.max_offset - bounds.min_offset for bounds in status.queues.values())
        except ClientError:
            row["count"] = None
    return {"page": page, "jobs": visit.cluster.jobs.all()}


async def resend_one(visit: Visit) -> Outcome:
    found = await visit.cluster.admin.view_message(visit.path["id"], visit.path["topic"])
    async with visit.cluster.producer(CONSOLE_GROUP) as producer:
        topic = await _send_again(producer, found)
    return Outcome(f"sent to {topic} again, as a new message")


async def resend_all(visit: Visit) -> Outcome:
    topic = DLQ_PREFIX + visit.path["group"]
    rate = visit.number("rate", RATE, least=1, most=10_000)
    status = await visit.cluster.admin.topic_status(topic)
    total = sum(bounds.max_offset - bounds.min_offset for bounds in status.queues.values())
    cluster = visit.cluster

    async def steps(job: Job) -> AsyncIterator[None]:
        async with cluster.producer(CONSOLE_GROUP) as producer:
            for queue, bounds in status.queues.items():
                at = bounds.min_offset
                while at < bounds.max_offset:
                    pulled = await cluster.admin.pull_messages(queue, at)
                    for message in pulled.messages:
                        if message.queue_offset < bounds.max_offset:
                            await _send_again(producer, message)
                            yield
                    at = max(pulled.next_offset, at + 1)

    cluster.jobs.start(f"resend {topic}", total, steps, per_second=rate)
    return Outcome(f"{total} dead letters of {visit.path['group']} are being sent again, {rate} a second")


async def stop_job(visit: Visit) -> Outcome:
    name = visit.needed("name")
    return Outcome(f"{name} is stopped" if visit.cluster.jobs.stop(name) else f"{name} does not run")


async def _send_again(producer: Producer, message: ReceivedMessage) -> str:
    """As a new message in the topic it was first sent to; the dead letter stays where it is."""
    topic = message.properties.get(ORIGIN) or message.topic
    if topic.startswith(DLQ_PREFIX):
        raise ClientError(f"the dead letter {message.message_id} does not say where it came from")
    own = {name: value for name, value in message.properties.items() if name not in RESERVED}
    again = Message(topic, message.body, tags=message.tags, keys=list(message.keys), properties=own)
    await producer.send(again)
    return topic


VIEWS: Sequence[View] = (
    View("/dead-letters", "dead_letters", "Groups with dead letters", dead_letters, "dead_letters.html",
         nav="Dead letters", query=(Param("q", "search"), Param("page", "page", "number"))),
)  # fmt: skip
ACTIONS: Sequence[Action] = (
    Action("/messages/{topic}/{id}/resend", "resend_message", "Send the message again", resend_one,
           warning="A new message with the same content goes to the topic it came from."),
    Action("/dead-letters/{group}/resend", "resend_dead_letters", "Send all again", resend_all,
           (Param("rate", "messages a second", "number", str(RATE)),), dangerous=True,
           warning="Every dead letter of the group goes to the topic it came from, as a new message."),
    Action("/jobs/stop", "stop_job", "Stop", stop_job, (Param("name", "name", required=True),),
           warning="What was sent stays sent."),
)  # fmt: skip
