"""What a leader begins and another one may have to end: transactions, and messages that are tried again.

transaction   half messages, committed or rolled back after a while, or when the broker asks
retried       a listener fails some times and then succeeds; some messages end among the dead letters
recalled      timed messages, most of which are taken back before their time
"""

import itertools
import random
import threading
import time
import zlib
from collections import deque

from faults.ledger import RECALLED, RETRIED, RETRIED_GROUP, TRANSACTIONS, Ledger, is_dead_letter
from faults.load import SEND_TIMEOUT_S, Load
from rocketeer import (
    COMMIT,
    ROLLBACK,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    RetryPolicy,
    TransactionProducer,
)
from rocketeer.client.core.transactions import UNKNOWN, Transaction, Verdict
from rocketeer.errors import RocketeerError
from rocketeer.model.subscription import ConsumeFromWhere

LOCAL_S = (0.0, 0.0, 0.1, 0.5, 2.0)
TRIES_MAX = 4
WAITS_S = (2.0, 4.0, 8.0)
KEPT = 8
"""So many timed messages are on the way before the oldest is taken back."""


class TransactionLoad(Load):
    """A decision is noted before the broker hears of it; whoever asks is told the same."""

    pace_s = 0.05

    def __init__(self, name: str, namesrv: str, ledger: Ledger, seed: int) -> None:
        super().__init__(name, namesrv, ledger)
        self._random = random.Random(f"{name} {seed}")
        self._lock = threading.Lock()
        self._running: set[bytes] = set()

    def work(self) -> None:
        with TransactionProducer(
            self.name, check=self._check, nameserver=self._namesrv, retries=0, send_timeout_s=SEND_TIMEOUT_S
        ) as producer:
            for number in itertools.count():
                if self._ending.wait(self.pace_s):
                    break
                body = f"{self.name}-{number}".encode()
                self._ledger.sent[TRANSACTIONS].add(body)
                try:
                    producer.send_in_transaction(Message(TRANSACTIONS, body), self._local)
                except RocketeerError as error:
                    self._ledger.errors[f"transaction {type(error).__name__}"] += 1
            self._closing.wait()  # brokers may still ask

    def _local(self, transaction: Transaction) -> Verdict:
        body = transaction.message.body
        with self._lock:
            if (
                body in self._ledger.rolled_back
            ):  # the broker asked before we heard that it has the half message
                return ROLLBACK
            self._running.add(body)
        time.sleep(self._random.choice(LOCAL_S))
        with self._lock:
            self._running.discard(body)
            said = self._random.random()
            decided = self._ledger.rolled_back if said < 0.25 else self._ledger.committed_transactions
            decided.add(body)
            self._ledger.counts["transaction"] += 1
            if said > 0.8:
                return UNKNOWN  # the broker shall ask
            return ROLLBACK if said < 0.25 else COMMIT

    def _check(self, message: ReceivedMessage) -> Verdict:
        body = message.body
        with self._lock:
            if body in self._ledger.committed_transactions:
                return COMMIT
            if body in self._running:
                return UNKNOWN
            self._ledger.rolled_back.add(body)
            return ROLLBACK


class RetriedLoad(Load):
    """Sends, and consumes what it sent: with failures."""

    pace_s = 0.1

    def work(self) -> None:
        consumer = PushConsumer(
            RETRIED_GROUP,
            nameserver=self._namesrv,
            consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            concurrency=4,
        )
        consumer.subscribe(RETRIED, self._consume, retry=RetryPolicy(backoff=[0.5], tries_max=TRIES_MAX))
        with (
            consumer,
            Producer(self.name, nameserver=self._namesrv, send_timeout_s=SEND_TIMEOUT_S) as producer,
        ):
            for number in itertools.count():
                if self._ending.wait(self.pace_s):
                    break
                body = f"{self.name}-{number}{'*' if number % 16 == 15 else ''}".encode()
                self._ledger.sent[RETRIED].add(body)
                try:
                    result = producer.send(Message(RETRIED, body))
                except RocketeerError as error:
                    self._ledger.errors[f"retried {type(error).__name__}"] += 1
                    continue
                self._note("retried", RETRIED, body, result)
            self._closing.wait()  # it consumes until all is judged

    def _consume(self, message: ReceivedMessage) -> None:
        body = message.body
        if is_dead_letter(body) or message.reconsume_times < zlib.crc32(body) % TRIES_MAX:
            raise ValueError("not yet")
        self._ledger.consumed[body] += 1


class RecalledLoad(Load):
    """A message is sent once, so that whatever is delivered has the handle that takes it back."""

    pace_s = 0.1

    def __init__(self, name: str, namesrv: str, ledger: Ledger, seed: int) -> None:
        super().__init__(name, namesrv, ledger)
        self._random = random.Random(f"{name} {seed}")
        self._waiting: deque[tuple[bytes, str]] = deque()

    def work(self) -> None:
        with Producer(
            self.name, nameserver=self._namesrv, retries=0, send_timeout_s=SEND_TIMEOUT_S
        ) as producer:
            for number in itertools.count():
                if self._ending.wait(self.pace_s):
                    break
                self._send(producer, f"{self.name}-{number}".encode())
                if len(self._waiting) >= KEPT:
                    self._take_back(producer, *self._waiting.popleft())
            while self._waiting:
                self._take_back(producer, *self._waiting.popleft())

    def _send(self, producer: Producer, body: bytes) -> None:
        self._ledger.sent[RECALLED].add(body)
        due_ms = int((time.time() + self._random.choice(WAITS_S)) * 1000)
        try:
            result = producer.send(Message(RECALLED, body, deliver_at=due_ms))
        except RocketeerError as error:
            self._ledger.errors[f"recalled {type(error).__name__}"] += 1
            return
        if result.recall_handle is None or self._random.random() < 0.25:
            self._ledger.later[RECALLED].add(
                body
            )  # nobody takes it back; or a clock ahead delivered it at once
        else:
            self._waiting.append((body, result.recall_handle))

    def _take_back(self, producer: Producer, body: bytes, handle: str) -> None:
        """One that is refused was delivered, or taken back by a request whose answer was lost."""
        try:
            producer.recall(handle, timeout_s=SEND_TIMEOUT_S)
        except RocketeerError as error:
            self._ledger.errors[f"recall {type(error).__name__}"] += 1
            return
        self._ledger.recalled.add(body)
        self._ledger.counts["recalled"] += 1
