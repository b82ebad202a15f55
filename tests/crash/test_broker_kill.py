"""kill -9 of the broker under load, again and again: what was acknowledged is there, nothing else is.

ROUNDS=100 .venv/bin/pytest tests/crash/test_broker_kill.py    is the long form; SEED=7 chooses other moments.
"""

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rocketeer.bench.control import Control
from rocketeer.bench.processes import ServerProcess
from rocketeer.protocol.codes import RequestCode
from support.cluster import ServerCluster, restart_broker, running_cluster
from support.senders import (
    Acked,
    Sender,
    assert_ledger_holds,
    key_of,
    query_by_key,
    read_queue,
    read_topic,
    wait_for,
)

ROUNDS = int(os.environ.get("ROUNDS", "3"))
SEED = int(os.environ.get("SEED", "1"))
QUEUES = 4
PLAIN, DELAYED, GROUP = "Plain", "Delayed", "CG"
KEYS_ASKED = 40

# Small files: a second of load fills several log files, queue files and index files.
SMALL = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 500 * 20,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 5000,
    "flushConsumeQueueThoroughInterval": 700,  # checkpoints all the time
    "flushConsumerOffsetInterval": 200,
}


@pytest.fixture(params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path, conf={**SMALL, "flushDiskType": request.param}) as running:
        with Control(running.broker) as broker:
            for topic in (PLAIN, DELAYED):
                broker.create_topic(topic, queues=QUEUES)
        yield running


@dataclass
class Ledger:
    """Everything all senders of all rounds did."""

    sent: set[bytes] = field(default_factory=set)
    acked: list[Acked] = field(default_factory=list)
    delayed_sent: set[bytes] = field(default_factory=set)
    delayed_acked: set[bytes] = field(default_factory=set)
    committed: list[int] = field(default_factory=lambda: [0])

    def add(self, sender: Sender) -> None:
        if sender.name.startswith("delayed"):
            self.delayed_sent.update(sender.sent)
            self.delayed_acked.update(ack.body for ack in sender.acked)
        else:
            self.sent.update(sender.sent)
            self.acked += sender.acked


@pytest.mark.timeout(60 + 40 * ROUNDS)
def test_what_was_acknowledged_survives_every_kill(cluster: ServerCluster) -> None:
    dice = random.Random(SEED)
    ledger = Ledger()
    for number in range(ROUNDS):
        senders = load(cluster, number)
        commit_while_it_runs(cluster, ledger, seconds=0.2 + dice.random())
        cluster.kill_broker()
        for sender in senders:
            sender.join(60)
            assert sender.lost_connection, f"{sender.name} did not notice"
            ledger.add(sender)
        if number % 2:
            kill_while_it_recovers(cluster, after_s=dice.random())
        cluster.start_broker()
        check(cluster, ledger, dice)
    assert len(ledger.acked) > 100 * ROUNDS, "the load was none"
    assert len(list((cluster.store / "commitlog").iterdir())) > 2, "no file was rolled"

    before = read_topic(cluster.broker, PLAIN, QUEUES)
    restart_broker(cluster)
    after = read_topic(cluster.broker, PLAIN, QUEUES)
    assert after == before, "a clean stop and start changes nothing"
    all_delayed_messages_arrive(cluster, ledger)


def load(cluster: ServerCluster, number: int) -> list[Sender]:
    """Five connections with many sends in flight; returns when each has had an answer."""
    common = {"queues": QUEUES, "seed": SEED}
    senders = [
        Sender(cluster.broker, PLAIN, name=f"plain-{number}-0", window=64, **common),
        Sender(cluster.broker, PLAIN, name=f"plain-{number}-1", window=8, **common),
        Sender(cluster.broker, PLAIN, name=f"tiny-{number}", window=64, body_bytes_max=1, **common),
        Sender(cluster.broker, PLAIN, name=f"batch-{number}", window=8, kind="batch", **common),
        Sender(cluster.broker, DELAYED, name=f"delayed-{number}", window=16, kind="delayed", **common),
    ]
    for sender in senders:
        sender.start()
    wait_for(
        lambda: all(sender.acked for sender in senders), what="answers on every connection", state=senders
    )
    return senders


def commit_while_it_runs(cluster: ServerCluster, ledger: Ledger, *, seconds: float) -> None:
    """A consumer that commits what it has read of queue 0, until the time is over."""
    until_s = time.monotonic() + seconds
    with Control(cluster.broker, timeout_s=60) as broker:
        while time.monotonic() < until_s:
            offset = broker.max_offset(PLAIN, 0)
            ledger.committed.append(offset)
            where = {"consumerGroup": GROUP, "topic": PLAIN, "queueId": "0"}
            broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, where | {"commitOffset": str(offset)})


def kill_while_it_recovers(cluster: ServerCluster, *, after_s: float) -> None:
    """Another start that does not get far."""
    process = ServerProcess(cluster.broker_process.command, log=cluster.folder / "killed-early.out")
    time.sleep(after_s)
    process.kill()


def check(cluster: ServerCluster, ledger: Ledger, dice: random.Random) -> None:
    queues = read_topic(cluster.broker, PLAIN, QUEUES)
    assert_ledger_holds(queues, sent=ledger.sent, acked=ledger.acked)
    with Control(cluster.broker, timeout_s=60) as broker:
        for queue_id, messages in enumerate(queues):
            assert broker.max_offset(PLAIN, queue_id) == len(messages)
        where = {"consumerGroup": GROUP, "topic": PLAIN, "queueId": "0"}
        consumed = int(broker.ask(RequestCode.QUERY_CONSUMER_OFFSET, where).ext["offset"])
        assert consumed in ledger.committed, "an offset somebody committed, if not the last one"
        assert consumed <= len(queues[0])
        for ack in dice.sample(ledger.acked, min(KEYS_ASKED, len(ledger.acked))):
            found = query_by_key(broker, PLAIN, key_of(ack.body))
            assert [message.body for message in found] == [ack.body]


def all_delayed_messages_arrive(cluster: ServerCluster, ledger: Ledger) -> None:
    """Each once, also those whose delivery was not yet noted when the broker died."""
    arrived: set[bytes] = set()
    offsets = [0] * QUEUES

    def complete() -> bool:
        with Control(cluster.broker, timeout_s=60) as broker:
            for queue_id in range(QUEUES):
                messages = read_queue(broker, DELAYED, queue_id, offsets[queue_id])
                assert [message.queue_offset for message in messages] == list(
                    range(offsets[queue_id], offsets[queue_id] + len(messages))
                )
                offsets[queue_id] += len(messages)
                bodies = {message.body for message in messages}
                assert len(bodies) == len(messages), "delivered twice"
                assert not bodies & arrived, "delivered twice"
                arrived.update(bodies)
        return ledger.delayed_acked <= arrived

    wait_for(complete, what="all delayed messages")
    assert arrived <= ledger.delayed_sent, "messages nobody sent"
