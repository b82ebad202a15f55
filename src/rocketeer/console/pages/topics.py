"""Topics: by kind, their queues, routes and consumers; create, change, delete, send a test message."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rocketeer import Message, TopicConfig
from rocketeer.admin.results import ClusterMap, PerBroker
from rocketeer.console.fan_out import outcomes
from rocketeer.console.i18n import TranslatableText, text
from rocketeer.console.page_request import PageRequest, listing
from rocketeer.console.registry import Action, ActionResult, PageView, Param
from rocketeer.console.users import UserRole
from rocketeer.errors import RocketeerError
from rocketeer.model.topic import DLQ_PREFIX, RETRY_PREFIX, Perm, is_system_topic

KINDS: Final = ("normal", "retry", "dead letters", "system", "all")
REPLY_SUFFIX: Final = "_REPLY_TOPIC"
ROUTE_LOOKS: Final = 20


def kind_of(topic: str, own: frozenset[str] = frozenset()) -> str:
    """`own` are topics that brokers make for themselves: named after them and their cluster."""
    if topic in own or topic.endswith(REPLY_SUFFIX):
        return "system"
    if topic.startswith(RETRY_PREFIX):
        return "retry"
    if topic.startswith(DLQ_PREFIX):
        return "dead letters"
    return "system" if is_system_topic(topic) else "normal"


async def topics(request: PageRequest) -> Mapping[str, Any]:
    names, configs, known = await asyncio.gather(
        request.cluster.topics.get(), request.cluster.topic_configs.get(), request.cluster.brokers.get()
    )
    return await asyncio.to_thread(_topics_page, request, names, configs, known)


def _topics_page(
    request: PageRequest,
    names: Sequence[str],
    configs: PerBroker[Mapping[str, TopicConfig]],
    known: ClusterMap,
) -> Mapping[str, Any]:
    own = frozenset([*known.clusters, *(broker.name for broker in known.brokers)])
    kind = request.text("kind", "normal")
    queues: dict[str, int] = {}
    for table in configs.answers.values():
        for name, config in table.items():
            queues[name] = queues.get(name, 0) + config.write_queues
    rows = [
        {"name": name, "kind": kind_of(name, own), "queues": queues.get(name)}
        for name in names
        if kind == "all" or kind_of(name, own) == kind
    ]
    page = listing(
        request,
        rows,
        search_in=lambda row: row["name"],
        sorts={"name": lambda row: row["name"], "queues": lambda row: row["queues"]},
        default_sort="name",
    )
    return {"page": page, "kind": kind, "kinds": KINDS, "failures": configs.failures}


async def topic(request: PageRequest) -> Mapping[str, Any]:
    name = request.path["topic"]
    admin = request.cluster.admin
    status, route, groups, configs, known = await asyncio.gather(
        admin.topic_status(name),
        admin.topic_route(name),
        admin.topic_groups(name),
        request.cluster.topic_configs.get(),
        request.cluster.brokers.get(),
    )
    progress = await outcomes(groups.groups[:50], lambda group: admin.group_progress(group, name))
    consumers = [
        {
            "group": group,
            "lag": None if isinstance(each, RocketeerError) or each.failures else each.lag,
            "members": None if isinstance(each, RocketeerError) else each.members,
        }
        for group, each in progress
    ]
    queues = sorted(status.queues.items(), key=lambda item: (item[0].broker_name, item[0].queue_id))
    own = frozenset([*known.clusters, *(broker.name for broker in known.brokers)])
    return {
        "topic": name,
        "kind": kind_of(name, own),
        "queues": queues,
        "total": sum(bounds.max_offset - bounds.min_offset for _, bounds in queues),
        "route": route,
        "consumers": consumers,
        "configs": [(broker, table[name]) for broker, table in configs.answers.items() if name in table],
        "failures": (*status.failures, *groups.failures),
    }


async def save_topic(request: PageRequest) -> ActionResult:
    name = request.needed("topic")
    config = TopicConfig(
        name,
        read_queues=request.number("read_queues", 8, least=1, most=1024),
        write_queues=request.number("write_queues", 8, least=1, most=1024),
        perm=Perm(request.number("perm", 6, least=0, most=7)),
        order=request.flag("order"),
    )
    place = (
        {"broker": request.text("broker")}
        if request.text("broker")
        else {"cluster": await _cluster_name(request)}
    )
    done = await request.cluster.admin.update_topic(config, **place)
    for _ in range(ROUTE_LOOKS):  # brokers tell the name servers a moment later; the next page is to show it
        if await request.cluster.admin.topic_exists(name):
            break
        await asyncio.sleep(0.1)
    where = ", ".join(broker.name or broker.address for broker in done.brokers)
    return ActionResult(
        text("topic {topic} is on {brokers}", topic=name, brokers=where), failures=done.failures
    )


async def delete_topic(request: PageRequest) -> ActionResult:
    name = request.path["topic"]
    done = await request.cluster.admin.delete_topic(name)
    count = len(done.brokers)
    return ActionResult(
        text("topic {topic} is deleted on {count} brokers", topic=name, count=count),
        goto="/topics",
        failures=done.failures,
    )


async def messages_to_lose(request: PageRequest) -> list[TranslatableText]:
    name = request.path["topic"]
    status, groups = await asyncio.gather(
        request.cluster.admin.topic_status(name), request.cluster.admin.topic_groups(name)
    )
    count = sum(bounds.max_offset - bounds.min_offset for bounds in status.queues.values())
    will = [text("{count} messages are in it.", count=f"{count:,}")]
    if groups.groups:
        names = ", ".join(groups.groups[:10])
        will.append(text("{count} groups consume it: {names}", count=len(groups.groups), names=names))
    return will


async def send_message(request: PageRequest) -> ActionResult:
    message = Message(
        request.path["topic"],
        request.fields.get("body", "").encode(),
        tags=request.text("tags") or None,
        keys=request.text("keys") or None,
    )
    async with request.cluster.producer() as producer:
        result = await producer.send(message)
    return ActionResult(
        text(
            "stored in queue {queue} of {broker} at {offset}: {id}",
            queue=result.queue.queue_id,
            broker=result.queue.broker_name,
            offset=result.queue_offset,
            id=result.message_id,
        )
    )


async def _cluster_name(request: PageRequest) -> str:
    known = await request.cluster.brokers.get()
    return request.text("cluster_name") or next(iter(known.clusters), "")


_TOPIC_FIELDS = (
    Param("topic", "name", required=True),
    Param("read_queues", "queues to read", "number", "8"),
    Param("write_queues", "queues to write", "number", "8"),
    Param("perm", "permission: 2 write, 4 read, 6 both", "number", "6"),
    Param("order", "ordered", "flag"),
    Param("broker", "only on this broker (address)"),
    Param("cluster_name", "only in this cluster"),
)

VIEWS: Sequence[PageView] = (
    PageView("/topics", "topics", "Topics, searched, sorted and paged", topics, "topics.html", nav="Topics",
             query=(Param("q", "search"), Param("kind", "kind", choices=KINDS), Param("sort", "sort by"),
                    Param("page", "page", "number"))),
    PageView("/topics/{topic}", "topic", "One topic: queues, route, consumers", topic, "topic.html", nav="Topics"),
)  # fmt: skip
ACTIONS: Sequence[Action] = (
    Action("/topics", "save_topic", "Create or change a topic", save_topic, _TOPIC_FIELDS,
           warning="A topic that exists is changed; fewer queues hide what is in the others."),
    Action("/topics/{topic}/delete", "delete_topic", "Delete the topic", delete_topic, role=UserRole.ADMIN,
           dangerous=True, preview=messages_to_lose,
           warning="The topic {topic} and every message in it are gone, on all brokers."),
    Action("/topics/{topic}/send", "send_message", "Send a test message", send_message,
           (Param("body", "body", "long", required=True), Param("tags", "tags"), Param("keys", "keys")),
           warning="Consumers of {topic} will get it."),
)  # fmt: skip
