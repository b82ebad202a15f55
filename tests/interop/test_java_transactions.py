"""Apache's TransactionMQProducer against a real broker process, alone and as a mate of ours (`make interop`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer import ROLLBACK, UNKNOWN, Message, ReceivedMessage, TransactionProducer, TransactionState
from support.cluster import ServerCluster, chosen_make, running_cluster
from support.peers import Peer, java_peer
from support.senders import read_topic, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

CONF = {"transactionTimeOut": 1000, "transactionCheckInterval": 1000, "transactionCheckMax": 5}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), peer=chosen_make(), conf=CONF) as running:
        yield running


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    peer = java_peer(tmp_path, "interop.Transactions")
    yield peer
    peer.stop_all()


def bodies(cluster: ServerCluster, topic: str) -> list[str]:
    return sorted(message.body.decode() for queue in read_topic(cluster.broker, topic) for message in queue)


def wait_for_bodies(cluster: ServerCluster, topic: str, expected: list[str]) -> None:
    wait_for(
        lambda: len(bodies(cluster, topic)) >= len(expected), timeout_s=40, what=f"{expected} in {topic}"
    )
    assert bodies(cluster, topic) == sorted(expected)


def test_java_commits_rolls_back_and_is_asked(cluster: ServerCluster, peer: Peer) -> None:
    topic = "JavaTx"
    java = peer.start(
        "send", namesrv=cluster.namesrv, topic=topic, group="PG_java", count=8, seconds=20,
        local="commit,rollback,unknown,raise", check="raise,raise,commit,rollback,raise,raise,rollback,commit",
    )  # fmt: skip
    java.wait_for(lambda: len(java.of("check")) >= 4, timeout_s=60, what="four questions")
    wait_for_bodies(cluster, topic, ["m0", "m2", "m4", "m7"])
    assert {event["body"] for event in java.of("check")} == {"m2", "m3", "m6", "m7"}
    assert {event["topic"] for event in java.of("check")} == {topic}
    assert [event["state"] for event in java.of("sent")][:4] == [
        "COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW", "UNKNOW",
    ]  # fmt: skip
    assert {event["status"] for event in java.of("sent")} == {"SEND_OK"}
    java.kill()


def test_java_answers_for_a_mate_of_ours_that_died(cluster: ServerCluster, peer: Peer) -> None:
    topic, group = "JavaMate", "PG_mates"
    java = peer.start(
        "wait", namesrv=cluster.namesrv, topic=topic, group=group, seconds=60, check="commit,rollback"
    )
    java.wait_ready()
    with TransactionProducer(group, nameserver=cluster.namesrv, check=lambda m: UNKNOWN) as ours:
        for number in range(4):
            ours.send_in_transaction(Message(topic, f"m{number}".encode()), lambda t: UNKNOWN)
    wait_for_bodies(cluster, topic, ["m0", "m2"])
    java.wait_for(
        lambda: {event["body"] for event in java.of("check")} == {"m0", "m1", "m2", "m3"},
        timeout_s=40,
        what="all were asked",
    )


def test_ours_answers_for_java(cluster: ServerCluster, peer: Peer) -> None:
    topic, group = "OurMate", "PG_mates2"
    asked: list[str] = []

    def check(message: ReceivedMessage) -> TransactionState | object:
        asked.append(message.text)
        return TransactionState.COMMIT if message.text == "m1" else ROLLBACK

    java = peer.start(
        "send", namesrv=cluster.namesrv, topic=topic, group=group, count=3, local="unknown", check="unknown"
    )
    with TransactionProducer(group, nameserver=cluster.namesrv, check=check, topics=[topic]):  # type: ignore[arg-type]
        java.finish()
        wait_for_bodies(cluster, topic, ["m1"])
        wait_for(lambda: set(asked) == {"m0", "m1", "m2"}, what="all were asked")


def test_a_delay_is_dropped_and_immunity_kept(cluster: ServerCluster, peer: Peer) -> None:
    topic = "JavaImmune"
    peer.run("send", namesrv=cluster.namesrv, topic=topic, group="PG_delay", delay_level=18, local="commit")
    wait_for_bodies(cluster, topic, ["m0"])
    java = peer.start(
        "send",
        namesrv=cluster.namesrv,
        topic=topic,
        group="PG_immune",
        local="unknown",
        immune_s=3,
        seconds=20,
    )
    java.wait_for(lambda: bool(java.of("check")), timeout_s=40, what="it is asked in the end")
    wait_for_bodies(cluster, topic, ["m0", "m0"])
