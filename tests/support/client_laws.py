"""What every client must see, whatever its language; each law takes a running cluster and a peer.

The laws were proven on Apache RocketMQ's own broker (`ROCKETEER_PEER=apache`).
"""

import itertools
from collections import defaultdict
from collections.abc import Callable

from rocketeer.bench.control import Control
from support.cluster import ServerCluster, restart_broker
from support.peers import Peer

Law = Callable[[ServerCluster, Peer], None]

_numbers = itertools.count(1)
_QUEUES = 4


def _fresh(cluster: ServerCluster, peer: Peer, subject: str, *, create: bool = True) -> tuple[str, str]:
    """A topic and a group that no other law uses."""
    number = next(_numbers)
    topic = f"{subject}-{peer.name}-{number}"
    if create:  # not every client asks for automatic creation
        with Control(cluster.broker) as broker:
            broker.create_topic(topic, queues=_QUEUES)
    return topic, f"G-{subject}-{peer.name}-{number}"


def _names(count: int, prefix: str = "m") -> set[str]:
    return {f"{prefix}{number}" for number in range(count)}


def everything_sent_is_received_once(cluster: ServerCluster, peer: Peer) -> None:
    topic, group = _fresh(cluster, peer, "plain")
    sent = peer.run("send", namesrv=cluster.namesrv, topic=topic, count=20, tags="TagA")
    assert sum(event["event"] == "sent" for event in sent) == 20

    consumer = peer.start("consume", namesrv=cluster.namesrv, topic=topic, group=group, expect=20)
    consumer.finish()

    assert sorted(consumer.bodies()) == sorted(_names(20)), "each once"
    for event in consumer.of("message"):
        assert event["topic"] == topic
        assert event["tags"] == "TagA"
        assert event["keys"].strip() == f"key-{event['body']}"


def a_waiting_consumer_gets_messages_as_they_come(cluster: ServerCluster, peer: Peer) -> None:
    topic, group = _fresh(cluster, peer, "waiting")
    consumer = peer.start("consume", namesrv=cluster.namesrv, topic=topic, group=group, expect=8).wait_ready()
    peer.run("send", namesrv=cluster.namesrv, topic=topic, count=8)
    consumer.finish()
    assert set(consumer.bodies()) == _names(8)


def a_group_goes_on_where_it_stopped(cluster: ServerCluster, peer: Peer) -> None:
    topic, group = _fresh(cluster, peer, "offsets")
    peer.run("send", namesrv=cluster.namesrv, topic=topic, count=6, prefix="a")
    peer.start("consume", namesrv=cluster.namesrv, topic=topic, group=group, expect=6).finish()
    peer.run("send", namesrv=cluster.namesrv, topic=topic, count=6, prefix="b")
    second = peer.start("consume", namesrv=cluster.namesrv, topic=topic, group=group, expect=6)
    second.finish()
    assert set(second.bodies()) == _names(6, "b")


def only_messages_with_a_subscribed_tag_arrive(cluster: ServerCluster, peer: Peer) -> None:
    topic, group = _fresh(cluster, peer, "tags")
    peer.run("send", namesrv=cluster.namesrv, topic=topic, count=12, tags="TagA,TagB,TagC")
    consumer = peer.start(
        "consume", namesrv=cluster.namesrv, topic=topic, group=group, expression="TagA || TagC", expect=8
    )
    consumer.finish()
    assert set(consumer.bodies()) == {f"m{number}" for number in range(12) if number % 3 != 1}
    assert {event["tags"] for event in consumer.of("message")} == {"TagA", "TagC"}


def a_refused_message_comes_again(cluster: ServerCluster, peer: Peer) -> None:
    topic, group = _fresh(cluster, peer, "retry")
    peer.run("send", namesrv=cluster.namesrv, topic=topic, count=3, tags="TagA")
    consumer = peer.start(
        "consume", namesrv=cluster.namesrv, topic=topic, group=group, expect=3, fail_first=True, seconds=60
    )
    consumer.finish(timeout_s=80)
    assert set(consumer.bodies("refused")) == _names(3)
    assert set(consumer.bodies()) == _names(3)
    for event in consumer.of("message"):
        assert event["topic"] == topic, "clients show the original topic, not %RETRY%"
        assert event.get("reconsume_times", 1) == 1


def a_large_body_comes_back_whole(cluster: ServerCluster, peer: Peer) -> None:
    """Clients compress bodies over 4 KiB; the broker keeps them as they are, the receiver opens them."""
    topic, group = _fresh(cluster, peer, "large")
    peer.run("send", namesrv=cluster.namesrv, topic=topic, count=2, body_bytes=100_000)
    consumer = peer.start("consume", namesrv=cluster.namesrv, topic=topic, group=group, expect=2)
    consumer.finish()
    assert [event["size"] for event in consumer.of("message")] == [100_000, 100_000]


def a_topic_is_created_by_the_first_send(cluster: ServerCluster, peer: Peer) -> None:
    topic, group = _fresh(cluster, peer, "created", create=False)
    peer.run("send", namesrv=cluster.namesrv, topic=topic, count=4)
    with Control(cluster.broker) as broker:
        assert topic in broker.topics()
    consumer = peer.start("consume", namesrv=cluster.namesrv, topic=topic, group=group, expect=4)
    consumer.finish()
    assert set(consumer.bodies()) == _names(4)


def order_within_a_queue_is_kept(cluster: ServerCluster, peer: Peer) -> None:
    topic, group = _fresh(cluster, peer, "order")
    peer.run("ordered", namesrv=cluster.namesrv, topic=topic, count=20)
    consumer = peer.start(
        "consume", namesrv=cluster.namesrv, topic=topic, group=group, expect=20, orderly=True, seconds=60
    )
    consumer.finish(timeout_s=80)
    by_queue: dict[int, list[int]] = defaultdict(list)
    for event in consumer.of("message"):
        by_queue[event["queue"]].append(int(event["body"][1:]))
    assert len(by_queue) == 2, "the selector used two queues"
    for numbers in by_queue.values():
        assert numbers == sorted(numbers)


def a_pull_consumer_reads_from_the_start(cluster: ServerCluster, peer: Peer) -> None:
    topic, group = _fresh(cluster, peer, "pull")
    peer.run("send", namesrv=cluster.namesrv, topic=topic, count=10)
    consumer = peer.start("pull", namesrv=cluster.namesrv, topic=topic, group=group, expect=10)
    consumer.finish()
    assert set(consumer.bodies()) == _names(10)


def a_delayed_message_waits(cluster: ServerCluster, peer: Peer) -> None:
    topic, group = _fresh(cluster, peer, "delay")
    peer.run("send", namesrv=cluster.namesrv, topic=topic, count=2, delay_level=2)
    consumer = peer.start("consume", namesrv=cluster.namesrv, topic=topic, group=group, expect=2)
    consumer.finish()
    assert set(consumer.bodies()) == _names(2)
    assert {event["topic"] for event in consumer.of("message")} == {topic}


def a_batch_arrives_as_single_messages(cluster: ServerCluster, peer: Peer) -> None:
    topic, group = _fresh(cluster, peer, "batch")
    peer.run("send", namesrv=cluster.namesrv, topic=topic, count=8, batch=True)
    consumer = peer.start("consume", namesrv=cluster.namesrv, topic=topic, group=group, expect=8)
    consumer.finish()
    assert set(consumer.bodies()) == _names(8)


def a_restart_loses_nothing(cluster: ServerCluster, peer: Peer, *, kill: bool) -> None:
    """Sent before, received after; and a consumer that was connected all the time gets what is sent after."""
    topic, group = _fresh(cluster, peer, "restart")
    with Control(cluster.broker) as broker:  # the group exists before the broker goes
        assert topic in broker.topics()
    peer.run("send", namesrv=cluster.namesrv, topic=topic, count=6, prefix="before")
    steady = peer.start(
        "consume", namesrv=cluster.namesrv, topic=topic, group=f"{group}-steady", expect=12, seconds=90
    ).wait_ready()
    steady.wait_for(
        lambda: set(steady.bodies()) >= _names(6, "before"), timeout_s=40, what="the messages from before"
    )

    restart_broker(cluster, kill=kill)

    peer.run("send", namesrv=cluster.namesrv, topic=topic, count=6, prefix="after")
    everything = _names(6, "before") | _names(6, "after")
    late = peer.start(
        "consume", namesrv=cluster.namesrv, topic=topic, group=f"{group}-late", expect=12, seconds=60
    )
    late.finish(timeout_s=80)
    assert set(late.bodies()) == everything
    steady.finish(timeout_s=110)
    assert set(steady.bodies()) == everything


def the_vip_port_serves(cluster: ServerCluster, peer: Peer) -> None:
    """Old clients send to the listen port less 2 unless told otherwise."""
    topic, group = _fresh(cluster, peer, "vip")
    peer.run("send", namesrv=cluster.namesrv, topic=topic, count=4, vip="true")
    consumer = peer.start("consume", namesrv=cluster.namesrv, topic=topic, group=group, expect=4, vip="true")
    consumer.finish()
    assert set(consumer.bodies()) == _names(4)


EVERY_CLIENT: tuple[Law, ...] = (
    everything_sent_is_received_once,
    a_waiting_consumer_gets_messages_as_they_come,
    a_group_goes_on_where_it_stopped,
    only_messages_with_a_subscribed_tag_arrive,
    a_refused_message_comes_again,
    a_large_body_comes_back_whole,
)
"""What every client is held to."""
FULL_CLIENT: tuple[Law, ...] = (
    *EVERY_CLIENT,
    a_topic_is_created_by_the_first_send,
    order_within_a_queue_is_kept,
    a_pull_consumer_reads_from_the_start,
    a_delayed_message_waits,
)
"""Of those that can also make topics, choose queues, pull and delay."""
