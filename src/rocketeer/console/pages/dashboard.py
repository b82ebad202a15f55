"""The first page: messages in and out, lag, the largest topics, who does not answer."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rocketeer.console.cluster_view import total
from rocketeer.console.registry import Action, View
from rocketeer.console.visit import Visit

TOP: Final = 10


async def load(visit: Visit) -> Mapping[str, Any]:
    cluster = visit.cluster
    runtime, groups, topics = await asyncio.gather(
        cluster.runtime.get(), cluster.groups.soon(), cluster.topics.get()
    )
    brokers = sorted(runtime.answers.items(), key=lambda item: (item[0].name, item[0].broker_id))
    in_tps = total(each.put_tps for _, each in brokers)
    out_tps = total(each.get_tps for _, each in brokers)
    lag = None if groups is None else total(group.lag for group in groups) if groups else 0
    behind = sorted((group for group in groups or () if group.lag), key=lambda group: -(group.lag or 0))
    return {
        "brokers": brokers,
        "failures": runtime.failures,
        "in_tps": in_tps,
        "out_tps": out_tps,
        "lag": lag,
        "topic_count": len(topics),
        "group_count": None if groups is None else len(groups),
        "behind": behind[:TOP],
        "history": list(cluster.history),
    }


VIEWS: Sequence[View] = (
    View("/", "dashboard", "Figures of the whole cluster", load, "dashboard.html", nav="Dashboard"),
)
ACTIONS: Sequence[Action] = ()
