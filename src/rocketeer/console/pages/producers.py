"""Producers that are connected, by group."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rocketeer.admin.results import Broker
from rocketeer.console.asking import ask_each
from rocketeer.console.i18n import Text
from rocketeer.console.registry import Action, Param, View
from rocketeer.console.visit import Visit, listing
from rocketeer.protocol.bodies.producers import ProducerClient


async def producers(visit: Visit) -> Mapping[str, Any]:
    known = await visit.cluster.brokers.get()
    masters = known.masters()
    answers, failures = await ask_each(masters, lambda broker: visit.cluster.admin.producers(broker.address))
    return await asyncio.to_thread(_page, visit, answers, failures)


def _page(
    visit: Visit,
    answers: Iterable[tuple[Broker, Mapping[str, Iterable[ProducerClient]]]],
    failures: Sequence[Text],
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
        visit,
        list(rows.values()),
        search_in=lambda row: f"{row['group']} {row['client'].client_id}",
        sorts={"group": lambda row: row["group"], "client": lambda row: row["client"].client_id},
        default_sort="group",
    )
    return {"page": page, "failures": failures}


VIEWS: Sequence[View] = (
    View("/producers", "producers", "Connected producers", producers, "producers.html", nav="Producers",
         query=(Param("q", "search"), Param("sort", "sort by"), Param("page", "page", "number"))),
)  # fmt: skip
ACTIONS: Sequence[Action] = ()
