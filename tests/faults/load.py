"""Clients of every kind in threads of their own; the ledger has what they were told.

plain        any queue; a send without an answer may be there or not
ordered      one key, one after the other: the next number only when the last was acknowledged
idempotent   sent again until it is acknowledged: stored once
commits      an offset of a group that only grows, committed and answered
topics       made and answered

Each does so many things a second: the members' answers are judged, not their speed.
"""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable

from faults.ledger import COMMITTED_GROUP, ONCE, ORDERED, PLAIN, QUEUES, Ledger
from rocketeer import Message, Producer, SendResult
from rocketeer.bench.control import Control
from rocketeer.bench.groups import MemberProcess
from rocketeer.errors import RemotingError, RocketeerError
from rocketeer.protocol.codes import RequestCode, ResponseCode
from support.senders import Acked

SEND_TIMEOUT_S = 8.0
TOPICS_MAX = 300


class Load(threading.Thread):
    """Sends until `end`, is there until `close`; an error that is none of a client's is kept in `failure`."""

    pace_s = 0.02

    def __init__(self, name: str, namesrv: str, ledger: Ledger) -> None:
        super().__init__(name=name, daemon=True)
        self._namesrv = namesrv
        self._ledger = ledger
        self._ending = threading.Event()
        self._closing = threading.Event()
        self.failure: BaseException | None = None

    def slow_down(self, times: float) -> None:
        """So many times fewer things a second."""
        self.pace_s *= times

    def end(self) -> None:
        self._ending.set()

    def close(self) -> None:
        self._ending.set()
        self._closing.set()

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.failure = error

    def work(self) -> None:
        raise NotImplementedError

    def _note(self, kind: str, topic: str, body: bytes, result: SendResult) -> None:
        at = Acked(body, result.queue.queue_id, result.queue_offset, result.offset_message_id)
        self._ledger.acked[topic].append(at)
        self._ledger.counts[kind] += 1


class PlainLoad(Load):
    def work(self) -> None:
        ledger, last_s = self._ledger, time.monotonic()
        with Producer(self.name, nameserver=self._namesrv, send_timeout_s=SEND_TIMEOUT_S) as producer:
            for number in itertools.count():
                if self._ending.wait(self.pace_s):
                    return
                body = f"{self.name}-{number} ".encode() + bytes(number % 900)
                ledger.sent[PLAIN].add(body)
                try:
                    result = producer.send(Message(PLAIN, body, keys=f"{self.name}-{number}"))
                except RocketeerError as error:
                    ledger.errors[type(error).__name__] += 1
                    continue
                now_s = time.monotonic()
                ledger.longest_gap_s = max(ledger.longest_gap_s, now_s - last_s)
                last_s = now_s
                self._note("plain", PLAIN, body, result)
                if result.queue.queue_id == 0:
                    ledger.first_queue_end = max(ledger.first_queue_end, result.queue_offset + 1)


class OrderedLoad(Load):
    """Number after number of one key, each sent until it is acknowledged; its body says which attempt it was."""

    def work(self) -> None:
        number = attempt = 0
        with Producer(self.name, nameserver=self._namesrv, send_timeout_s=SEND_TIMEOUT_S) as producer:
            while not self._ending.wait(self.pace_s):
                body = f"{self.name} {number} {attempt}".encode()
                self._ledger.sent[ORDERED].add(body)
                try:
                    result = producer.send(Message(ORDERED, body, sharding_key=self.name))
                except RocketeerError:
                    attempt += 1
                    continue
                self._note("ordered", ORDERED, body, result)
                number, attempt = number + 1, 0


class IdempotentLoad(Load):
    """Every message is sent again until it is acknowledged. A producer that gives up is followed by another."""

    def work(self) -> None:
        for life in itertools.count():
            if self._ending.is_set():
                return
            self._one_producer(f"{self.name}-{life}")

    def _one_producer(self, name: str) -> None:
        with Producer(
            self.name, nameserver=self._namesrv, send_timeout_s=60.0, idempotent=True, producer_id=name
        ) as producer:
            for number in itertools.count():
                if self._ending.wait(self.pace_s):
                    return
                body = f"{name}-{number}".encode()
                self._ledger.sent[ONCE].add(body)
                try:
                    result = producer.send(Message(ONCE, body))
                except RocketeerError as error:
                    # What became of it is not known: this producer's promise ends.
                    self._ledger.errors[f"idempotent {type(error).__name__}"] += 1
                    return
                self._note("idempotent", ONCE, body, result)


class LeaderOf:
    """Where the leader is, asked for at most twice a second."""

    def __init__(self, ask: Callable[[], MemberProcess | None]) -> None:
        self._ask = ask
        self._known: str | None = None
        self._asked_s = 0.0

    def __call__(self) -> str | None:
        if time.monotonic() - self._asked_s > 0.5:
            self._asked_s = time.monotonic()
            leader = self._ask()
            self._known = None if leader is None else leader.address
        return self._known


class CommitLoad(Load):
    """Commits growing offsets at whoever leads; one that was answered may never be smaller later."""

    pace_s = 0.05

    def __init__(self, name: str, namesrv: str, ledger: Ledger, leader: LeaderOf) -> None:
        super().__init__(name, namesrv, ledger)
        self._leader = leader

    def work(self) -> None:
        asked = -1
        while not self._ending.wait(self.pace_s):
            address, offset = self._leader(), self._ledger.first_queue_end
            if address is None or offset <= asked:
                continue
            asked = offset
            header = {
                "consumerGroup": COMMITTED_GROUP, "topic": PLAIN, "queueId": "0", "commitOffset": str(offset),
            }  # fmt: skip
            with contextlib.suppress(RemotingError, OSError), Control(address, timeout_s=5) as broker:
                answer = broker.call(RequestCode.UPDATE_CONSUMER_OFFSET, header)
                if answer.code == ResponseCode.SUCCESS:
                    self._ledger.committed = offset
                    self._ledger.counts["commit"] += 1


class TopicLoad(Load):
    """Makes topics; one that was answered is there for good."""

    pace_s = 3.0

    def __init__(self, name: str, namesrv: str, ledger: Ledger, leader: LeaderOf) -> None:
        super().__init__(name, namesrv, ledger)
        self._leader = leader

    def work(self) -> None:
        for number in range(TOPICS_MAX):
            if self._ending.wait(self.pace_s):
                return
            address = self._leader()
            if address is None:
                continue
            topic = f"FaultsMade{number}"
            with contextlib.suppress(RocketeerError, OSError), Control(address, timeout_s=8) as broker:
                broker.create_topic(topic, queues=QUEUES)
                self._ledger.topics.add(topic)
                self._ledger.counts["topic"] += 1
