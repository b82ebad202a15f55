"""kill -9 under idempotent producers of delayed, timed and transactional messages: each is delivered exactly once.

ROUNDS=30 .venv/bin/pytest tests/crash/test_idempotent_kinds_kill.py    is the long form; SEED=7 chooses other moments.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer import COMMIT, ROLLBACK, Message, ReceivedMessage, Transaction, aio
from rocketeer.bench.control import Control
from rocketeer.client.core.transactions import Verdict
from support.cluster import ServerCluster, running_cluster
from support.senders import read_topic, wait_for

ROUNDS = int(os.environ.get("ROUNDS", "3"))
SEED = int(os.environ.get("SEED", "1"))
TOPIC = "Kinds"
WORKERS = 6
CONF = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 500 * 20,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 5000,
    "messageDelayLevel": "1s",
    "flushConsumerOffsetInterval": 300,
    "timerFlushIntervalMs": 100,
    "transactionTimeOut": 700,
    "transactionCheckInterval": 200,
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path, conf=CONF) as running:
        with Control(running.broker) as broker:
            broker.create_topic(TOPIC, queues=4)
        yield running


def verdict_on(body: bytes) -> Verdict:
    return ROLLBACK if body.startswith(b"no") else COMMIT


def check(message: ReceivedMessage) -> Verdict:
    return verdict_on(message.body)


async def local(transaction: Transaction) -> Verdict:
    return verdict_on(transaction.message.body)


class Work:
    """What was sent and acknowledged."""

    def __init__(self) -> None:
        self.sent: set[bytes] = set()
        self.acked: set[bytes] = set()
        self.ending = asyncio.Event()

    async def run(self, producer: aio.TransactionProducer, worker: int) -> None:
        number = 0
        while not self.ending.is_set():
            name = b"%d-%d" % (worker, number)
            kind = number % 5
            number += 1
            if kind == 0:
                await self._send(producer, Message(TOPIC, b"level " + name, delay_level=1))
            elif kind == 1:
                await self._send(producer, Message(TOPIC, b"timed " + name, delay=0.7))
            elif kind == 2:
                own_id = {"DEDUP_ID": name.decode()}
                await self._send(producer, Message(TOPIC, b"id " + name, delay=0.5, properties=own_id))
            else:
                body = (b"yes " if kind == 3 else b"no ") + name
                self.sent.add(body)
                await producer.send_in_transaction(Message(TOPIC, body), local)
                self.acked.add(body)

    async def _send(self, producer: aio.TransactionProducer, message: Message) -> None:
        self.sent.add(message.body)
        await producer.send(message)
        self.acked.add(message.body)

    async def restarts(self, cluster: ServerCluster) -> None:
        dice = random.Random(SEED)
        try:
            for _ in range(ROUNDS):
                before = len(self.acked)
                async with asyncio.timeout(60):
                    while len(self.acked) < before + 30:  # noqa: ASYNC110 it is answers that are waited for
                        await asyncio.sleep(0.01)
                await asyncio.sleep(dice.random() / 2)
                cluster.kill_broker()
                await asyncio.to_thread(cluster.start_broker)
        finally:
            self.ending.set()


@pytest.mark.timeout(120 + 40 * ROUNDS)
async def test_whatever_kind_it_is_it_is_delivered_once(cluster: ServerCluster) -> None:
    work = Work()
    async with aio.TransactionProducer(
        "PG_kinds", nameserver=cluster.namesrv, check=check, topics=[TOPIC], idempotent=True, heartbeat_s=0.3,
        send_timeout_s=120,
    ) as producer:  # fmt: skip
        await asyncio.gather(
            work.restarts(cluster), *(work.run(producer, worker) for worker in range(WORKERS))
        )
        wanted = {body for body in work.acked if not body.startswith(b"no")}
        found: Counter[bytes] = Counter()

        def complete() -> bool:
            found.clear()
            found.update(message.body for queue in read_topic(cluster.broker, TOPIC) for message in queue)
            return wanted <= set(found)

        await asyncio.to_thread(wait_for, complete, what="all that was acknowledged")
    doubled = [body for body, count in found.items() if count > 1]
    assert not doubled, f"{len(doubled)} delivered twice: {doubled[:3]}"
    assert not [body for body in found if body.startswith(b"no") or body not in work.sent]
    assert {body.split()[0] for body in found} == {b"level", b"timed", b"id", b"yes"}
    assert len(work.acked) > 30 * ROUNDS, "the load was none"
