"""Producers that are connected, by group."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from rocketeer.console.i18n import text
from rocketeer.console.registry import Action, Param, View
from rocketeer.console.visit import Visit, listing
from rocketeer.errors import RocketeerError


async def producers(visit: Visit) -> Mapping[str, Any]:
    known = await visit.cluster.brokers.get()
    masters = [broker for broker in known.brokers if broker.broker_id == 0]
    answers = await asyncio.gather(
        *(visit.cluster.admin.producers(broker.address) for broker in masters), return_exceptions=True
    )
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    failures: list[object] = []
    for broker, answer in zip(masters, answers, strict=True):
        if isinstance(answer, RocketeerError):
            failures.append(text("{who} did not answer: {error}", who=broker, error=answer))
            continue
        if isinstance(answer, BaseException):
            raise answer
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
