"""SQL92 filters between Apache's Java client and our broker, one group of both clients, and stores with filter bits.

Our clients against Apache's broker with enablePropertyFilter: ROCKETEER_PEER=apache pytest tests/client/test_sql.py
"""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer.aio import Message, Producer, PullConsumer
from rocketeer.bench.servers import Make, ServerCluster
from rocketeer.model.queue import MessageQueue
from support.cluster import TEST_CONF, chosen_make, running_cluster
from support.consuming import make_topic
from support.peers import Peer, java_peer

pytestmark = pytest.mark.interop

FILTERED = {"enablePropertyFilter": "true", "enableConsumeQueueExt": "true", "enableCalcFilterBitMap": "true"}
WANTED = "a > 5 AND color IN ('red', 'blue') AND b IS NOT NULL"


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    peer = java_peer(tmp_path)
    yield peer
    peer.stop_all()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path_factory.mktemp("c"), peer=chosen_make(), conf=FILTERED) as running:
        yield running


async def send(cluster: ServerCluster, topic: str, count: int) -> list[str]:
    """Messages of which some match WANTED: the names of those."""
    wanted = []
    async with Producer("senders", nameserver=cluster.namesrv) as producer:
        for number in range(count):
            properties = {"a": str(number % 10), "color": ("red", "green", "blue")[number % 3]}
            if number % 2:
                properties["b"] = "x"
            if number % 10 > 5 and number % 3 != 1 and number % 2:
                wanted.append(f"m{number}")
            await producer.send(Message(topic, f"m{number}".encode(), properties=properties))
    return sorted(wanted)


def test_a_java_consumer_gets_what_its_expression_wants(cluster: ServerCluster, peer: Peer) -> None:
    make_topic(cluster, "JavaSql")
    wanted = asyncio.run(send(cluster, "JavaSql", 60))
    consumer = peer.start(
        "consume",
        namesrv=cluster.namesrv,
        topic="JavaSql",
        group="java_sql",
        sql=WANTED,
        expect=2 * len(wanted),
    )
    consumer.wait_ready()
    consumer.wait_for(lambda: len(consumer.bodies()) >= len(wanted), timeout_s=30, what="all that match")
    assert sorted(consumer.bodies()) == wanted
    asyncio.run(send(cluster, "JavaSql", 60))  # now that the group is known its bits are computed
    consumer.wait_for(lambda: len(consumer.bodies()) >= 2 * len(wanted), timeout_s=30, what="the new ones")
    assert sorted(consumer.bodies()) == sorted(wanted * 2)


def test_a_java_consumer_with_a_bad_expression_does_not_start(cluster: ServerCluster, peer: Peer) -> None:
    make_topic(cluster, "JavaBad")
    asyncio.run(send(cluster, "JavaBad", 1))
    consumer = peer.start(
        "consume", namesrv=cluster.namesrv, topic="JavaBad", group="java_bad", sql="a > > 5"
    )
    consumer.wait_for(lambda: bool(consumer.of("error")), timeout_s=30, what="the refusal")
    (error,) = consumer.of("error")
    assert "CODE: 23" in error["text"]
    if cluster.make == "ours":
        assert "position 5" in error["text"]


def test_a_message_the_java_consumer_refused_comes_again(cluster: ServerCluster, peer: Peer) -> None:
    make_topic(cluster, "JavaRetry", queues=1)
    wanted = asyncio.run(send(cluster, "JavaRetry", 20))
    options = {"namesrv": cluster.namesrv, "topic": "JavaRetry", "group": "java_retry", "sql": WANTED}
    consumer = peer.start("consume", **options, fail_first=True, expect=len(wanted))
    consumer.wait_for(lambda: len(consumer.bodies()) >= len(wanted), timeout_s=40, what="all again")
    assert sorted(consumer.bodies("refused")) == wanted
    assert sorted(consumer.bodies()) == wanted


async def _matching(cluster: ServerCluster, topic: str) -> list[str]:
    async with PullConsumer("moved", nameserver=cluster.namesrv) as consumer:
        queue = MessageQueue(topic, "broker-a", 0)
        return sorted([message.text async for message in consumer.read(queue, sql=WANTED)])


@pytest.mark.parametrize(("first", "second"), [("ours", "apache"), ("apache", "ours")])
def test_a_store_with_units_and_filters_moves_to_the_other_broker_and_goes_on(
    tmp_path: Path, peer: Peer, first: Make, second: Make
) -> None:
    topic, group = "Moves", "moving"
    with running_cluster(tmp_path / first, peer=first, conf=FILTERED) as cluster:
        make_topic(cluster, topic, queues=1)
        waiting = peer.start(
            "consume", namesrv=cluster.namesrv, topic=topic, group=group, sql=WANTED, expect=1
        )
        waiting.wait_ready()
        wanted = asyncio.run(send(cluster, topic, 100))
        waiting.wait_for(lambda: len(waiting.bodies()) >= 1, timeout_s=30, what="a message")
        waiting.kill()
        assert asyncio.run(_matching(cluster, topic)) == wanted
    (tmp_path / second).mkdir()
    shutil.copytree(tmp_path / first / "store", tmp_path / second / "store")
    with running_cluster(tmp_path / second, peer=second, conf={**TEST_CONF, **FILTERED}) as cluster:
        assert asyncio.run(_matching(cluster, topic)) == wanted
        asyncio.run(send(cluster, topic, 100))
        assert asyncio.run(_matching(cluster, topic)) == sorted(wanted * 2)
        consumer = peer.start(
            "consume", namesrv=cluster.namesrv, topic=topic, group=group, sql=WANTED, expect=len(wanted)
        )
        consumer.wait_for(lambda: len(consumer.bodies()) >= len(wanted), timeout_s=30, what="those sent here")
        assert set(consumer.bodies()) <= set(wanted)
