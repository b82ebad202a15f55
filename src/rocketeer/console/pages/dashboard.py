"""The first page: messages in and out, lag, the busiest topics, who is furthest behind, who does not answer."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rocketeer.admin.results import BrokerRuntime, GroupSummary, PerBroker
from rocketeer.console.cluster_view import total
from rocketeer.console.page_request import PageRequest
from rocketeer.console.registry import Action, PageView

TOP: Final = 10


async def load(request: PageRequest) -> Mapping[str, Any]:
    cluster = request.cluster
    runtime, groups, topics, rates = await asyncio.gather(
        cluster.runtime.get(), cluster.groups.soon(0.05), cluster.topics.get(), cluster.topic_rates.soon(0.05)
    )
    history = list(cluster.history)
    return {"history": history, **await asyncio.to_thread(_figures, runtime, groups, topics, rates)}


def _figures(
    runtime: PerBroker[BrokerRuntime],
    groups: Sequence[GroupSummary] | None,
    topics: Sequence[str],
    rates: Mapping[str, float | None] | None,
) -> Mapping[str, Any]:
    brokers = sorted(runtime.answers.items(), key=lambda item: (item[0].name, item[0].broker_id))
    masters = [each for broker, each in brokers if broker.is_master]  # a slave's messages are its master's
    lag = None if groups is None else total(group.lag for group in groups) if groups else 0
    behind = sorted((group for group in groups or () if group.lag), key=lambda group: -(group.lag or 0))
    busy = sorted(((rate, name) for name, rate in (rates or {}).items() if rate), reverse=True)
    return {
        "brokers": brokers,
        "failures": runtime.failures,
        "in_tps": total(each.put_tps for each in masters),
        "out_tps": total(each.get_tps for _, each in brokers),
        "lag": lag,
        "topic_count": len(topics),
        "group_count": None if groups is None else len(groups),
        "behind": behind[:TOP],
        "busy": [{"topic": name, "rate": rate} for rate, name in busy[:TOP]],
        "collecting": rates is None,
    }


VIEWS: Sequence[PageView] = (
    PageView("/", "dashboard", "Figures of the whole cluster", load, "dashboard.html", nav="Dashboard"),
)
ACTIONS: Sequence[Action] = ()
