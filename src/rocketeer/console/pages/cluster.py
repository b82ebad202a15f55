"""Brokers: their roles, what they do now, their settings."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from rocketeer.console.registry import Action, Outcome, Param, View
from rocketeer.console.users import Role
from rocketeer.console.visit import Visit


async def brokers(visit: Visit) -> Mapping[str, Any]:
    known, runtime = await asyncio.gather(visit.cluster.brokers.get(), visit.cluster.runtime.get())
    rows = sorted(known.brokers, key=lambda broker: (broker.cluster, broker.name, broker.broker_id))
    return {
        "brokers": [(broker, runtime.answers.get(broker)) for broker in rows],
        "failures": runtime.failures,
    }


async def broker(visit: Visit) -> Mapping[str, Any]:
    address = visit.path["address"]
    runtime, settings = await asyncio.gather(
        visit.cluster.admin.broker_runtime(address), visit.cluster.admin.broker_settings(address)
    )
    search = visit.text("q").lower()
    values = sorted(settings.items())
    return {
        "address": address,
        "runtime": runtime,
        "settings": [(key, value) for key, value in values if search in key.lower()],
    }


async def change_setting(visit: Visit) -> Outcome:
    key, value, address = visit.needed("key"), visit.text("value"), visit.path["address"]
    done = await visit.cluster.admin.update_broker_settings({key: value}, broker=address)
    return Outcome(f"{key} is {value} on {address} now", failures=[str(failure) for failure in done.failures])


async def writable(visit: Visit) -> Outcome:
    name = visit.path["name"]
    if visit.flag("writable"):
        counts = await visit.cluster.admin.add_write_perm(name)
        return Outcome(f"{name} takes messages again: {counts}")
    counts = await visit.cluster.admin.wipe_write_perm(name)
    return Outcome(f"producers are led away from {name}: {counts}")


VIEWS: Sequence[View] = (
    View("/cluster", "brokers", "All brokers", brokers, "cluster.html", nav="Cluster"),
    View("/cluster/{address}", "broker", "One broker: figures and settings", broker, "broker.html", nav="Cluster",
         query=(Param("q", "search in the settings"),)),
)  # fmt: skip
ACTIONS: Sequence[Action] = (
    Action("/cluster/{address}/setting", "change_setting", "Change a setting", change_setting, role=Role.ADMIN,
           fields=(Param("key", "key", required=True), Param("value", "value")),
           warning="The setting is changed at once, and in the broker's file.", dangerous=True),
    Action("/brokers/{name}/writable", "set_writable", "Lead producers to or away from a broker", writable,
           role=Role.ADMIN, fields=(Param("writable", "takes messages", "flag"),),
           warning="Name servers tell producers; messages that are there stay readable.", dangerous=True),
)  # fmt: skip
