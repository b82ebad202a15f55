"""kill -9 of the broker while timed messages are sent, delivered, recalled and noted on disk: each comes once.

ROUNDS=30 .venv/bin/pytest tests/crash/test_timer_kill.py    is the long form; SEED=7 chooses other moments.
"""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rocketeer.bench.control import Control
from rocketeer.bench.processes import ServerProcess
from rocketeer.errors import RemotingError
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command
from support.cluster import ServerCluster, restart_broker, running_cluster
from support.senders import Sender, key_of, read_topic, send_header, wait_for

ROUNDS = int(os.environ.get("ROUNDS", "3"))
SEED = int(os.environ.get("SEED", "1"))
QUEUES = 4
TOPIC = "Timed"
DELAY_MS_MAX = 3_000
SNAPSHOT = Path("timer") / "pending"

SMALL = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 500 * 20,
    "flushConsumeQueueThoroughInterval": 700,
    "flushIntervalCommitLog": 50,
    "timerFlushIntervalMs": 50,  # snapshots all the time
}


@pytest.fixture(params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path, conf={**SMALL, "flushDiskType": request.param}) as running:
        with Control(running.broker) as broker:
            broker.create_topic(TOPIC, queues=QUEUES)
        yield running


class TimedSender(Sender):
    """Each message says when it is to come; some are recalled by `Recaller`."""

    def __init__(self, address: str, name: str) -> None:
        super().__init__(address, TOPIC, name=name, queues=QUEUES, window=32, body_bytes_max=200, seed=SEED)
        self.due_ms: dict[bytes, int] = {}
        self.handles: dict[bytes, str] = {}
        self.answered = threading.Event()

    def _properties(self, body: bytes) -> str:
        delay_ms = self._random.randrange(DELAY_MS_MAX)
        due_ms = self.due_ms[body] = time.time_ns() // 1_000_000 + delay_ms
        return f"{super()._properties(body)}TIMER_DELIVER_MS\x01{due_ms}\x02"

    def _answered(self, reply: Command) -> None:
        (body,) = self._waiting[reply.opaque]
        if "recallHandle" in reply.ext:
            self.handles[body] = reply.ext["recallHandle"]
        super()._answered(reply)
        self.answered.set()


class Recaller(threading.Thread):
    """Takes back every tenth message, as far as it is quick enough."""

    def __init__(self, address: str, sender: TimedSender) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._sender = sender
        self.recalled: set[bytes] = set()
        self.unknown: set[bytes] = set()

    def run(self) -> None:
        asked: set[bytes] = set()
        try:
            with Control(self._address, timeout_s=60) as broker:
                while self._sender.is_alive():
                    for body in list(self._sender.handles)[::10]:
                        if body not in asked:
                            asked.add(body)
                            self._recall(broker, body)
                    self._sender.answered.wait(0.2)
                    self._sender.answered.clear()
        except RemotingError:
            pass  # killed: what was asked last has no answer

    def _recall(self, broker: Control, body: bytes) -> None:
        self.unknown.add(body)
        header = {"producerGroup": "PG", "topic": TOPIC, "recallHandle": self._sender.handles[body]}
        reply = broker.call(RequestCode.RECALL_MESSAGE, header)
        self.unknown.discard(body)
        if reply.code == ResponseCode.SUCCESS:
            assert reply.ext["msgId"] == f"U{key_of(body)}"
            self.recalled.add(body)
        else:
            assert reply.code == ResponseCode.ILLEGAL_OPERATION, reply


@dataclass
class Ledger:
    """What everybody did in all rounds."""

    due_ms: dict[bytes, int] = field(default_factory=dict)
    acked: set[bytes] = field(default_factory=set)
    recalled: set[bytes] = field(default_factory=set)
    unknown: set[bytes] = field(default_factory=set)

    def add(self, sender: TimedSender, recaller: Recaller) -> None:
        self.due_ms.update(sender.due_ms)
        self.acked.update(ack.body for ack in sender.acked)
        self.recalled |= recaller.recalled
        self.unknown |= recaller.unknown


@pytest.mark.timeout(90 + 40 * ROUNDS)
def test_every_timed_message_comes_once_and_recalled_ones_never(cluster: ServerCluster) -> None:
    dice = random.Random(SEED)
    ledger = Ledger()
    for number in range(ROUNDS):
        sender = TimedSender(cluster.broker, f"timed-{number}")
        recaller = Recaller(cluster.broker, sender)
        sender.start()
        recaller.start()
        wait_for(lambda: len(sender.acked) > 500, what="acknowledged messages", state=sender)  # noqa: B023
        wanted = delivered(cluster) + dice.randrange(2_000)
        wait_for(lambda: delivered(cluster) >= wanted, what="deliveries", state=sender)  # noqa: B023
        cluster.kill_broker()
        sender.join(60)
        recaller.join(60)
        assert sender.lost_connection
        assert not sender.refused
        ledger.add(sender, recaller)
        if number % 2:
            kill_while_it_starts(cluster, after_s=dice.random())
        if number == 1:  # any but the last snapshot may be missing
            (cluster.store / SNAPSHOT).unlink(missing_ok=True)
        cluster.start_broker()
    wait_for(lambda: complete(cluster, ledger), what="all timed messages")
    check(cluster, ledger)
    restart_broker(cluster)
    wait_for_a_later_one(cluster)
    check(cluster, ledger)
    assert len(ledger.recalled) > 10, "none was taken back"
    assert (cluster.store / SNAPSHOT).exists()


def delivered(cluster: ServerCluster) -> int:
    with Control(cluster.broker, timeout_s=60) as broker:
        return sum(broker.max_offset(TOPIC, queue_id) for queue_id in range(QUEUES))


def wait_for_a_later_one(cluster: ServerCluster) -> None:
    """Whatever was to come before it has come by then."""
    with Control(cluster.broker, timeout_s=60) as broker:
        broker.create_topic("Last", queues=1)
        header = send_header("Last", 0, "TIMER_DELAY_MS\x01300")
        broker.ask(RequestCode.SEND_MESSAGE_V2, header, b"last")
        wait_for(lambda: broker.max_offset("Last", 0) == 1, what="the last timed message")


def kill_while_it_starts(cluster: ServerCluster, *, after_s: float) -> None:
    process = ServerProcess(cluster.broker_process.command, log=cluster.folder / "killed-early.out")
    time.sleep(after_s)  # any moment of the start is meant, also those that leave no trace
    process.kill()


def arrived(cluster: ServerCluster) -> Counter[bytes]:
    return Counter(message.body for queue in read_topic(cluster.broker, TOPIC, QUEUES) for message in queue)


def complete(cluster: ServerCluster, ledger: Ledger) -> bool:
    return ledger.acked - ledger.recalled - ledger.unknown <= arrived(cluster).keys()


def check(cluster: ServerCluster, ledger: Ledger) -> None:
    queues = read_topic(cluster.broker, TOPIC, QUEUES)
    seen = Counter(message.body for queue in queues for message in queue)
    doubled = [body[:30] for body, count in seen.items() if count > 1]
    assert not doubled, f"{len(doubled)} came twice: {doubled[:3]}"
    lost = ledger.acked - ledger.recalled - ledger.unknown - seen.keys()
    assert not lost, f"{len(lost)} were forgotten: {sorted(lost)[:3]}"
    undead = ledger.recalled & seen.keys()
    assert not undead, f"{len(undead)} came although recalled: {sorted(undead)[:3]}"
    assert seen.keys() <= ledger.due_ms.keys(), "messages nobody sent"
    early = [m.body[:30] for queue in queues for m in queue if m.store_ms < ledger.due_ms[m.body]]
    assert not early, f"{len(early)} came before their time"
