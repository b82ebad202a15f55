"""Traces: what Apache's Java client leaves we read, and what we leave it reads (`make interop`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import rocketeer
from rocketeer.bench.control import Control
from rocketeer.record.trace import TraceEvent, TraceKind, decode_trace
from support.cluster import ServerCluster, chosen_make, running_cluster
from support.consuming import options, until_sync
from support.peers import Peer, java_peer

pytestmark = pytest.mark.interop
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with running_cluster(folder, peer=chosen_make(), conf={"traceTopicEnable": "true"}) as running:
        yield running


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    peer = java_peer(tmp_path, "interop.Trace")
    yield peer
    peer.stop_all()


def _topic(cluster: ServerCluster, name: str) -> str:
    with Control(cluster.broker) as broker:
        broker.create_topic(name, queues=2)
    return name


def _bodies(cluster: ServerCluster) -> list[bytes]:
    bodies = []
    with rocketeer.PullConsumer("reads-traces", nameserver=cluster.namesrv) as consumer:
        (queue,) = consumer.queues(TRACE_TOPIC)
        offset, end = 0, consumer.max_offset(queue)
        while offset < end:
            result = consumer.pull(queue, offset)
            bodies += [message.body for message in result.messages]
            offset = result.next_offset
    return bodies


def test_we_read_the_traces_of_java(cluster: ServerCluster, peer: Peer) -> None:
    topic = _topic(cluster, "java-traced")
    sent = peer.run("send", namesrv=cluster.namesrv, topic=topic, count=3)
    ids = [event["id"] for event in sent if event["event"] == "sent"]
    peer.run("consume", namesrv=cluster.namesrv, topic=topic, group="G-java-traced", expect=3)
    events: list[TraceEvent] = [event for body in _bodies(cluster) for event in decode_trace(body)]
    for number, message_id in enumerate(ids):
        life = [event for event in events if event.message_id == message_id]
        assert [event.kind for event in life] == [TraceKind.PUB, TraceKind.SUB_BEFORE, TraceKind.SUB_AFTER]
        pub, before, after = life
        assert (pub.topic, pub.group, pub.keys) == (topic, "java_traced", f"key-m{number}")
        assert before.request_id == after.request_id
        assert (after.success, after.group) == (True, "G-java-traced")


def test_java_reads_our_traces(cluster: ServerCluster, peer: Peer) -> None:
    topic = _topic(cluster, "our-traces")
    before = len(_bodies(cluster))
    got: list[str] = []
    with rocketeer.Producer("PG-our", nameserver=cluster.namesrv, trace=True) as producer:
        plain = producer.send(rocketeer.Message(topic, b"plain", tags="TagA", keys=["k1", "k2"]))
        bare = producer.send(rocketeer.Message(topic, b"bare"))
    consumer = rocketeer.PushConsumer("G-our-traces", trace=True, **options(cluster))
    consumer.subscribe(topic, lambda message: got.append(message.message_id))
    with consumer:
        until_sync(lambda: len(got) == 2)
    body = b"".join(_bodies(cluster)[before:])
    told = [event for event in peer.run("decode", hex=body.hex()) if event["event"] == "trace"]
    ours = decode_trace(body)
    assert len(told) == len(ours) == 6
    for java, event in zip(told, ours, strict=True):
        assert (java["kind"], java["id"]) == (event.kind, event.message_id)
        assert java["group"] == event.group
        assert (java["keys"] or "null") == (event.keys or "null")
        if event.kind is TraceKind.PUB:
            assert (java["topic"], java["tags"]) == (topic, event.tags or "null")
            assert (java["time_ms"], java["cost_ms"]) == (event.time_ms, event.cost_ms)
            assert (java["store_host"], java["body_bytes"]) == (cluster.broker, event.body_bytes)
            assert (java["offset_id"], java["success"]) == (event.offset_message_id, True)
        else:
            assert java["request_id"] == event.request_id
    assert {java["id"] for java in told} == {plain.message_id, bare.message_id}
