"""Commands about clusters and brokers: who there is, how they are, what they are set to."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated

from rocketeer.admin.blocking import Admin
from rocketeer.admin.plans import clusters as plans
from rocketeer.admin.results import BrokerRuntime, ClusterBroker
from rocketeer.cli.admin.declare import Option, Subject, Watch, command
from rocketeer.cli.admin.options import BrokerAddressOption, ClusterName
from rocketeer.cli.admin.output import (
    Cell,
    Output,
    OutputLines,
    OutputTable,
    columns,
    fixed,
    row_object,
    said,
    when,
)

MoreStats = Annotated[bool, Option("m", "moreStats", "messages of yesterday and today instead", flag=True)]


@command("clusterList", Subject.CLUSTERS, "All clusters and brokers, and how busy they are", watch=Watch())
def cluster_list(admin: Admin, more_stats: MoreStats = False) -> Output:
    known = admin.cluster_map()
    states = admin.cluster_runtime()
    brokers = sorted(known.brokers)
    make = _more_row if more_stats else _base_row
    rows = [make(broker, states.answers.get(broker)) for broker in brokers]
    return Output([_MORE(rows) if more_stats else _BASE(rows)], failures=states.failures)


def _BASE(rows: list[tuple[object, ...]]) -> OutputTable:
    return OutputTable(
        "%-16s  %-22s  %-4s  %-22s %-16s %19s %19s %10s %5s %6s",
        columns(
            "cluster", "#Cluster Name", "broker", "#Broker Name", "brokerId", "#BID", "address", "#Addr",
            "version", "#Version", "inTps", "#InTPS(LOAD)", "outTps", "#OutTPS(LOAD)", "pageCacheWaitMs",
            "#PCWait(ms)", "hours", "#Hour", "diskRatio", "#SPACE",
        ),
        rows,
        warn=lambda row: row["version"] is None or (row["diskRatio"] or 0) > 0.75,  # type: ignore[operator]
    )  # fmt: skip


def _MORE(rows: list[tuple[object, ...]]) -> OutputTable:
    return OutputTable(
        "%-16s  %-32s %14s %14s %14s %14s",
        columns(
            "cluster", "#Cluster Name", "broker", "#Broker Name", "inYesterday", "#InTotalYest",
            "outYesterday", "#OutTotalYest", "inToday", "#InTotalToday", "outToday", "#OutTotalToday",
        ),
        rows,
    )  # fmt: skip


def _base_row(broker: ClusterBroker, state: BrokerRuntime | None) -> tuple[object, ...]:
    head = (broker.cluster, broker.name, broker.broker_id, broker.address)
    if state is None:
        return (*head, None, None, None, None, None, None)
    earliest = state.earliest_ms
    hours = None if earliest is None else (time.time() * 1000 - earliest) / 3_600_000
    return (
        *head,
        state.version,
        _load(state.put_tps, state.send_queue_size, state.send_wait_ms),
        _load(state.get_tps, state.pull_queue_size, state.pull_wait_ms),
        state.page_cache_lock_ms,
        fixed(hours),
        fixed(state.disk_ratio, 4),
    )


def _load(tps: float | None, waiting: int | None, wait_ms: int | None) -> Cell:
    if tps is None:
        return Cell(None, "-")
    known = [("-" if each is None else str(each)) for each in (waiting, wait_ms)]
    return Cell(tps, f"{tps:.2f}({known[0]},{known[1]}ms)")


def _more_row(broker: ClusterBroker, state: BrokerRuntime | None) -> tuple[object, ...]:
    counts = [
        _difference(state, later, earlier)
        for later, earlier in (
            ("msgPutTotalTodayMorning", "msgPutTotalYesterdayMorning"),
            ("msgGetTotalTodayMorning", "msgGetTotalYesterdayMorning"),
            ("msgPutTotalTodayNow", "msgPutTotalTodayMorning"),
            ("msgGetTotalTodayNow", "msgGetTotalTodayMorning"),
        )
    ]
    return (broker.cluster, broker.name, *counts)


def _difference(state: BrokerRuntime | None, later: str, earlier: str) -> int | None:
    if state is None:
        return None
    end, begin = state.number(later), state.number(earlier)
    return None if end is None or begin is None else end - begin


@command(
    "brokerStatus",
    Subject.CLUSTERS,
    "Everything a broker tells of its running state",
    one_of=(("broker", "cluster"),),
)
def broker_status(
    admin: Admin, broker: BrokerAddressOption | None = None, cluster: ClusterName | None = None
) -> Output:
    if broker is not None:
        state = admin.broker_runtime(broker)
        rows = sorted(state.values.items())
        table = OutputTable("%-32s: %s", columns("name", "name", "value", "value"), rows, heading=False)
        return Output([table], dict(rows))
    states = admin.cluster_runtime(cluster)
    lines = [(each.address, *item) for each, found in states for item in sorted(found.values.items())]
    table = OutputTable(
        "%-24s %-32s: %s",
        columns("address", "address", "name", "name", "value", "value"),
        lines,
        heading=False,
    )
    data = {each.address: dict(found.values) for each, found in states}
    return Output([table], data, states.failures)


@command("getBrokerConfig", Subject.CLUSTERS, "Every setting in force at a broker, or at a cluster's brokers")
def get_broker_config(
    admin: Admin, broker: BrokerAddressOption | None = None, cluster: ClusterName | None = None
) -> Output:
    if broker is not None:
        settings = admin.broker_settings(broker)
        return Output(settings_parts({broker: settings}, _BLANK), {broker: dict(settings)})
    found = admin.cluster_settings(cluster)
    titles = {f"{_role(each)}: {each.address}": settings for each, settings in found}
    data = {each.address: dict(settings) for each, settings in found}
    return Output(settings_parts(titles, _BLANK), data, found.failures)


_BLANK = ("",)


def _role(broker: ClusterBroker) -> str:
    return "Master" if broker.is_master else "Slave"


def settings_parts(
    found: Mapping[str, Mapping[str, str]], after: tuple[str, ...] = ()
) -> Iterator[OutputTable | OutputLines]:
    """The settings of each server under its title, and what stands behind them."""
    for title, settings in found.items():
        yield OutputLines([f"============{title}============"])
        rows = sorted(settings.items(), key=lambda item: item[0].lower())
        yield OutputTable("%-50s=  %s", columns("key", "key", "value", "value"), rows, heading=False)
        yield OutputLines(after)


@command("updateBrokerConfig", Subject.CLUSTERS, "Change a setting of a broker while it runs")
def update_broker_config(
    admin: Admin,
    key: Annotated[str, Option("k", "key", "RocketMQ's key of the setting")],
    value: Annotated[str, Option("v", "value", "its new value")],
    broker: BrokerAddressOption | None = None,
    cluster: ClusterName | None = None,
) -> Output:
    done = admin.update_broker_settings({key: value}, broker=broker, cluster=cluster)
    lines = [f"update broker config success, {each.address}" for each in done.brokers]
    return said(*lines, failures=done.failures)


@command("brokerConsumeStats", Subject.CLUSTERS, "How far every group of a broker is")
def broker_consume_stats(
    admin: Admin,
    broker: BrokerAddressOption,
    timeout_ms: Annotated[int, Option("t", "timeoutMillis", "milliseconds to wait (50000)")] = 50_000,
    level: Annotated[int, Option("l", "level", "show queues with at least this lag (0)")] = 0,
    order: Annotated[bool, Option("o", "order", "ordered topics only (false)")] = False,
) -> Output:
    context = replace(admin.context(), timeout_s=timeout_ms / 1000)
    stats = admin.run(plans.broker_consume_stats(context, broker, order=order))
    rows = [
        (
            queue.topic, group, queue.broker_name, queue.queue_id, state.broker_offset, state.consumer_offset,
            state.lag, when(state.last_ms),
        )
        for group, parts in stats.groups.items()
        for part in parts
        for queue, state in sorted(part.queues.items())
        if state.lag >= level and (state.last_ms > 0 or state.lag > 0)
    ]  # fmt: skip
    table = OutputTable(
        "%-64s  %-64s  %-32s  %-4s  %-20s  %-20s  %-20s  %s",
        columns(
            "topic", "#Topic", "group", "#Group", "broker", "#Broker Name", "queueId", "#QID", "brokerOffset",
            "#Broker Offset", "consumerOffset", "#Consumer Offset", "lag", "#Diff", "lastTime", "#LastTime",
        ),
        rows,
    )  # fmt: skip
    data = {
        "totalLag": stats.total_lag,
        "queues": [row_object(table, row) for row in rows],
    }
    return Output([table, OutputLines(["", f"Diff Total: {stats.total_lag}"])], data)
