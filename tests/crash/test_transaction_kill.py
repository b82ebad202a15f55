"""kill -9 of the broker at every step of transactions: each commit is delivered once, no rollback ever is.

ROUNDS=30 .venv/bin/pytest tests/crash/test_transaction_kill.py    is the long form; SEED=7 chooses other moments.
What the record at which the process dies means is shown record by record in tests/unit/broker/test_transactions.py.
"""

import contextlib
import itertools
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rocketeer import COMMIT, ROLLBACK, ReceivedMessage, TransactionProducer
from rocketeer.bench.control import Control
from rocketeer.client.core.transactions import Verdict
from rocketeer.errors import RemotingError
from rocketeer.protocol.codes import RequestCode
from rocketeer.protocol.command import request
from support.cluster import ServerCluster, restart_broker, running_cluster
from support.raw_connection import RawConnection
from support.senders import read_topic, send_header, wait_for

ROUNDS = int(os.environ.get("ROUNDS", "2"))
SEED = int(os.environ.get("SEED", "1"))
TOPIC, GROUP = "Tx", "PG_kill"
CONF = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 500 * 20,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 5000,
    "flushConsumerOffsetInterval": 200,
    "transactionTimeOut": 700,
    "transactionCheckInterval": 200,
}
_numbers = itertools.count()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path, conf=CONF) as running:
        with Control(running.broker) as broker:
            broker.create_topic(TOPIC, queues=4)
        yield running


class Book:
    """What was prepared and what was acknowledged. A message's name tells how its transaction ended."""

    def __init__(self) -> None:
        self.sent: set[str] = set()
        self.prepared: set[str] = set()
        self.asked = threading.Event()

    def check(self, message: ReceivedMessage) -> Verdict:
        self.asked.set()
        return COMMIT if message.text.startswith("yes") else ROLLBACK

    def name(self, verdict: str) -> str:
        name = f"{verdict}-{next(_numbers)}"
        self.sent.add(name)
        return name

    def prepare(self, broker: Control, verdict: str) -> dict[str, str]:
        """Send a half message; the header that ends it."""
        name = self.name(verdict)
        properties = f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02UNIQ_KEY\x01{name}\x02WAIT\x01true"
        header = send_header(TOPIC, len(self.sent) % 4, properties) | {"f": "4"}
        reply = broker.ask(RequestCode.SEND_MESSAGE_V2, header, name.encode())
        self.prepared.add(name)
        return {
            "producerGroup": GROUP,
            "tranStateTableOffset": reply.ext["queueOffset"],
            "commitLogOffset": str(int(reply.ext["msgId"][16:], 16)),
            "commitOrRollback": "8" if verdict == "yes" else "12",
        }

    def holds(self, cluster: ServerCluster) -> None:
        """Wait until every transaction has ended, then compare."""
        wanted = {name for name in self.prepared if name.startswith("yes")}
        found: Counter[str] = Counter()

        def complete() -> bool:
            queues = read_topic(cluster.broker, TOPIC)
            found.clear()
            found.update(message.body.decode() for queue in queues for message in queue)
            return wanted <= set(found)

        wait_for(complete, what="all that was prepared and not rolled back", state=len(wanted))
        assert not [name for name in found if name not in self.sent or name.startswith("no")]
        assert not [name for name, count in found.items() if count > 1], "delivered twice"


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def mate(cluster: ServerCluster, book: Book) -> Iterator[None]:
    """A producer of the group that answers for those whose connection died with the broker."""
    with TransactionProducer(
        GROUP, nameserver=cluster.namesrv, check=book.check, topics=[TOPIC], heartbeat_s=0.3
    ):
        yield


Point = Callable[[ServerCluster, Control, Book], None]


def after_the_half(cluster: ServerCluster, broker: Control, book: Book) -> None:
    for verdict in ("yes", "no"):
        book.prepare(broker, verdict)


def after_the_verdict(cluster: ServerCluster, broker: Control, book: Book) -> None:
    for verdict in ("yes", "no"):
        broker.ask(RequestCode.END_TRANSACTION, book.prepare(broker, verdict))


def with_verdicts_under_way(cluster: ServerCluster, broker: Control, book: Book) -> None:
    headers = [book.prepare(broker, verdict) for verdict in ("yes", "no") * 40]
    with RawConnection(cluster.broker) as line:
        for header in headers:
            line.send(request(RequestCode.END_TRANSACTION, header))
        line.reply()  # the first is through


def while_it_asks(cluster: ServerCluster, broker: Control, book: Book) -> None:
    for verdict in ("yes", "no") * 20:
        book.prepare(broker, verdict)
    book.asked.clear()
    assert book.asked.wait(60)


@pytest.mark.timeout(240)
@pytest.mark.usefixtures("mate")
def test_killed_at_chosen_points(cluster: ServerCluster, book: Book) -> None:
    points: tuple[Point, ...] = (
        after_the_half, after_the_verdict, with_verdicts_under_way, while_it_asks,
    )  # fmt: skip
    for point in points:
        with Control(cluster.broker, timeout_s=60) as broker:
            point(cluster, broker, book)
            cluster.kill_broker()
        cluster.start_broker()
    book.holds(cluster)
    restart_broker(cluster)
    book.holds(cluster)


class Worker(threading.Thread):
    """Prepares and ends transactions, and leaves some open, until the broker goes."""

    def __init__(self, cluster: ServerCluster, book: Book, seed: str) -> None:
        super().__init__(daemon=True)
        self._address = cluster.broker
        self._book = book
        self._dice = random.Random(seed)
        self.done = 0

    def run(self) -> None:
        with contextlib.suppress(RemotingError, OSError), Control(self._address, timeout_s=60) as broker:
            while True:
                header = self._book.prepare(broker, self._dice.choice(("yes", "no")))
                for _ in range(self._dice.choice((0, 1, 1, 1, 2))):  # open, ended, ended twice
                    broker.call(RequestCode.END_TRANSACTION, header)
                self.done += 1


@pytest.mark.timeout(60 + 60 * ROUNDS)
@pytest.mark.usefixtures("mate")
def test_killed_at_any_moment(cluster: ServerCluster, book: Book) -> None:
    dice = random.Random(SEED)
    for number in range(ROUNDS):
        workers = [Worker(cluster, book, f"{SEED} {number} {name}") for name in "abcd"]
        for worker in workers:
            worker.start()
        wait_for(
            lambda workers=workers: all(worker.done for worker in workers),  # type: ignore[misc]
            what="answers for every worker",
        )
        threading.Event().wait(0.2 + dice.random())
        cluster.kill_broker()
        for worker in workers:
            worker.join(60)
            assert not worker.is_alive()
        cluster.start_broker()
    book.holds(cluster)
    assert len(book.prepared) > 50 * ROUNDS, "the load was none"
