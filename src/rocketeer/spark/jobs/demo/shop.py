"""The demo's shop: a cluster in a process of its own, and orders with every kind of message; nothing of Spark."""

import itertools
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rocketeer.client.core.nameservers import NameServers
from rocketeer.client.core.outcome import COMMIT, ROLLBACK, Retry
from rocketeer.client.core.received import ReceivedMessage
from rocketeer.client.core.selectors import by_hash
from rocketeer.client.core.transactions import Transaction, Verdict
from rocketeer.client.plans.routes import fetch_route
from rocketeer.client.plans.topics import put_topic
from rocketeer.client.sync.driver import BlockingDriver
from rocketeer.client.sync.producer import Producer
from rocketeer.client.sync.push_consumer import PushConsumer
from rocketeer.client.sync.transaction_producer import TransactionProducer
from rocketeer.errors import RocketeerError
from rocketeer.model.message import Message
from rocketeer.model.topic import TopicConfig

ORDERS: Final = "Orders"
TOTALS: Final = "OrderTotals"
AGAIN: Final = "OrdersAgain"
TOPICS: Final = (ORDERS, "OrderEvents", "Reminders", "Payments", "Mails", TOTALS, AGAIN)
TAGS: Final = ("created", "paid", "shipped", "cancelled")
_QUEUES: Final = 4
_BATCH: Final = 200
_START_S_MAX: Final = 90.0
_MAILS_S_MAX: Final = 15.0  # what comes again later is read by nobody, which the trace then shows


class DemoFailed(RocketeerError):
    """The demo's own cluster did not do what it should."""


@contextmanager
def shop_cluster(folder: Path) -> Iterator[str]:
    """A name server and a broker with the shop's topics, until the block ends; the name server's address."""
    port, namesrv_port = _free_port(), _free_port()
    command = [sys.executable, "-m", "rocketeer", "up", "--store", str(folder / "store")]
    command += ["--port", str(port), "--namesrv-port", str(namesrv_port)]
    log = (folder / "cluster.log").open("wb")
    # In a session of its own: Ctrl-C is for us, who then end it in good order.
    running = subprocess.Popen(
        command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        nameserver, broker = f"127.0.0.1:{namesrv_port}", f"127.0.0.1:{port}"
        _make_topics(running, nameserver, broker, folder)
        yield nameserver
    finally:
        running.terminate()
        try:
            running.wait(20)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        log.close()


def _make_topics(running: "subprocess.Popen[bytes]", nameserver: str, broker: str, folder: Path) -> None:
    driver = BlockingDriver()
    end_s = time.monotonic() + _START_S_MAX
    missing = list(TOPICS)
    try:
        while missing:
            if running.poll() is not None:
                said = (folder / "cluster.log").read_text(errors="replace").strip()
                raise DemoFailed(f"the demo's cluster did not start: {said[-400:]}")
            if time.monotonic() > end_s:
                raise DemoFailed(f"the demo's cluster did not start within {_START_S_MAX:.0f} s")
            with suppress(RocketeerError):
                driver.run(put_topic(broker, TopicConfig(missing[0], _QUEUES, _QUEUES), 5))
                if driver.run(fetch_route(missing[0], NameServers([nameserver]), 5)) is not None:
                    del missing[0]
                    continue
            time.sleep(0.1)
    finally:
        driver.close()


def _free_port() -> int:
    """A port whose neighbours are free too: a broker listens two below."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            with suppress(OSError):
                second.bind(("127.0.0.1", port - 2))
                return port


@dataclass
class Shop:
    """Sends; counts what it sent by kind."""

    nameserver: str
    sent: Counter[str] = field(default_factory=Counter)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _random: random.Random = field(default_factory=lambda: random.Random(7))

    def order(self) -> Message:
        number = next(self._numbers)
        tag = self._random.choices(TAGS, (5, 3, 2, 1))[0]
        value: dict[str, Any] = {
            "order": number,
            "customer": f"c{number % 997}",
            "amount": round(self._random.lognormvariate(3.5, 1.0), 2),
            "items": [f"sku{self._random.randrange(500)}" for _ in range(self._random.randrange(1, 9))],
        }
        region = self._random.choice(("eu", "us", "asia"))
        return Message(
            ORDERS, json.dumps(value).encode(), tags=tag, keys=f"order{number}", properties={"region": region}
        )

    def all_kinds(self, orders: int) -> None:
        """`orders` plain orders, and some of each other kind."""
        some = max(orders // 100, 10)
        with Producer("SHOP", nameserver=self.nameserver) as producer:
            self.orders(producer, orders)
            for number in range(some):  # the steps of an order, each order's in one queue
                for step in TAGS[:3]:
                    event = Message(
                        "OrderEvents", f"{number} {step}".encode(), tags=step, keys=f"order{number}"
                    )
                    producer.send(event, selector=by_hash, arg=f"order{number}")
                    self.sent["ordered"] += 1
            for number in range(some // 2):
                producer.send(Message("Reminders", b"pay, please", keys=f"order{number}", delay_level=1))
                producer.send(
                    Message("Reminders", b"rate us", keys=f"order{number}", delay=0.5 + number / 50)
                )
                self.sent.update(delayed=1, timed=1)
        self._payments(some)
        self._mails(some)

    def orders(self, producer: Producer, count: int) -> None:
        waiting = []
        for begin in range(0, count, _BATCH):
            batch = [self.order() for _ in range(min(_BATCH, count - begin))]
            waiting.append(producer.send_async(batch))
            self.sent["plain, tagged, keyed"] += len(batch)
        for future in waiting:
            future.result(60)

    def _payments(self, count: int) -> None:
        """Every fifth payment fails, and its message is never seen."""

        def pay(transaction: Transaction) -> Verdict:
            return ROLLBACK if transaction.message.body.endswith((b"0", b"5")) else COMMIT

        with TransactionProducer("PAYMENTS", nameserver=self.nameserver, check=lambda _: COMMIT) as producer:
            for number in range(count):
                message = Message("Payments", f"payment {number}".encode(), keys=f"order{number}")
                producer.send_in_transaction(message, pay)
                self.sent["transactional"] += 1

    def _mails(self, count: int) -> None:
        """Traced from end to end; some are tried again, some given up: they end as dead letters."""
        done = threading.Event()
        outcomes: Counter[str] = Counter()
        lock = threading.Lock()
        consumer = PushConsumer("mail-out", nameserver=self.nameserver, trace=True, retries=3)

        def deliver(message: ReceivedMessage) -> Retry | None:
            number = int(message.text.split()[-1])
            with lock:
                if number % 10 == 0:
                    outcomes["dead"] += 1
                    outcome: Retry | None = Retry(delay_level=-1)
                elif number % 10 == 1 and message.reconsume_times == 0:
                    outcomes["again"] += 1
                    return Retry(delay_level=1)
                else:
                    outcomes["delivered"] += 1
                    outcome = None
                if outcomes["dead"] + outcomes["delivered"] >= count:
                    done.set()
                return outcome

        consumer.subscribe("Mails")(deliver)
        with consumer, Producer("MAILS", nameserver=self.nameserver, trace=True) as producer:
            for number in range(count):
                producer.send(Message("Mails", f"mail {number}".encode(), keys=f"order{number}", tags="mail"))
            done.wait(_MAILS_S_MAX)
        self.sent.update(
            {"traced": count, "tried again": outcomes["again"], "dead letters": outcomes["dead"]}
        )


class OpenShop:
    """Orders that keep coming, until it closes."""

    def __init__(self, shop: Shop, per_s: int) -> None:
        self._shop = shop
        self._per_s = per_s
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "OpenShop":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join(30)

    def _run(self) -> None:
        with Producer("SHOP_LIVE", nameserver=self._shop.nameserver) as producer:
            while not self._closed.wait(0.2):
                self._shop.orders(producer, max(self._per_s // 5, 1))
