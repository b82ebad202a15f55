"""The first page: messages in and out, lag, the largest topics, who does not answer."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rocketeer.console.cluster_view import Point
from rocketeer.console.registry import Action, View
from rocketeer.console.visit import Visit

TOP: Final = 10


async def load(visit: Visit) -> Mapping[str, Any]:
    cluster = visit.cluster
    runtime, groups, topics = await asyncio.gather(
        cluster.runtime.get(), cluster.groups.get(), cluster.topics.get()
    )
    brokers = sorted(runtime.answers.items(), key=lambda item: (item[0].name, item[0].broker_id))
    in_tps = _sum(each.put_tps for _, each in brokers)
    out_tps = _sum(each.get_tps for _, each in brokers)
    lag = _sum(group.lag for group in groups) if groups else 0
    cluster.remember(Point(time.time(), in_tps, out_tps, None if lag is None else int(lag)))
    behind = sorted((group for group in groups if group.lag), key=lambda group: -(group.lag or 0))
    return {
        "brokers": brokers,
        "failures": runtime.failures,
        "in_tps": in_tps,
        "out_tps": out_tps,
        "lag": lag,
        "topic_count": len(topics),
        "group_count": len(groups),
        "behind": behind[:TOP],
        "history": list(cluster.history),
    }


def _sum(figures: Any) -> float | None:
    """None when nobody answered: unknown is not zero."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


VIEWS: Sequence[View] = (
    View("/", "dashboard", "Figures of the whole cluster", load, "dashboard.html", nav="Dashboard"),
)
ACTIONS: Sequence[Action] = ()
