"""Consumer groups: progress per queue, members and whether they agree; reset, skip, delete; what a member does."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rocketeer.admin.results import GroupMembers
from rocketeer.console.errors import Refused
from rocketeer.console.i18n import TranslatableText, text
from rocketeer.console.page_request import PageRequest, listing
from rocketeer.console.registry import Action, ActionResult, PageView, Param
from rocketeer.console.users import UserRole
from rocketeer.errors import RocketeerError
from rocketeer.model.topic import RETRY_PREFIX, dlq_topic

NOW_MS = -1


async def groups(request: PageRequest) -> Mapping[str, Any]:
    known = await request.cluster.groups.soon()
    page = await asyncio.to_thread(
        listing,
        request,
        list(known or ()),
        search_in=lambda row: row.group,
        sorts={
            "group": lambda row: row.group,
            "lag": lambda row: row.lag,
            "members": lambda row: row.members,
            "tps": lambda row: row.tps,
        },
        default_sort="group",
    )
    return {"page": page, "collecting": known is None}


async def group(request: PageRequest) -> Mapping[str, Any]:
    name = request.path["group"]
    admin = request.cluster.admin
    progress, members = await asyncio.gather(admin.group_progress(name), _members(request, name))
    is_silent = not progress.stats.queues and not progress.failures and not isinstance(members, GroupMembers)
    if is_silent and not await admin.group_exists(name):
        raise Refused(404, text("no broker knows the group {group}", group=repr(name[:200])))
    queues = sorted(
        progress.stats.queues.items(), key=lambda item: (item[0].topic, item[0].broker_name, item[0].queue_id)
    )
    now_ms = int(time.time() * 1000)
    behind = [now_ms - at.last_ms for _, at in queues if at.lag and at.last_ms]
    online = members if isinstance(members, GroupMembers) else None
    return {
        "group": name,
        "queues": queues,
        "lag": progress.stats.lag,
        "tps": progress.stats.tps,
        "behind_s": max(behind) / 1000 if behind else None,
        "members": online,
        "offline": "" if online else str(members),
        "disagreements": disagreements(online) if online else [],
        "topics": sorted({queue.topic for queue, _ in queues if not queue.topic.startswith(RETRY_PREFIX)}),
        "dead_letters": dlq_topic(name),
        "failures": (*progress.failures, *(online.failures if online else ())),
        "now_ms": now_ms,
    }


async def _members(request: PageRequest, group: str) -> GroupMembers | RocketeerError:
    """The group's members, or the error that a broker answers where none is online."""
    try:
        return await request.cluster.admin.group_members(group)
    except RocketeerError as error:
        return error


def disagreements(members: GroupMembers) -> list[TranslatableText]:
    """Where members of one group subscribe to different things: they then miss messages, silently."""
    said: dict[str, dict[tuple[str, str], list[str]]] = {}
    for client, info in members.running.items():
        for each in info.subscriptions:
            if not each.topic.startswith(RETRY_PREFIX):
                said.setdefault(each.topic, {}).setdefault((each.kind, each.expression), []).append(
                    client.client_id
                )
    found: list[TranslatableText] = []
    for topic, ways in sorted(said.items()):
        if len(ways) > 1:
            parts = "; ".join(
                f"{expression!r}: {', '.join(sorted(clients))}"
                for (_, expression), clients in sorted(ways.items())
            )
            found.append(text("members filter {topic} differently: {parts}", topic=topic, parts=parts))
        having = {client for clients in ways.values() for client in clients}
        missing = sorted(client.client_id for client in members.running if client.client_id not in having)
        if missing:
            found.append(
                text("{clients} does not subscribe to {topic}", clients=", ".join(missing), topic=topic)
            )
    return found


async def member(request: PageRequest) -> Mapping[str, Any]:
    name, client = request.path["group"], request.path["client"]
    info = await request.cluster.admin.running_info(name, client, stacks=True)
    return {
        "group": name,
        "client": client,
        "info": info,
        "queues": sorted(info.queues.items()),
    }


async def reset(request: PageRequest) -> ActionResult:
    topic, at_ms = request.needed("topic"), request.time_ms("time", NOW_MS)
    request.needed("time")
    done = await request.cluster.admin.reset_offsets(request.path["group"], topic, at_ms, force=True)
    return ActionResult(
        text("{count} queues of {topic} are consumed from {places} on", count=len(done.changes), topic=topic,
             places=_places(done.changes)),
        failures=done.failures,
    )  # fmt: skip


async def skip(request: PageRequest) -> ActionResult:
    topic = request.needed("topic")
    done = await request.cluster.admin.reset_offsets(request.path["group"], topic, NOW_MS, force=True)
    return ActionResult(
        text("{count} queues of {topic} go on at their end", count=len(done.changes), topic=topic),
        failures=done.failures,
    )


def _places(changes: Sequence[Any]) -> str:
    return ", ".join(
        f"{change.queue.broker_name} {change.queue.queue_id}:{change.offset}" for change in changes[:8]
    )


async def what_resets(request: PageRequest) -> list[TranslatableText]:
    """By queue where the group is and where it would be: counted now, from the brokers' own figures."""
    topic, at_ms = request.needed("topic"), request.time_ms("time", NOW_MS)
    progress = await request.cluster.admin.group_progress(request.path["group"], topic)
    queues = [(queue, at) for queue, at in sorted(progress.stats.queues.items()) if queue.topic == topic]
    if not queues:
        return [text("The group has never consumed {topic}.", topic=topic)]
    places = [at.broker_offset for _, at in queues]
    if at_ms != NOW_MS:
        places = await asyncio.gather(*(request.cluster.admin.offset_at(queue, at_ms) for queue, _ in queues))
    again = sum(max(at.consumer_offset - place, 0) for (_, at), place in zip(queues, places, strict=True))
    skipped = sum(max(place - at.consumer_offset, 0) for (_, at), place in zip(queues, places, strict=True))
    return [
        text("About {count} messages are consumed again.", count=f"{again:,}"),
        text("About {count} messages are skipped.", count=f"{skipped:,}"),
    ]


async def delete(request: PageRequest) -> ActionResult:
    name = request.path["group"]
    known = await request.cluster.brokers.get()
    outcomes = await asyncio.gather(
        *(
            request.cluster.admin.delete_group(name, cluster=cluster, offsets=True)
            for cluster in known.clusters
        )
    )
    return ActionResult(
        text("group {group} is deleted", group=name),
        goto="/groups",
        failures=[failure for done in outcomes for failure in done.failures],
    )


async def what_is_deleted(request: PageRequest) -> list[TranslatableText]:
    progress = await request.cluster.admin.group_progress(request.path["group"])
    will = [text("{count} messages wait for it.", count=f"{progress.lag:,}")]
    if progress.members:
        will.append(text("{count} members are online: the group comes back with their next word.",
                         count=progress.members))  # fmt: skip
    return will


VIEWS: Sequence[PageView] = (
    PageView("/groups", "groups", "Consumer groups with members and lag", groups, "groups.html", nav="Groups",
             query=(Param("q", "search"), Param("sort", "sort by"), Param("page", "page", "number"))),
    PageView("/groups/{group}", "group", "One group: queues, members", group, "group.html", nav="Groups"),
    PageView("/groups/{group}/members/{client:path}", "member", "What a member does now, with its stacks", member,
             "member.html", nav="Groups"),
)  # fmt: skip
_TOPIC = Param("topic", "topic", required=True)
ACTIONS: Sequence[Action] = (
    Action("/groups/{group}/reset", "reset_offsets", "Consume again from a time", reset,
           (_TOPIC, Param("time", "from (UTC)", "time", required=True)), dangerous=True, preview=what_resets,
           warning="{group} goes on at the new place at once: messages come again, or are skipped."),
    Action("/groups/{group}/skip", "skip_backlog", "Skip what waits", skip, (_TOPIC,), dangerous=True,
           preview=what_resets, warning="{group} never gets what waits for it now."),
    Action("/groups/{group}/delete", "delete_group", "Delete the group", delete, role=UserRole.ADMIN, dangerous=True,
           preview=what_is_deleted,
           warning="The group {group}, its offsets, its retry topic and its dead letters are gone."),
)  # fmt: skip
