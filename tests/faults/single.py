"""Sends that are tried once, at one member, so that it is known what each answer was: stored, refused, nobody knows.

single     to whoever leads, or to somebody else: refused there before the append
batch      some messages in one request
delayed    by a level, to be delivered once
timed      to the millisecond, to be delivered once
"""

import itertools
import random
import time
from collections.abc import Sequence

from faults.ledger import DELAYED, QUEUES, SINGLE, TIMED, Ledger
from faults.load import LeaderOf, Load
from rocketeer.bench.control import Control
from rocketeer.errors import RemotingError
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command
from rocketeer.record.batch import BatchItem, encode_batch
from support.senders import Acked, send_header

ANSWER_S = 8.0
BATCH_ITEMS = 4
LEVELS = 6
"""One to three seconds here."""
NEVER = (ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT)
"""Clients take them for success."""


class SingleLoad(Load):
    pace_s = 0.01

    def __init__(
        self, name: str, namesrv: str, ledger: Ledger, leader: LeaderOf, members: Sequence[str], seed: int
    ) -> None:
        super().__init__(name, namesrv, ledger)
        self._leader = leader
        self._members = members
        self._random = random.Random(f"{name} {seed}")
        self._connected: Control | None = None

    def work(self) -> None:
        kinds = itertools.cycle((self._single, self._batch, self._delayed, self._timed))
        for number in itertools.count():
            if self._ending.wait(self.pace_s):
                break
            address = self._leader()
            if address is None or self._random.random() < 0.05:
                address = self._random.choice(self._members)
            try:
                next(kinds)(address, f"{self.name}-{number} ".encode() + bytes(number % 300))
            except (RemotingError, OSError):
                self._ledger.errors["single"] += 1
                self._disconnect()
        self._disconnect()

    # --- kinds -------------------------------------------------------------------------------

    def _single(self, address: str, body: bytes) -> None:
        queue_id = self._random.randrange(QUEUES)
        answer = self._send(address, SINGLE, queue_id, "", body)
        if answer.code == ResponseCode.SUCCESS:
            self._ledger.acked[SINGLE].append(
                Acked(body, queue_id, int(answer.ext["queueOffset"]), answer.ext["msgId"])
            )
            self._ledger.counts["single"] += 1

    def _batch(self, address: str, body: bytes) -> None:
        queue_id = self._random.randrange(QUEUES)
        bodies = [b"%d of " % place + body for place in range(BATCH_ITEMS)]
        self._ledger.sent[SINGLE].update(bodies)
        items = [BatchItem(0, each, b"") for each in bodies]
        header = send_header(SINGLE, queue_id, "", batch=True)
        answer = self._call(address, RequestCode.SEND_BATCH_MESSAGE, header, encode_batch(items))
        if answer.code == ResponseCode.SUCCESS:
            first = int(answer.ext["queueOffset"])
            for place, (each, message_id) in enumerate(
                zip(bodies, answer.ext["msgId"].split(","), strict=True)
            ):
                self._ledger.acked[SINGLE].append(Acked(each, queue_id, first + place, message_id))
            self._ledger.counts["batch"] += 1
        elif answer.code == ResponseCode.SERVICE_NOT_AVAILABLE:
            self._ledger.refused[SINGLE].update(bodies)

    def _delayed(self, address: str, body: bytes) -> None:
        level = self._random.randint(1, LEVELS)
        self._later(address, DELAYED, f"DELAY\x01{level}\x02", body, "delayed")

    def _timed(self, address: str, body: bytes) -> None:
        due_ms = int(time.time() * 1000) + self._random.randint(200, 4_000)
        self._later(address, TIMED, f"TIMER_DELIVER_MS\x01{due_ms}\x02", body, "timed")

    def _later(self, address: str, topic: str, properties: str, body: bytes, kind: str) -> None:
        answer = self._send(address, topic, self._random.randrange(QUEUES), properties, body)
        if answer.code == ResponseCode.SUCCESS:
            self._ledger.later[topic].add(body)
            self._ledger.counts[kind] += 1

    # --- asking ------------------------------------------------------------------------------

    def _send(self, address: str, topic: str, queue_id: int, properties: str, body: bytes) -> Command:
        self._ledger.sent[topic].add(body)
        properties = f"UNIQ_KEY\x01{body[:40].decode().split(' ')[0]}\x02{properties}"
        header = send_header(topic, queue_id, properties)
        answer = self._call(address, RequestCode.SEND_MESSAGE_V2, header, body)
        if answer.code == ResponseCode.SERVICE_NOT_AVAILABLE:
            self._ledger.refused[topic].add(body)
        return answer

    def _call(self, address: str, code: int, header: dict[str, str], body: bytes) -> Command:
        if self._connected is None or self._connected.address != address:
            self._disconnect()
            self._connected = Control(address, timeout_s=ANSWER_S)
        answer = self._connected.call(code, header, body)
        if answer.code in NEVER:
            self._ledger.wrong_answers[answer.code] += 1
        return answer

    def _disconnect(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            connected.__exit__(None, None, None)
