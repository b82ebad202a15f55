"""Commands that write what a cluster is made of to JSON files: metadata, settings, figures."""

import json
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import to_builtins

from rocketeer.admin.blocking import Admin
from rocketeer.admin.plans.clusters import choose_brokers
from rocketeer.admin.results import BrokerRuntime, ClusterBroker, NotAnswered
from rocketeer.cli.admin.declare import Option, Subject, command
from rocketeer.cli.admin.options import BrokerAddressOption, ClusterName
from rocketeer.cli.admin.output import Output, said
from rocketeer.errors import BrokerRefused, ConfigError, RocketeerError
from rocketeer.model.topic import SCHEDULE_TOPIC, TRANS_HALF_TOPIC
from rocketeer.protocol.bodies.broker_stats import TOPIC_PUT_NUMS, BrokerStats
from rocketeer.protocol.versions import version_name
from rocketeer.whole_file import replace_file

FOLDER: Final = Path(tempfile.gettempdir()) / "rocketmq" / "export"
FilePath = Annotated[str, Option("f", "filePath", f"the folder to write to ({FOLDER})")]

KEPT_SETTINGS: Final = (
    "brokerClusterName", "brokerId", "brokerName", "brokerRole", "fileReservedTime", "filterServerNums",
    "flushDiskType", "maxMessageSize", "messageDelayLevel", "msgTraceTopicName", "slaveReadEnable", "traceOn",
    "traceTopicEnable", "useTLS", "autoCreateTopicEnable", "autoCreateSubscriptionGroup",
)  # fmt: skip


def write(folder: str, name: str, data: object) -> Path:
    """Write a file of JSON, whole or not at all."""
    path = Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, (json.dumps(data, ensure_ascii=False, indent="\t") + "\n").encode())
    return path


def _exported(path: Path, failures: tuple[NotAnswered, ...]) -> Output:
    return said(f"export {path} success", data={"file": str(path)}, failures=failures)


# --- metadata -----------------------------------------------------------------------------------


@command("exportMetadata", Subject.FILES, "Topics and consumer groups of a cluster or a broker to a file")
def export_metadata(
    admin: Admin,
    cluster: ClusterName | None = None,
    broker: BrokerAddressOption | None = None,
    folder: FilePath = str(FOLDER),
    only_topics: Annotated[bool, Option("t", "topic", "topics only", flag=True)] = False,
    only_groups: Annotated[bool, Option("g", "subscriptionGroup", "groups only", flag=True)] = False,
    special: Annotated[
        bool, Option("s", "specialTopic", "with retry and dead-letter topics", flag=True)
    ] = False,
) -> Output:
    if cluster is None and broker is None:
        raise ConfigError("exportMetadata needs -c or --clusterName, or -b or --brokerAddr")
    where = {"broker": broker} if broker else {"cluster": cluster}
    topics = {} if only_groups else _topics(admin, where, special)
    groups = {} if only_topics else _groups(admin, where)
    data: dict[str, object] = {"exportTime": time.time_ns() // 1_000_000}
    name = "metadata.json"
    if not only_groups:
        data["topicConfigTable"] = topics
        name = "topic.json" if only_topics else name
    if not only_topics:
        data["subscriptionGroupTable"] = groups
        name = "subscriptionGroup.json" if only_groups else name
    return _exported(write(folder, name, data), ())


def _topics(admin: Admin, where: Mapping[str, str | None], special: bool) -> dict[str, object]:
    """Queues of one topic on several brokers are added up, as the topic is one for its users."""
    found = admin.topic_configs(**where)
    _whole_or_not(found.failures)
    system: set[str] = set()
    for broker, _ in found:
        system.update(admin.system_topics(broker.address))
    topics: dict[str, dict[str, Any]] = {}
    for _, table in found:
        for name, config in sorted(table.items()):
            if name in system or (not special and name.startswith(("%RETRY%", "%DLQ%"))):
                continue
            if name in topics and "cluster" in where:
                topics[name]["readQueueNums"] += config.read_queues
                topics[name]["writeQueueNums"] += config.write_queues
            else:
                topics[name] = dict(sorted(to_builtins(config).items()))
    return dict(topics)


_SYSTEM_GROUPS: Final = frozenset(
    {
        "DEFAULT_CONSUMER", "DEFAULT_PRODUCER", "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "__MONITOR_CONSUMER",
        "CLIENT_INNER_PRODUCER", "SELF_TEST_P_GROUP", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_ONSAPI_PULL",
    }
)  # fmt: skip


def _groups(admin: Admin, where: Mapping[str, str | None]) -> dict[str, object]:
    found = admin.group_configs(**where)
    _whole_or_not(found.failures)
    return {
        name: dict(sorted(to_builtins(group).items()))
        for _, table in found
        for name, group in sorted(table.items())
        if name not in _SYSTEM_GROUPS and not name.startswith("CID_RMQ_SYS_")
    }


def _whole_or_not(failures: Iterable[NotAnswered]) -> None:
    """A file that lacks a broker's part would look like the whole: rather none."""
    for failure in failures:
        raise ConfigError(f"nothing was exported: {failure}")


# --- settings -----------------------------------------------------------------------------------


@command("exportConfigs", Subject.FILES, "How large a cluster is, and its brokers' main settings, to a file")
def export_configs(admin: Admin, cluster: ClusterName, folder: FilePath = str(FOLDER)) -> Output:
    known = admin.cluster_map()
    brokers = admin.run(choose_brokers(admin.context(), cluster=cluster, masters_only=False))
    found = admin.cluster_settings(cluster)
    _whole_or_not(found.failures)
    masters = len(known.masters(cluster))
    data = {
        "clusterScale": {
            "namesrvSize": len(admin.context().nameservers.addresses),
            "slaveBrokerSize": len(brokers) - masters,
            "masterBrokerSize": masters,
        },
        "brokerConfigs": {
            broker.name: {key: settings[key] for key in KEPT_SETTINGS if key in settings}
            for broker, settings in found
            if broker.is_master
        },
    }
    return _exported(write(folder, "configs.json", data), ())


# --- figures ------------------------------------------------------------------------------------


@command("exportMetrics", Subject.FILES, "How busy a cluster is, and which clients it has, to a file")
def export_metrics(admin: Admin, cluster: ClusterName, folder: FilePath = str(FOLDER)) -> Output:
    states = admin.cluster_runtime(cluster)
    _whole_or_not(states.failures)
    reports: dict[str, dict[str, Any]] = {}
    total_tps, total_day = dict.fromkeys(_TPS, 0.0), dict.fromkeys(_DAY, 0)
    for broker, state in states:
        if not broker.is_master:
            continue
        tps, day = _rates(admin, broker, state), _day(admin, broker, state)
        for name in _TPS:
            total_tps[name] += tps[name]
        for name in _DAY:
            total_day[name] += day[name]
        reports[broker.name] = _report(admin, broker, state, tps, day)
    data = {
        "totalData": {
            "totalOneDayNum": total_day,
            "totalTps": {f"total{name[0].upper()}{name[1:]}": value for name, value in total_tps.items()},
        },
        "evaluateReport": reports,
    }
    return _exported(write(folder, "metrics.json", data), ())


_TPS: Final = ("normalInTps", "normalOutTps", "transInTps", "scheduleInTps")
_DAY: Final = ("normalOneDayInNum", "normalOneDayOutNum", "transOneDayInNum", "scheduleOneDayInNum")


def _stats(admin: Admin, broker: ClusterBroker, name: str, key: str) -> BrokerStats | None:
    """None when the broker has never counted anything there."""
    try:
        return admin.broker_stats(broker.address, name, key)
    except BrokerRefused as error:
        if "not exist" in error.remark:
            return None
        raise


def _rates(admin: Admin, broker: ClusterBroker, state: BrokerRuntime) -> dict[str, float]:
    half = _stats(admin, broker, TOPIC_PUT_NUMS, TRANS_HALF_TOPIC)
    delayed = _stats(admin, broker, TOPIC_PUT_NUMS, SCHEDULE_TOPIC)
    return {
        "normalInTps": state.put_tps or 0.0,
        "normalOutTps": state.get_tps or 0.0,
        "transInTps": half.minute.tps if half else 0.0,
        "scheduleInTps": delayed.minute.tps if delayed else 0.0,
    }


def _day(admin: Admin, broker: ClusterBroker, state: BrokerRuntime) -> dict[str, int]:
    half = _stats(admin, broker, TOPIC_PUT_NUMS, TRANS_HALF_TOPIC)
    delayed = _stats(admin, broker, TOPIC_PUT_NUMS, SCHEDULE_TOPIC)
    values = [
        _count_of_yesterday(state, "Put"),
        _count_of_yesterday(state, "Get"),
        half.day.sum if half else 0,
        delayed.day.sum if delayed else 0,
    ]
    return dict(zip(_DAY, values, strict=True))


def _count_of_yesterday(state: BrokerRuntime, what: str) -> int:
    """Messages of the last whole day."""
    end, begin = (state.number(f"msg{what}Total{day}Morning") for day in ("Today", "Yesterday"))
    if end is None or begin is None:
        raise ConfigError(f"nothing was exported: a broker does not say msg{what}TotalTodayMorning")
    return end - begin


def _report(
    admin: Admin,
    broker: ClusterBroker,
    state: BrokerRuntime,
    tps: Mapping[str, float],
    day: Mapping[str, int],
) -> dict[str, Any]:
    topics = _topics(admin, {"broker": broker.address}, special=False)
    groups = _groups(admin, {"broker": broker.address})
    settings = admin.broker_settings(broker.address)
    return {
        "runtimeEnv": {"cpuNum": settings.get("clientCallbackExecutorThreads")},
        "runtimeQuota": {
            "diskRatio": {
                "commitLogDiskRatio": state.values.get("commitLogDiskRatio"),
                "consumeQueueDiskRatio": state.values.get("consumeQueueDiskRatio"),
            },
            "tps": dict(tps),
            "oneDayNum": dict(day),
            "messageAverageSize": state.values.get("putMessageAverageSize"),
            "topicSize": len(topics),
            "groupSize": len(groups),
        },
        "runtimeVersion": {
            "rocketmqVersion": state.version,
            "clientInfo": _client_versions(admin, broker, groups),
        },
    }


def _client_versions(admin: Admin, broker: ClusterBroker, groups: Iterable[str]) -> list[str]:
    """Language and version of the members of every group that has some, as `JAVA%V4_9_8`."""
    found: set[str] = set()
    for group in groups:
        try:
            members = admin.group_connections(group, broker=broker.address)
        except RocketeerError:
            continue  # nobody of that group is online
        found.update(f"{each.language}%{version_name(each.version)}" for each in members.connections)
    return sorted(found)
