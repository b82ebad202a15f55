"""kill -9 of the broker while consumers fail: every message is consumed in the end, or lies once in the dead letters.

ROUNDS=30 .venv/bin/pytest tests/crash/test_retry_kill.py    is the long form; SEED=7 chooses other moments.
"""

import contextlib
import itertools
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rocketeer import RETRY, Message, Producer, PushConsumer, ReceivedMessage, Retry
from rocketeer.bench.control import Control
from rocketeer.errors import RemotingError, RocketeerError
from rocketeer.model.subscription import ConsumeFromWhere
from rocketeer.protocol.codes import RequestCode
from rocketeer.record.layout import StoredMessage
from support.cluster import ServerCluster, restart_broker, running_cluster
from support.senders import read_queue, wait_for

ROUNDS = int(os.environ.get("ROUNDS", "2"))
SEED = int(os.environ.get("SEED", "1"))
TOPIC, GROUP = "Failing", "CG_kill"
RETRY_TOPIC, DEAD_TOPIC = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
QUEUES = 2
RETRIES = 2
"""So many times a message comes again; then it is dead."""
CONF = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 500 * 20,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 5000,
    "messageDelayLevel": "1s 1s 1s 1s 1s 1s",
    "flushConsumerOffsetInterval": 2_000,  # so much may be consumed again
}
KINDS = ("fine", "fails-once", "raises-once", "never")
_numbers = itertools.count()


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path, conf={**CONF, "flushDiskType": request.param}) as running:
        with Control(running.broker) as broker:
            broker.create_topic(TOPIC, queues=QUEUES)
        yield running


class Book:
    """What was acknowledged, and what the consumer saw."""

    def __init__(self) -> None:
        self.acked: set[str] = set()
        self.sent: set[str] = set()
        self.consumed: Counter[str] = Counter()
        self.tries: Counter[str] = Counter()
        self.last_try = threading.Event()
        """A message that will be dead next is in the listener's hands."""
        self.let_it_fail = threading.Event()
        self.let_it_fail.set()
        self._lock = threading.Lock()

    def listen(self, message: ReceivedMessage) -> Retry | None:
        name = message.text
        with self._lock:
            self.tries[name] += 1
        if name.startswith("fine") or ("once" in name and message.reconsume_times > 0):
            with self._lock:
                self.consumed[name] += 1
            return None
        if name.startswith("never") and message.reconsume_times >= RETRIES:
            self.last_try.set()
            self.let_it_fail.wait(30)
        if name.startswith("raises") or self.tries[name] % 2:
            raise ValueError(name)
        return RETRY

    def send(self, cluster: ServerCluster, count: int) -> None:
        """Messages of all kinds; some may be stored without an answer, those do not count.

        By an idempotent producer: one that is sent again after a kill must not be there twice to begin with.
        """
        with Producer(
            "PG_kill", nameserver=cluster.namesrv, send_timeout_s=10, route_poll_s=0.3, idempotent=True
        ) as producer:
            for _ in range(count):
                number = next(_numbers)
                name = f"{KINDS[number % len(KINDS)]}-{number}"
                self.sent.add(name)
                with contextlib.suppress(RocketeerError):
                    producer.send(Message(TOPIC, name.encode()), timeout_s=5)
                    self.acked.add(name)

    def holds(self, cluster: ServerCluster) -> None:
        """Wait until every message has come to its end, then look how often."""
        live = {name for name in self.acked if not name.startswith("never")}
        dying = self.acked - live

        def complete() -> bool:
            return live <= self.consumed.keys() and dying <= names(dead_letters(cluster)).keys()

        wait_for(complete, timeout_s=120, what="the end of every message", state=self)
        dead = dead_letters(cluster)
        assert not [name for name, count in names(dead).items() if count > 1], "twice in the dead letters"
        assert {name for name in names(dead) if not name.startswith("never")} == set()
        assert names(dead).keys() <= self.sent
        assert {message.reconsume_times for message in dead} == {RETRIES + 1}
        with Control(cluster.broker, timeout_s=60) as broker:
            came_again = read_queue(broker, RETRY_TOPIC, 0)
        tries: dict[str, list[int]] = {}
        for message in came_again:
            tries.setdefault(message.body.decode(), []).append(message.reconsume_times)
        for name, numbers in tries.items():
            whole = list(range(1, RETRIES + 1))
            assert numbers == (whole if name.startswith("never") else [1]), f"{name}: {numbers}"

    def __repr__(self) -> str:
        missing = sorted(name for name in self.acked if name not in self.consumed)
        return f"acked={len(self.acked)} consumed={len(self.consumed)} not consumed={missing[:10]}"


@pytest.fixture
def book() -> Book:
    return Book()


class Consumers:
    """One consumer at a time. It looks often where its broker is, and may die with it."""

    def __init__(self, cluster: ServerCluster, book: Book) -> None:
        self._cluster = cluster
        self._book = book
        self._consumer = self._start()

    def _start(self) -> PushConsumer:
        consumer = PushConsumer(
            GROUP, nameserver=self._cluster.namesrv, retries=RETRIES, concurrency=4, commit_interval_s=0.3,
            route_poll_s=0.3, heartbeat_s=0.3, rebalance_s=0.5, pull_hold_s=2.0, close_timeout_s=1.0,
            consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )  # fmt: skip
        consumer.subscribe(TOPIC, self._book.listen)
        consumer.start()
        return consumer

    def replace(self) -> None:
        """The broker is dead: what this one has done since its offsets were last on disk, nobody knows."""
        self._consumer.close()
        self._consumer = self._start()

    def close(self) -> None:
        self._book.let_it_fail.set()
        self._consumer.close()


@pytest.fixture
def consumers(cluster: ServerCluster, book: Book, monkeypatch: pytest.MonkeyPatch) -> Iterator[Consumers]:
    monkeypatch.setattr("rocketeer.client.aio.concurrent_service.RETRY_HERE_S", 0.3)
    with contextlib.closing(Consumers(cluster, book)) as running:
        yield running


def dead_letters(cluster: ServerCluster) -> list[StoredMessage]:
    with Control(cluster.broker, timeout_s=60) as broker:
        return read_queue(broker, DEAD_TOPIC, 0) if broker.max_offset(DEAD_TOPIC, 0) else []


def names(messages: list[StoredMessage]) -> Counter[str]:
    return Counter(message.body.decode() for message in messages)


def grows(cluster: ServerCluster, topic: str, queues: range) -> Callable[[], None]:
    """Waits until the topic has more messages than now."""

    def count(broker: Control) -> int:
        return sum(broker.max_offset(topic, queue_id) for queue_id in queues)

    with Control(cluster.broker, timeout_s=60) as broker:
        before = count(broker)

    def wait() -> None:
        give_up_s = time.monotonic() + 60
        with Control(cluster.broker, timeout_s=60) as broker:
            while count(broker) == before:
                assert time.monotonic() < give_up_s, f"nothing new in {topic}"
                time.sleep(0.001)

    return wait


Point = Callable[[ServerCluster, Book], None]


def as_one_has_gone_back(cluster: ServerCluster, book: Book) -> None:
    wait = grows(cluster, SCHEDULE_TOPIC, range(3))
    book.send(cluster, 40)
    wait()


def as_one_is_due(cluster: ServerCluster, book: Book) -> None:
    wait = grows(cluster, RETRY_TOPIC, range(1))
    book.send(cluster, 40)
    wait()


def as_one_is_about_to_die(cluster: ServerCluster, book: Book) -> None:
    book.last_try.clear()
    book.let_it_fail.clear()
    book.send(cluster, 40)
    assert book.last_try.wait(60)
    book.let_it_fail.set()


def as_one_has_died(cluster: ServerCluster, book: Book) -> None:
    wait = grows(cluster, DEAD_TOPIC, range(1))
    book.send(cluster, 40)
    wait()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("cluster", ["ASYNC_FLUSH"], indirect=True)
def test_killed_at_chosen_points(cluster: ServerCluster, book: Book, consumers: Consumers) -> None:
    points: tuple[Point, ...] = (
        as_one_has_gone_back, as_one_is_due, as_one_is_about_to_die, as_one_has_died,
    )  # fmt: skip
    for point in points:
        with contextlib.suppress(RemotingError):
            point(cluster, book)
        cluster.kill_broker()
        consumers.replace()
        cluster.start_broker()
    book.holds(cluster)
    restart_broker(cluster)
    book.holds(cluster)
    assert len(book.acked) > 100, "the load was none"
    assert max(book.tries.values()) > RETRIES + 1, "nothing was delivered again by a crash"


@pytest.mark.timeout(180 + 60 * ROUNDS)
@pytest.mark.parametrize("cluster", ["SYNC_FLUSH"], indirect=True)
def test_killed_at_any_moment(cluster: ServerCluster, book: Book, consumers: Consumers) -> None:
    dice = random.Random(SEED)
    for number in range(ROUNDS):
        sending = threading.Thread(target=book.send, args=(cluster, 60))
        sending.start()
        time.sleep(4 * dice.random())  # a moment of no meaning is what is wanted
        cluster.kill_broker()
        if number % 2:
            consumers.replace()
        cluster.start_broker()
        if number % 3 == 1:  # while it and its consumers find each other again
            time.sleep(dice.random())
            cluster.kill_broker()
            cluster.start_broker()
        sending.join(120)
        assert not sending.is_alive()
    book.holds(cluster)
    assert len(book.acked) > 20 * ROUNDS, "the load was none"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("cluster", ["ASYNC_FLUSH"], indirect=True)
def test_a_broker_that_answers_too_late_has_each_message_once(
    cluster: ServerCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consumer gives up waiting, the broker stores what went back all the same: nobody stores it again."""
    monkeypatch.setattr("rocketeer.client.aio.concurrent_service.RETRY_HERE_S", 0.3)
    in_hand, go_on = threading.Event(), threading.Event()
    tries: list[int] = []

    def listen(message: ReceivedMessage) -> Retry:
        tries.append(message.reconsume_times)
        in_hand.set()
        go_on.wait(60)
        return RETRY

    consumer = PushConsumer(
        GROUP, nameserver=cluster.namesrv, retries=1, commit_interval_s=0.3, call_timeout_s=0.7, heartbeat_s=0.3,
        consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )  # fmt: skip
    consumer.subscribe(TOPIC, listen)
    with Producer("PG_kill", nameserver=cluster.namesrv) as producer:
        producer.send(Message(TOPIC, b"never"))
    with caplog.at_level("WARNING"), consumer:
        assert in_hand.wait(60)
        os.kill(cluster.broker_process.pid, signal.SIGSTOP)
        try:
            go_on.set()
            wait_for(lambda: "message not sent back" in caplog.text, what="the consumer's patience to end")
        finally:
            os.kill(cluster.broker_process.pid, signal.SIGCONT)
        wait_for(lambda: bool(dead_letters(cluster)), what="a dead letter")
        count = len(tries)
        wait_for(lambda: len(committed(cluster)) == 2, what="the ends of both queues, on the broker")
    assert names(dead_letters(cluster)) == {"never": 1}
    with Control(cluster.broker) as broker:
        assert [message.reconsume_times for message in read_queue(broker, RETRY_TOPIC, 0)] == [1]
    assert count >= 3, "it was tried again here, as nobody knew"


def committed(cluster: ServerCluster) -> set[str]:
    """In which of the topics the group has consumed everything."""
    passed = set()
    with Control(cluster.broker) as broker:
        for topic, queues in ((TOPIC, QUEUES), (RETRY_TOPIC, 1)):
            offsets = []
            for queue_id in range(queues):
                header = {"consumerGroup": GROUP, "topic": topic, "queueId": str(queue_id)}
                answer = broker.call(RequestCode.QUERY_CONSUMER_OFFSET, header)
                offsets.append(int(answer.ext.get("offset", 0)) == broker.max_offset(topic, queue_id))
            if all(offsets):
                passed.add(topic)
    return passed
