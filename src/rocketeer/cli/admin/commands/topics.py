"""Commands about topics: list, route, status, make, change, delete, order, activity, who gets which queues."""

import itertools
from collections.abc import Iterator
from typing import Annotated, TypeVar

from rocketeer.admin.blocking import Admin
from rocketeer.admin.plans.clusters import choose_brokers
from rocketeer.cli.admin.declare import Option, Subject, command
from rocketeer.cli.admin.options import BrokerAddressOption, ClusterName, Topic
from rocketeer.cli.admin.output import Output, OutputLines, OutputTable, columns, said, when
from rocketeer.client.core.allocate import Averagely
from rocketeer.errors import ConfigError, NoRoute
from rocketeer.model.route import BrokerData, Route
from rocketeer.model.topic import TopicConfig

T = TypeVar("T")


@command("topicList", Subject.TOPICS, "The names of all topics; -c: with their clusters and consumer groups")
def topic_list(
    admin: Admin,
    cluster_model: Annotated[
        bool, Option("c", "clusterModel", "with clusters and groups", flag=True)
    ] = False,
) -> Output:
    if not cluster_model:
        names = admin.topics()
        return Output([OutputLines(names)], list(names))
    found = admin.all_topic_groups()
    rows = [
        (cluster, each.topic, group)
        for each in found
        for cluster, group in itertools.product(each.clusters, each.groups or ("",))
    ]
    table = OutputTable(
        "%-20s  %-64s  %-64s",
        columns("cluster", "#Cluster Name", "topic", "#Topic", "group", "#Consumer Group"),
        rows,
        head_form="%-20s  %-48s  %-48s",
    )
    data = [
        {"topic": each.topic, "clusters": list(each.clusters), "groups": list(each.groups)} for each in found
    ]
    return Output([table], data, tuple(failure for each in found for failure in each.failures))


@command("topicRoute", Subject.TOPICS, "Which brokers have how many queues of a topic")
def topic_route(
    admin: Admin,
    topic: Topic,
    as_list: Annotated[bool, Option("l", "list", "as a table", flag=True)] = False,
) -> Output:
    route = admin.topic_route(topic)
    data = _route_data(route)
    if not as_list:
        return Output([OutputLines(_route_lines(route))], data)
    brokers = {each.broker_name: each for each in route.brokers}
    queues = sorted(route.queues, key=lambda each: each.broker_name)
    rows = [
        (
            brokers[each.broker_name].cluster,
            each.broker_name,
            _addresses_text(brokers[each.broker_name]),
            each.read_queues,
            each.write_queues,
            each.perm,
        )
        for each in queues
        if each.broker_name in brokers
    ]
    form = "%-45s %-32s %-50s %-10s %-11s %-5s"
    table = OutputTable(
        form,
        columns(
            "cluster", "#ClusterName", "broker", "#BrokerName", "addresses", "#BrokerAddrs", "readQueues",
            "#ReadQueue", "writeQueues", "#WriteQueue", "perm", "#Perm",
        ),
        rows,
    )  # fmt: skip
    totals = ("Total:", len(brokers), "", sum(row[3] for row in rows), sum(row[4] for row in rows), "")
    return Output([table, OutputLines(["-" * 158, form % totals])], data)


def _addresses_text(broker: BrokerData) -> str:
    return "{" + ", ".join(f"{number}={text}" for number, text in sorted(broker.addresses.items())) + "}"


def _route_data(route: Route) -> dict[str, object]:
    return {
        "brokers": [
            {
                "cluster": each.cluster, "broker": each.broker_name,
                "addresses": {str(number): text for number, text in each.addresses.items()},
            }
            for each in route.brokers
        ],
        "queues": [
            {
                "broker": each.broker_name, "perm": each.perm, "readQueues": each.read_queues,
                "sysFlag": each.sys_flag, "writeQueues": each.write_queues,
            }
            for each in route.queues
        ],
        "orderConf": route.order_conf,
    }  # fmt: skip


def _route_lines(route: Route) -> Iterator[str]:
    """As fastjson sets it: tabs, and numbers as keys bare."""
    yield "{"
    yield '\t"brokerDatas":['
    for last, broker in _with_last(route.brokers):
        addresses = ",".join(f'{number}:"{address}"' for number, address in sorted(broker.addresses.items()))
        yield "\t\t{"
        yield f'\t\t\t"brokerAddrs":{{{addresses}'
        yield "\t\t\t},"
        yield f'\t\t\t"brokerName":"{broker.broker_name}",'
        yield f'\t\t\t"cluster":"{broker.cluster}"'
        yield "\t\t}" if last else "\t\t},"
    yield "\t],"
    yield '\t"filterServerTable":{},'
    if route.order_conf:
        yield f'\t"orderTopicConf":"{route.order_conf}",'
    yield '\t"queueDatas":['
    for last, queue in _with_last(route.queues):
        yield "\t\t{"
        yield f'\t\t\t"brokerName":"{queue.broker_name}",'
        yield f'\t\t\t"perm":{queue.perm},'
        yield f'\t\t\t"readQueueNums":{queue.read_queues},'
        yield f'\t\t\t"topicSysFlag":{queue.sys_flag},'
        yield f'\t\t\t"writeQueueNums":{queue.write_queues}'
        yield "\t\t}" if last else "\t\t},"
    yield "\t]"
    yield "}"


def _with_last(items: tuple[T, ...]) -> Iterator[tuple[bool, T]]:
    for number, item in enumerate(items, start=1):
        yield number == len(items), item


@command("topicStatus", Subject.TOPICS, "What each queue of a topic holds, and its newest message's time")
def topic_status(admin: Admin, topic: Topic) -> Output:
    status = admin.topic_status(topic)
    rows = [
        (
            queue.broker_name, queue.queue_id, each.min_offset, each.max_offset,
            when(each.last_ms, millis=",", missing=""),
        )
        for queue, each in status.queues.items()
    ]  # fmt: skip
    table = OutputTable(
        "%-32s  %-4s  %-20s  %-20s    %s",
        columns(
            "broker", "#Broker Name", "queueId", "#QID", "minOffset", "#Min Offset", "maxOffset",
            "#Max Offset", "lastUpdated", "#Last Updated",
        ),
        rows,
    )  # fmt: skip
    return Output([table], failures=status.failures)


@command("topicClusterList", Subject.TOPICS, "The clusters that have a topic")
def topic_cluster_list(admin: Admin, topic: Topic) -> Output:
    clusters = admin.topic_clusters(topic)
    return Output([OutputLines(clusters)], list(clusters))


@command(
    "updateTopic",
    Subject.TOPICS,
    "Make a topic or change it, on a broker or on a cluster",
    one_of=(("broker", "cluster"),),
)
def update_topic(
    admin: Admin,
    topic: Topic,
    broker: BrokerAddressOption | None = None,
    cluster: ClusterName | None = None,
    read_queues: Annotated[int, Option("r", "readQueueNums", "queues to read (8)")] = 8,
    write_queues: Annotated[int, Option("w", "writeQueueNums", "queues to write (8)")] = 8,
    perm: Annotated[int, Option("p", "perm", "2 write, 4 read, 6 both (6)")] = 6,
    order: Annotated[bool, Option("o", "order", "whether it is ordered: true or false")] = False,
    unit: Annotated[bool, Option("u", "unit", "whether it is a unit's topic: true or false")] = False,
    unit_sub: Annotated[
        bool, Option("s", "hasUnitSub", "whether units subscribe to it: true or false")
    ] = False,
) -> Output:
    config = TopicConfig(
        topic, read_queues, write_queues, perm, sys_flag=int(unit) | int(unit_sub) << 1, order=order
    )
    done = admin.update_topic(config, broker=broker, cluster=cluster)
    lines = [f"create topic to {each.address} success." for each in done.brokers]
    if order:
        conf = admin.order_conf(topic)
        lines.insert(0, f"set broker orderConf. isOrder=true, orderConf=[{conf}]")
    data = {"topic": topic, "brokers": [each.address for each in done.brokers]}
    return said(*lines, str(config), data=data, failures=done.failures)


@command("updateTopicPerm", Subject.TOPICS, "Change what a topic may be used for: reading, writing, both")
def update_topic_perm(
    admin: Admin,
    topic: Topic,
    perm: Annotated[int, Option("p", "perm", "2 write, 4 read, 6 both")],
    broker: BrokerAddressOption | None = None,
    cluster: ClusterName | None = None,
) -> Output:
    done = admin.update_topic_perm(topic, perm, broker=broker, cluster=cluster)
    lines: list[str] = []
    for each, (was, config) in done:
        lines.append(f"update topic perm from {was} to {perm} in {each.address} success.")
        if broker is not None:
            lines.append(f"{config}.")
    data = [{"broker": each.address, "from": was, "to": perm} for each, (was, _) in done]
    return said(*lines, data=data, failures=done.failures)


def _delete_danger(admin: Admin, topic: str, cluster: str) -> list[str]:
    brokers = admin.run(choose_brokers(admin.context(), cluster=cluster))
    try:
        status = admin.topic_status(topic)
    except NoRoute:
        held = "The name server does not know it."
    else:
        count = sum(each.max_offset - each.min_offset for each in status.queues.values())
        held = f"It holds {count:,} messages in {len(status.queues)} queues."
    where = ", ".join(map(str, brokers))
    return [f"Topic {topic} and its messages will be deleted on {where}. {held}"]


@command(
    "deleteTopic", Subject.TOPICS, "Delete a topic and its messages from a cluster", danger=_delete_danger
)
def delete_topic(admin: Admin, topic: Topic, cluster: ClusterName) -> Output:
    done = admin.delete_topic(topic, cluster=cluster)
    lines = [f"delete topic [{topic}] from cluster [{cluster}] success."]
    if not done.failures:
        lines.append(f"delete topic [{topic}] from NameServer success.")
    data = {"topic": topic, "brokers": [each.address for each in done.brokers]}
    return said(*(lines if not done.failures else []), data=data, failures=done.failures)


@command("updateOrderConf", Subject.TOPICS, "Which queues an ordered topic has: put, get or delete")
def update_order_conf(
    admin: Admin,
    topic: Topic,
    method: Annotated[str, Option("m", "method", "put, get or delete", choices=("put", "get", "delete"))],
    conf: Annotated[str, Option("v", "orderConf", "broker-a:4;broker-b:4")] | None = None,
) -> Output:
    if method == "get":
        found = admin.order_conf(topic)
        if found is None:
            raise ConfigError(f"topic {topic!r} has no order configuration")
        return said(
            f"get orderConf success. topic=[{topic}], orderConf=[{found}] ",
            data={"topic": topic, "orderConf": found},
        )
    if method == "delete":
        admin.delete_order_conf(topic)
        return said(f"delete orderConf success. topic=[{topic}]", data={"topic": topic, "orderConf": None})
    if conf is None:
        raise ConfigError("updateOrderConf -m put needs -v or --orderConf (broker-a:4;broker-b:4)")
    admin.put_order_conf(topic, conf)
    return said(
        f"update orderConf success. topic=[{topic}], orderConf=[{conf}]",
        data={"topic": topic, "orderConf": conf},
    )


@command("allocateMQ", Subject.TOPICS, "Which of some members would get which queues of a topic")
def allocate_mq(
    admin: Admin,
    topic: Topic,
    members: Annotated[str, Option("i", "ipList", "the members, with commas between them")],
) -> Output:
    queues = admin.queues(topic)
    clients = [each.strip() for each in members.split(",") if each.strip()]
    if not clients:
        raise ConfigError("--ipList names no member: write 10.0.0.1,10.0.0.2")
    shares = {each: Averagely()(each, queues, clients) for each in clients}
    data = {
        "result": {
            member: [
                {"brokerName": each.broker_name, "queueId": each.queue_id, "topic": each.topic}
                for each in share
            ]
            for member, share in shares.items()
        }
    }
    return Output([OutputLines([_compact(data)])], data)


def _compact(data: object) -> str:
    import json

    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)
