"""Producers that are connected, by group."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rocketeer.admin.results import ClusterBroker
from rocketeer.console.fan_out import ask_each
from rocketeer.console.i18n import TranslatableText
from rocketeer.console.page_request import PageRequest, listing
from rocketeer.console.registry import Action, PageView, Param
from rocketeer.protocol.bodies.producers import ProducerClient


async def producers(request: PageRequest) -> Mapping[str, Any]:
    known = await request.cluster.brokers.get()
    masters = known.masters()
    answers, failures = await ask_each(
        masters, lambda broker: request.cluster.admin.producers(broker.address)
    )
    return await asyncio.to_thread(_page, request, answers, failures)


def _page(
    request: PageRequest,
    answers: Iterable[tuple[ClusterBroker, Mapping[str, Iterable[ProducerClient]]]],
    failures: Sequence[TranslatableText],
) -> Mapping[str, Any]:
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for broker, answer in answers:
        for group, clients in answer.items():
            for client in clients:
                row = rows.setdefault(
                    (group, client.client_id), {"group": group, "client": client, "brokers": []}
                )
                row["brokers"].append(broker.name)
    page = listing(
        request,
        list(rows.values()),
        search_in=lambda row: f"{row['group']} {row['client'].client_id}",
        sorts={"group": lambda row: row["group"], "client": lambda row: row["client"].client_id},
        default_sort="group",
    )
    return {"page": page, "failures": failures}


VIEWS: Sequence[PageView] = (
    PageView("/producers", "producers", "Connected producers", producers, "producers.html", nav="Producers",
             query=(Param("q", "search"), Param("sort", "sort by"), Param("page", "page", "number"))),
)  # fmt: skip
ACTIONS: Sequence[Action] = ()
