"""Brokers: their roles, how far replicas are behind, what they do now, their settings."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from rocketeer.admin.results import BrokerRuntime, ClusterBroker, ClusterMap, PerBroker
from rocketeer.console.i18n import TranslatableText, text
from rocketeer.console.page_request import PageRequest
from rocketeer.console.registry import Action, ActionResult, PageView, Param
from rocketeer.console.users import UserRole

LOG_END = "commitLogMaxOffset"


async def brokers(request: PageRequest) -> Mapping[str, Any]:
    known, runtime = await asyncio.gather(request.cluster.brokers.get(), request.cluster.runtime.get())
    return await asyncio.to_thread(_brokers_page, known, runtime)


def _brokers_page(known: ClusterMap, runtime: PerBroker[BrokerRuntime]) -> Mapping[str, Any]:
    masters: dict[str, BrokerRuntime] = {}
    for broker, each in runtime.answers.items():
        if broker.is_master:
            masters.setdefault(broker.name, each)
    rows = sorted(known.brokers, key=lambda broker: (broker.cluster, broker.name, broker.broker_id))
    return {
        "brokers": [
            {
                "broker": broker,
                "runtime": runtime.answers.get(broker),
                "behind": bytes_behind(broker, runtime.answers.get(broker), masters.get(broker.name)),
            }
            for broker in rows
        ],
        "failures": runtime.failures,
    }


def bytes_behind(
    broker: ClusterBroker, own: BrokerRuntime | None, master: BrokerRuntime | None
) -> int | None:
    """How much of its master's log a replica has not; None for a master, and where one of the two did not say.

    The two are asked one after the other: a replica that was asked later may seem ahead, and is not behind then.
    """
    if broker.is_master or own is None or master is None:
        return None
    end, own_end = master.number(LOG_END), own.number(LOG_END)
    return None if end is None or own_end is None else max(end - own_end, 0)


async def broker(request: PageRequest) -> Mapping[str, Any]:
    address = request.path["address"]
    known, runtime, settings = await asyncio.gather(
        request.cluster.brokers.get(),
        request.cluster.admin.broker_runtime(address),
        request.cluster.admin.broker_settings(address),
    )
    search = request.text("q").lower()
    edited = request.text("edit")
    return {
        "address": address,
        "broker": known.at(address),
        "runtime": runtime.values,
        "settings": [(key, value) for key, value in sorted(settings.items()) if search in key.lower()],
        "edited": edited if edited in settings else "",
        "edited_value": settings.get(edited, ""),
    }


async def change_setting(request: PageRequest) -> ActionResult:
    key, value, address = request.needed("key"), request.text("value"), request.path["address"]
    done = await request.cluster.admin.update_broker_settings({key: value}, broker=address)
    now = (await request.cluster.admin.broker_settings(address)).get(key, "")
    return ActionResult(
        text("{key} is {value} on {address} now", key=key, value=repr(now), address=address),
        failures=done.failures,
    )


async def setting_before(request: PageRequest) -> list[TranslatableText]:
    key = request.needed("key")
    before = (await request.cluster.admin.broker_settings(request.path["address"])).get(key)
    if before is None:
        return [text("{key} is a setting this broker does not tell", key=key)]
    return [
        text(
            "{key} is {before}, it will be {after}",
            key=key,
            before=repr(before),
            after=repr(request.text("value")),
        )
    ]


async def writable(request: PageRequest) -> ActionResult:
    name = request.path["name"]
    if request.flag("writable"):
        counts = await request.cluster.admin.add_write_perm(name)
        return ActionResult(
            text(
                "producers are led to {name} again, for {count} topics", name=name, count=max(counts.values())
            )
        )
    counts = await request.cluster.admin.wipe_write_perm(name)
    return ActionResult(
        text("producers are led away from {name}, for {count} topics", name=name, count=max(counts.values()))
    )


async def writable_before(request: PageRequest) -> list[TranslatableText]:
    if request.flag("writable"):
        return [text("Producers will send to it again.")]
    return [text("Producers will send to other brokers; topics that are on this one only cannot be sent to.")]


VIEWS: Sequence[PageView] = (
    PageView("/cluster", "brokers", "All brokers", brokers, "cluster.html", nav="Cluster"),
    PageView("/cluster/{address}", "broker", "One broker: figures and settings", broker, "broker.html", nav="Cluster",
             query=(Param("q", "search in the settings"), Param("edit", "setting to change"))),
)  # fmt: skip
ACTIONS: Sequence[Action] = (
    Action("/cluster/{address}/setting", "change_setting", "Change a setting", change_setting, role=UserRole.ADMIN,
           fields=(Param("key", "key", required=True), Param("value", "value")),
           warning="The setting is changed at once, and in the broker's file.", dangerous=True,
           preview=setting_before),
    Action("/brokers/{name}/writable", "set_writable", "Lead producers to or away from a broker", writable,
           role=UserRole.ADMIN, fields=(Param("writable", "takes messages", "flag"),),
           warning="Name servers tell producers; messages that are there stay readable.", dangerous=True,
           preview=writable_before),
)  # fmt: skip
