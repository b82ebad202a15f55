"""A topic's route (105) and the cluster's brokers (106) as JSON."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rocketeer.model.java_types import I32, I64
from rocketeer.model.route import BrokerData, QueueData, Route
from rocketeer.protocol import fastjson
from rocketeer.protocol.bodies.wire import Wire, decoder, load_as
from rocketeer.steps import Steps


class ClusterInfo(NamedTuple):
    """All brokers by name, and the broker names of each cluster."""

    brokers: dict[str, BrokerData]
    clusters: dict[str, list[str]]


class _QueueWire(Wire):
    broker_name: str
    read_queue_nums: I32
    write_queue_nums: I32
    perm: I32
    topic_sys_flag: I32 = 0
    topic_syn_flag: I32 = 0  # the name it had before 4.9

    def value(self) -> QueueData:
        flag = self.topic_sys_flag or self.topic_syn_flag
        return QueueData(self.broker_name, self.read_queue_nums, self.write_queue_nums, self.perm, flag)


class _BrokerWire(Wire):
    broker_name: str
    broker_addrs: dict[I64, str] | None = None
    cluster: str | None = None

    def value(self) -> BrokerData:
        return BrokerData(self.cluster or "", self.broker_name, self.broker_addrs or {})


class _RouteWire(Wire):
    queue_datas: list[_QueueWire] | None = None
    broker_datas: list[_BrokerWire] | None = None
    order_topic_conf: str | None = None


class _ClusterWire(Wire):
    broker_addr_table: dict[str, _BrokerWire] | None = None
    cluster_addr_table: dict[str, list[str]] | None = None


_route_decoder = decoder(_RouteWire)
_cluster_decoder = decoder(_ClusterWire)


def _broker(broker: BrokerData, strict: bool) -> dict[str, Any]:
    addresses = sorted(broker.addresses.items())
    return {
        "brokerAddrs": {str(broker_id) if strict else broker_id: text for broker_id, text in addresses},
        "brokerName": broker.broker_name,
        "cluster": broker.cluster,
    }


def _queue(queue: QueueData) -> dict[str, Any]:
    return {
        "brokerName": queue.broker_name,
        "perm": int(queue.perm),
        "readQueueNums": queue.read_queues,
        "topicSysFlag": queue.sys_flag,
        "writeQueueNums": queue.write_queues,
    }


def encoding_route(route: Route, *, strict: bool) -> Steps[bytes]:
    """Encode it, a broker a step: there may be very many.

    `strict` for clients of version V4_9_4 and later or that ask for it; others know bare broker ids.
    """
    write = fastjson.dumps if strict else fastjson.dumps_bare
    brokers, queues = [], []
    for broker in route.brokers:
        brokers.append(write(_broker(broker, strict)))
        yield
    for queue in route.queues:
        queues.append(write(_queue(queue)))
        yield
    order = b"" if route.order_conf is None else b',"orderTopicConf":%b' % write(route.order_conf)
    return b'{"brokerDatas":[%b],"filterServerTable":{}%b,"queueDatas":[%b]%b}' % (
        b",".join(brokers),
        order if strict else b"",  # strict JSON has its keys sorted
        b",".join(queues),
        b"" if strict else order,
    )


def decode_route(data: bytes) -> Route:
    wire = load_as(_route_decoder, data)
    return Route(
        tuple(queue.value() for queue in wire.queue_datas or ()),
        tuple(broker.value() for broker in wire.broker_datas or ()),
        wire.order_topic_conf,
    )


def encoding_cluster_info(
    brokers: Iterable[tuple[str, BrokerData]], clusters: Mapping[str, list[str]]
) -> Steps[bytes]:
    """Encode it, a broker a step: there may be very many."""
    entries = []
    for name, broker in brokers:
        entries.append(b"%b:%b" % (fastjson.dumps(name), fastjson.dumps_bare(_broker(broker, strict=False))))
        yield
    members = []
    for name, names in clusters.items():
        members.append(b"%b:%b" % (fastjson.dumps(name), fastjson.dumps(names)))
        yield
    return b'{"brokerAddrTable":{%b},"clusterAddrTable":{%b}}' % (b",".join(entries), b",".join(members))


def decode_cluster_info(data: bytes) -> ClusterInfo:
    wire = load_as(_cluster_decoder, data)
    brokers = {name: broker.value() for name, broker in (wire.broker_addr_table or {}).items()}
    return ClusterInfo(brokers, wire.cluster_addr_table or {})
