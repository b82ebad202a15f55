"""Java members and ours in one group: they compute the same allocation, and nothing is lost while they come and go."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator

import pytest

from rocketeer.aio import Message, Producer
from rocketeer.client.aio.push_consumer import PushConsumer
from rocketeer.client.core.allocate import Averagely
from rocketeer.client.core.rebalance import share_of
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.plans.groups import consumer_ids
from rocketeer.model.queue import MessageQueue
from support.cluster import ServerCluster
from support.consuming import make_topic, options, until
from support.peers import Peer, Running, java_peer

QUEUES = 8


@pytest.fixture
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    peer = java_peer(tmp_path_factory.mktemp("java"))
    yield peer
    peer.stop_all()


class Member:
    """One of ours; keeps what it got as (queue id, text)."""

    def __init__(self, cluster: ServerCluster, topic: str) -> None:
        self.topic = topic
        self.got: list[tuple[int, str]] = []
        self.consumer = PushConsumer(f"G-{topic}", **options(cluster))
        self.consumer.subscribe(topic, self._listen)

    def _listen(self, message: ReceivedMessage) -> None:
        self.got.append((message.queue_id, message.text))

    @property
    def queues(self) -> set[MessageQueue]:
        return {queue for queue in self.consumer.queues if queue.topic == self.topic}

    async def start(self) -> "Member":
        await self.consumer.start()
        return self

    async def ids(self) -> list[str]:
        """The members as the broker knows them."""
        instance = self.consumer._running.instance  # type: ignore[union-attr]
        address = instance.routes.master("broker-a")
        assert address is not None
        return await instance.run(consumer_ids(address, self.consumer.config.group, 3))


def got_by_java(peer: Running) -> list[tuple[int, str]]:
    return [(event["queue"], event["body"]) for event in peer.of("message")]


def start_java(java: Peer, cluster: ServerCluster, topic: str, *, expect: int = 1_000_000) -> Running:
    return java.start(
        "consume", namesrv=cluster.namesrv, topic=topic, group=f"G-{topic}", expect=expect, seconds=100
    )


async def test_java_and_ours_compute_the_same_allocation(
    cluster: ServerCluster, topic: str, java: Peer
) -> None:
    queues = make_topic(cluster, topic, QUEUES)
    ours = [await Member(cluster, topic).start() for _ in range(2)]
    theirs = [start_java(java, cluster, topic) for _ in range(2)]
    for peer in theirs:
        await asyncio.to_thread(peer.wait_ready)

    def texts(prefix: str) -> dict[str, list[tuple[int, str]]]:
        """What each member got of one round, by its client id."""
        by_member = {member.consumer.client_id: member.got for member in ours} | {
            next(each for each in ids if each.endswith(f"@{peer.pid}")): got_by_java(peer) for peer in theirs
        }
        return {
            each: [(queue, text) for queue, text in got if text.startswith(prefix)]
            for each, got in by_member.items()
        }

    try:
        async with Producer("senders", nameserver=cluster.namesrv) as producer:
            for number in itertools.count():
                ids = await ours[0].ids()
                assert number < 200, f"no agreement: members {ids}"
                if len(ids) < 4:
                    await asyncio.sleep(0.1)
                    continue
                expected = {
                    each: {queue.queue_id for queue in share_of(each, queues, ids, Averagely())}
                    for each in ids
                }
                for queue in queues:
                    await producer.send(Message(topic, f"probe{number}-".encode()), queue=queue)
                await until(lambda n=number: sum(map(len, texts(f"probe{n}-").values())) >= QUEUES)  # type: ignore[misc]
                held = {each: {queue for queue, _ in got} for each, got in texts(f"probe{number}-").items()}
                if held == expected:
                    break
                await asyncio.sleep(0.1)  # Java looks again within a second
            for number in range(10 * QUEUES):
                await producer.send(Message(topic, f"last-{number}".encode()), queue=queues[number % QUEUES])
            await until(lambda: sum(map(len, texts("last-").values())) >= 10 * QUEUES)
        for each, got in texts("last-").items():
            assert {queue for queue, _ in got} == expected[each], "each member its own share, and all of it"
            assert len(got) == 10 * len(expected[each]), "nothing twice"
    finally:
        for member in ours:
            await member.consumer.close()


async def test_nothing_is_lost_while_members_come_and_go(
    cluster: ServerCluster, topic: str, java: Peer
) -> None:
    make_topic(cluster, topic, QUEUES)
    members = [await Member(cluster, topic).start()]
    peers: list[Running] = []
    sent: list[str] = []
    over = asyncio.Event()

    def received() -> Counter[str]:
        ours = [text for member in members for _, text in member.got]
        return Counter(ours + [text for peer in peers for _, text in got_by_java(peer)])

    async def keep_sending() -> None:
        async with Producer("senders", nameserver=cluster.namesrv) as producer:
            while not over.is_set():
                name = f"m{len(sent)}"
                await producer.send(Message(topic, name.encode()))
                sent.append(name)
                await asyncio.sleep(0.005)

    sending = asyncio.create_task(keep_sending())
    try:
        stays = start_java(java, cluster, topic)
        leaves = start_java(java, cluster, topic, expect=40)
        peers += [stays, leaves]
        members.append(await Member(cluster, topic).start())
        await until(lambda: bool(leaves.of("done")), "a Java member had its share and left cleanly")
        await until(lambda: bool(stays.of("message")), "the other one has its share, too")
        await members[0].consumer.close()
        await until(lambda: 0 < len(members[1].queues) < QUEUES, "Java and ours share what ours let go")
        members.append(await Member(cluster, topic).start())
        java.stop_all()  # kill -9: what it had not committed comes again, to somebody else
        await until(lambda: len(members[1].queues) + len(members[2].queues) == QUEUES)
        assert not members[1].queues & members[2].queues
        over.set()
        await sending
        await until(lambda: set(received()) == set(sent), "every message that was sent")
    finally:
        over.set()
        await sending
        for member in members:
            await member.consumer.close()
