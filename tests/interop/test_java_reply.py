"""Questions and answers between Apache's Java client and ours, through a real broker (`make interop`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import rocketeer
from rocketeer.bench.control import Control
from support.cluster import ServerCluster
from support.consuming import options
from support.peers import Peer, java_peer

pytestmark = pytest.mark.interop


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    peer = java_peer(tmp_path, "interop.RequestReply")
    yield peer
    peer.stop_all()


def _topic(cluster: ServerCluster, name: str) -> str:
    with Control(cluster.broker) as broker:
        broker.create_topic(name, queues=2)
    return name


@pytest.mark.parametrize("body_bytes", [0, 20_000], ids=["small", "compressed"])
def test_java_asks_and_we_answer(cluster: ServerCluster, peer: Peer, body_bytes: int) -> None:
    topic = _topic(cluster, f"java-asks-{body_bytes}")
    consumer = rocketeer.PushConsumer(f"G-{topic}", **options(cluster))
    with rocketeer.Producer("answering", nameserver=cluster.namesrv) as producer:

        @consumer.subscribe(topic)
        def answer(message: rocketeer.ReceivedMessage) -> None:
            producer.reply(message, b"we answer " + message.body)

        with consumer:
            events = peer.run("ask", namesrv=cluster.namesrv, topic=topic, count=5, body_bytes=body_bytes)
    answers = [event for event in events if event["event"] == "answer"]
    assert [event["body"] for event in answers] == [f"we answer q{number}" for number in range(5)]
    assert all(event["size"] == len("we answer q0") + body_bytes for event in answers)


def test_we_ask_and_java_answers(cluster: ServerCluster, peer: Peer) -> None:
    topic = _topic(cluster, "we-ask")
    answering = peer.start("answer", namesrv=cluster.namesrv, topic=topic, group="G-we-ask", expect=6)
    answering.wait_ready()
    with rocketeer.Producer("asking", nameserver=cluster.namesrv) as producer:
        large = "x" * 20_000
        for body in ("one", "two", "three", "four", "five", large):
            answer = producer.request(rocketeer.Message(topic, body.encode()), timeout_s=30)
            assert answer.text == f"java answers {body}"
    answering.finish()
    assert not answering.of("error")


def test_java_hears_that_nobody_answered(cluster: ServerCluster, peer: Peer) -> None:
    topic = _topic(cluster, "nobody-answers")
    events = peer.run("ask", namesrv=cluster.namesrv, topic=topic, count=1, timeout_ms=6000)
    assert [event["event"] for event in events] == ["timeout", "done"]
