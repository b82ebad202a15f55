"""kill -9 of the broker under load of idempotent producers that send again until they are answered.

ROUNDS=50 .venv/bin/pytest tests/crash/test_idempotent_kill.py    is the long form; SEED=7 chooses other moments.
"""

import asyncio
import os
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer import Message, Producer, aio
from rocketeer.bench.control import Control
from support.cluster import ServerCluster, running_cluster
from support.senders import read_topic

ROUNDS = int(os.environ.get("ROUNDS", "3"))
SEED = int(os.environ.get("SEED", "1"))
QUEUES = 4
TOPIC = "Exactly"
WORKERS = 6
SMALL = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 500 * 20,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 5000,
    "flushConsumeQueueThoroughInterval": 700,
}


@pytest.fixture(params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path, conf={**SMALL, "flushDiskType": request.param}) as running:
        with Control(running.broker) as broker:
            broker.create_topic(TOPIC, queues=QUEUES)
        yield running


class Ledger:
    """What was sent and acknowledged, by worker."""

    def __init__(self) -> None:
        self.sent: set[bytes] = set()
        self.acked: list[bytes] = []
        self.stop = threading.Event()

    def next_messages(self, worker: str, number: int) -> Message | list[Message]:
        """One message; every fifth time a batch; every seventh time one with an id of its own."""
        bodies = [
            b"%s-%06d" % (worker.encode(), 10 * number + item) for item in range(3 if number % 5 == 0 else 1)
        ]
        self.sent.update(bodies)
        properties = {"DEDUP_ID": f"{worker}-{number}"} if number % 7 == 0 and number % 5 else {}
        messages = [Message(TOPIC, body, properties=properties) for body in bodies]
        return messages if len(messages) > 1 else messages[0]

    def note(self, message: Message | list[Message]) -> None:
        self.acked += [each.body for each in (message if isinstance(message, list) else [message])]


async def work(producer: aio.Producer, worker: str, ledger: Ledger) -> None:
    number = 0
    while not ledger.stop.is_set():
        message = ledger.next_messages(worker, number)
        await producer.send(message)
        ledger.note(message)
        number += 1


def work_in_threads(cluster: ServerCluster, ledger: Ledger) -> None:
    with Producer("sync", nameserver=cluster.namesrv, idempotent=True, send_timeout_s=120) as producer:

        def run(worker: str) -> None:
            number = 0
            while not ledger.stop.is_set():
                message = ledger.next_messages(worker, number)
                producer.send(message)
                ledger.note(message)
                number += 1

        threads = [threading.Thread(target=run, args=(f"sync{number}",)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(180)
            assert not thread.is_alive()


async def restarts(cluster: ServerCluster, ledger: Ledger, dice: random.Random) -> None:
    for number in range(ROUNDS):
        before = len(ledger.acked)
        for _ in range(1200):
            if len(ledger.acked) > before + 50:
                break
            await asyncio.sleep(0.05)
        assert len(ledger.acked) > before, "nothing is acknowledged any more"
        await asyncio.sleep(dice.random() / 2)
        if number % 3 == 2:
            await asyncio.to_thread(cluster.stop_broker)
        else:
            cluster.kill_broker()
        await asyncio.sleep(dice.random() / 5)
        await asyncio.to_thread(cluster.start_broker)
    ledger.stop.set()


@pytest.mark.timeout(120 + 40 * ROUNDS)
async def test_everything_acknowledged_is_there_exactly_once_and_in_order(cluster: ServerCluster) -> None:
    ledger = Ledger()
    threads = asyncio.create_task(asyncio.to_thread(work_in_threads, cluster, ledger))
    try:
        async with aio.Producer(
            "aio", nameserver=cluster.namesrv, idempotent=True, send_timeout_s=120
        ) as producer:
            await asyncio.gather(
                restarts(cluster, ledger, random.Random(SEED)),
                *(work(producer, f"aio{number}", ledger) for number in range(WORKERS)),
            )
    finally:
        ledger.stop.set()
        await threads
    check(cluster, ledger)


def check(cluster: ServerCluster, ledger: Ledger) -> None:
    queues = read_topic(cluster.broker, TOPIC, QUEUES)
    stored = Counter(message.body for queue in queues for message in queue)
    doubled = [body for body, count in stored.items() if count > 1]
    assert not doubled, f"{len(doubled)} stored twice: {doubled[:3]}"
    lost = set(ledger.acked) - set(stored)
    assert not lost, f"{len(lost)} of {len(ledger.acked)} lost: {sorted(lost)[:3]}"
    assert set(stored) <= ledger.sent
    for queue in queues:
        lanes: dict[str, list[int]] = defaultdict(list)
        workers: dict[bytes, list[bytes]] = defaultdict(list)
        for message in queue:
            properties = message.properties_dict()
            workers[message.body.split(b"-")[0]].append(message.body)
            if "PRODUCER_SEQ" in properties:
                lanes[properties["PRODUCER_ID"]].append(int(properties["PRODUCER_SEQ"]))
        assert len(lanes) == 2, "both producers, each under one name all the time"
        for numbers in lanes.values():
            assert numbers == list(range(len(numbers)))
        for bodies in workers.values():
            assert bodies == sorted(bodies)
