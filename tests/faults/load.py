"""Clients of every kind in threads of their own, and the ledger of what they were told.

plain        any queue; a send without an answer may be there or not
ordered      one key, one after the other: the next number only when the last was acknowledged
idempotent   sent again until it is acknowledged: stored once
commits      an offset of a group that only grows, committed and answered
"""

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from rocketeer import Message, Producer, SendResult
from rocketeer.bench.control import Control
from rocketeer.bench.groups import Member
from rocketeer.errors import RemotingError, RocketeerError
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command
from support.senders import Acked

PLAIN, ORDERED, ONCE = "FaultsPlain", "FaultsOrdered", "FaultsOnce"
TOPICS = (PLAIN, ORDERED, ONCE)
QUEUES = 4
COMMITTED_GROUP = "faults-commits"
SEND_TIMEOUT_S = 8.0


@dataclass
class Ledger:
    """Written by the loads, read when they have ended."""

    sent: dict[str, set[bytes]] = field(default_factory=lambda: {topic: set() for topic in TOPICS})
    acked: dict[str, list[Acked]] = field(default_factory=lambda: {topic: [] for topic in TOPICS})
    refused: Counter[str] = field(default_factory=Counter)
    committed: int = -1
    longest_gap_s: float = 0.0
    """Between two acknowledged plain sends."""

    def __str__(self) -> str:
        counts = ", ".join(f"{topic[6:].lower()} {len(acked)}" for topic, acked in self.acked.items())
        return f"acknowledged: {counts}; committed {self.committed}; longest pause {self.longest_gap_s:.1f} s"


class Load(threading.Thread):
    """Runs until `end`; an error that is none of a client's is kept in `failure`."""

    def __init__(self, name: str, namesrv: str, ledger: Ledger) -> None:
        super().__init__(name=name, daemon=True)
        self._namesrv = namesrv
        self._ledger = ledger
        self._ending = threading.Event()
        self.failure: BaseException | None = None

    def end(self) -> None:
        self._ending.set()

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.failure = error

    def work(self) -> None:
        raise NotImplementedError

    def _note(self, topic: str, body: bytes, result: SendResult) -> None:
        at = Acked(body, result.queue.queue_id, result.queue_offset, result.offset_message_id)
        self._ledger.acked[topic].append(at)


class PlainLoad(Load):
    def work(self) -> None:
        ledger, last_s = self._ledger, time.monotonic()
        with Producer(self.name, nameserver=self._namesrv, send_timeout_s=SEND_TIMEOUT_S) as producer:
            for number in itertools.count():
                if self._ending.is_set():
                    return
                body = f"{self.name}-{number} ".encode() + bytes(number % 900)
                ledger.sent[PLAIN].add(body)
                try:
                    result = producer.send(Message(PLAIN, body, keys=f"{self.name}-{number}"))
                except RocketeerError as error:
                    ledger.refused[type(error).__name__] += 1
                    continue
                now_s = time.monotonic()
                ledger.longest_gap_s = max(ledger.longest_gap_s, now_s - last_s)
                last_s = now_s
                self._note(PLAIN, body, result)


class OrderedLoad(Load):
    """Number after number of one key, each sent until it is acknowledged; its body says which attempt it was."""

    def work(self) -> None:
        number = attempt = 0
        with Producer(self.name, nameserver=self._namesrv, send_timeout_s=SEND_TIMEOUT_S) as producer:
            while not self._ending.is_set():
                body = f"{self.name} {number} {attempt}".encode()
                self._ledger.sent[ORDERED].add(body)
                try:
                    result = producer.send(Message(ORDERED, body, sharding_key=self.name))
                except RocketeerError:
                    attempt += 1
                    continue
                self._note(ORDERED, body, result)
                number, attempt = number + 1, 0


class IdempotentLoad(Load):
    """Every message is sent again until it is acknowledged."""

    def work(self) -> None:
        with Producer(
            self.name, nameserver=self._namesrv, send_timeout_s=60.0, idempotent=True, producer_id=self.name
        ) as producer:
            for number in itertools.count():
                if self._ending.is_set():
                    return
                body = f"{self.name}-{number}".encode()
                self._ledger.sent[ONCE].add(body)
                try:
                    result = producer.send(Message(ONCE, body))
                except RocketeerError as error:
                    # What became of it is not known: this producer's promise ends, a new one would begin.
                    self._ledger.refused[f"idempotent {type(error).__name__}"] += 1
                    return
                self._note(ONCE, body, result)


class CommitLoad(Load):
    """Commits growing offsets at whoever leads; one that was answered may never be smaller later."""

    def __init__(self, name: str, namesrv: str, ledger: Ledger, leader: "LeaderOf") -> None:
        super().__init__(name, namesrv, ledger)
        self._leader = leader

    def work(self) -> None:
        for offset in itertools.count():
            if self._ending.wait(0.02):
                return
            address = self._leader()
            if address is None:
                continue
            header = {
                "consumerGroup": COMMITTED_GROUP, "topic": PLAIN, "queueId": "0", "commitOffset": str(offset),
            }  # fmt: skip
            with contextlib.suppress(RemotingError, OSError), Control(address, timeout_s=5) as broker:
                answer: Command = broker.call(RequestCode.UPDATE_CONSUMER_OFFSET, header)
                if answer.code == ResponseCode.SUCCESS:
                    self._ledger.committed = offset


class LeaderOf:
    """Where the leader is, asked for at most twice a second."""

    def __init__(self, ask: Callable[[], Member | None]) -> None:
        self._ask = ask
        self._known: str | None = None
        self._asked_s = 0.0

    def __call__(self) -> str | None:
        if time.monotonic() - self._asked_s > 0.5:
            self._asked_s = time.monotonic()
            leader = self._ask()
            self._known = None if leader is None else leader.address
        return self._known
