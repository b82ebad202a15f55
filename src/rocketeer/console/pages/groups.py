"""Consumer groups: progress per queue, members and their subscriptions; reset, skip, delete."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rocketeer.console.registry import Action, Outcome, Param, View
from rocketeer.console.users import Role
from rocketeer.console.visit import Visit, listing
from rocketeer.errors import ClientError


async def groups(visit: Visit) -> Mapping[str, Any]:
    known = await visit.cluster.groups.soon()
    rows = list(known or ())
    page = listing(
        visit,
        rows,
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


async def group(visit: Visit) -> Mapping[str, Any]:
    name = visit.path["group"]
    admin = visit.cluster.admin
    progress = await admin.group_progress(name)
    members: Any = None
    offline = ""
    try:
        members = await admin.group_members(name)
    except ClientError as error:
        offline = str(error)
    queues = sorted(
        progress.stats.queues.items(), key=lambda item: (item[0].topic, item[0].broker_name, item[0].queue_id)
    )
    return {
        "group": name,
        "queues": queues,
        "lag": progress.stats.lag,
        "tps": progress.stats.tps,
        "members": members,
        "offline": offline,
        "topics": sorted({queue.topic for queue, _ in queues}),
        "failures": progress.failures,
        "now_ms": int(time.time() * 1000),
    }


async def member(visit: Visit) -> Mapping[str, Any]:
    name, client = visit.path["group"], visit.path["client"]
    info = await visit.cluster.admin.running_info(name, client, stacks=True)
    return {"group": name, "client": client, "info": info}


async def reset(visit: Visit) -> Outcome:
    name, topic = visit.path["group"], visit.needed("topic")
    at_ms = visit.time_ms("time", int(time.time() * 1000))
    done = await visit.cluster.admin.reset_offsets(name, topic, at_ms, force=True)
    return Outcome(
        f"{len(done.changes)} queues of {topic} are consumed again from the time given"
        if visit.text("time")
        else f"{len(done.changes)} queues of {topic} go on at their end",
        failures=[str(failure) for failure in done.failures],
    )


async def delete(visit: Visit) -> Outcome:
    name = visit.path["group"]
    known = await visit.cluster.brokers.get()
    outcomes = await asyncio.gather(
        *(visit.cluster.admin.delete_group(name, cluster=cluster, offsets=True) for cluster in known.clusters)
    )
    return Outcome(
        f"group {name} is deleted",
        goto=f"/c/{visit.cluster.name}/groups",
        failures=[str(failure) for done in outcomes for failure in done.failures],
    )


VIEWS: Sequence[View] = (
    View("/groups", "groups", "Consumer groups with members and lag", groups, "groups.html", nav="Groups",
         query=(Param("q", "search"), Param("sort", "sort by"), Param("page", "page", "number"))),
    View("/groups/{group}", "group", "One group: queues, members", group, "group.html", nav="Groups"),
    View("/groups/{group}/members/{client}", "member", "What a member does now, with its stacks", member,
         "member.html", nav="Groups"),
)  # fmt: skip
ACTIONS: Sequence[Action] = (
    Action("/groups/{group}/reset", "reset_offsets", "Consume again from a time, or skip what waits", reset,
           (Param("topic", "topic", required=True), Param("time", "from (UTC); empty: skip to the end", "time")),
           warning="Members go on at the new place at once: messages come again, or are skipped.", dangerous=True),
    Action("/groups/{group}/delete", "delete_group", "Delete a group", delete, role=Role.ADMIN, dangerous=True,
           warning="The group, its offsets, its retry topic and its dead letters are gone."),
)  # fmt: skip
