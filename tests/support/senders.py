"""Load that keeps a ledger: what was sent, what was acknowledged and where; and a reader that pulls everything.

A `Sender` is one connection with many requests in flight, in a thread of its own. It ends by itself when the
broker goes. Bodies are unique, so that a body that is read tells which send it came from.
"""

import contextlib
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from rocketeer.bench.control import Control
from rocketeer.errors import RemotingError
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, decode_frame, encode, request
from rocketeer.protocol.frame import FrameSplitter
from rocketeer.record.batch import BatchItem, encode_batch
from rocketeer.record.layout import StoredMessage
from rocketeer.remoting.address import split_address
from support.records import sent_body, split_records

Kind = Literal["plain", "batch", "delayed"]

BATCH_ITEMS = 8
DELAY_LEVEL = 1
ANSWER_S = 60.0
"""How long a reply may take on a machine that is busy with other things."""


class Acked(NamedTuple):
    """What the broker said of one message: it is stored, there."""

    body: bytes
    queue_id: int
    queue_offset: int
    message_id: str


def key_of(body: bytes) -> str:
    """The KEYS of a message are the first word of its body."""
    return body.split(b" ", 1)[0].decode()


class Sender(threading.Thread):
    """Sends to all queues of a topic in turn until `finish`, or until the connection is lost."""

    def __init__(
        self,
        address: str,
        topic: str,
        *,
        name: str,
        queues: int = 4,
        kind: Kind = "plain",
        window: int = 32,
        body_bytes_max: int = 2000,
        seed: int = 0,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._address = address
        self._topic = topic
        self._queues = queues
        self._kind = kind
        self._window = window
        self._body_bytes_max = body_bytes_max
        self._random = random.Random(f"{name} {seed}")
        self._ending = threading.Event()
        self._waiting: dict[int, list[bytes]] = {}
        self.sent: list[bytes] = []
        self.acked: list[Acked] = []
        self.refused: Counter[tuple[int, str | None]] = Counter()
        self.lost_connection = False

    def __repr__(self) -> str:
        return (
            f"{self.name}(sent={len(self.sent)} acked={len(self.acked)} in_flight={len(self._waiting)} "
            f"refused={dict(self.refused)} lost_connection={self.lost_connection} alive={self.is_alive()})"
        )

    def finish(self) -> None:
        """Send nothing more, wait for what is in flight."""
        self._ending.set()
        self.join(ANSWER_S)
        assert not self.is_alive(), f"{self.name}: {len(self._waiting)} sends were not answered"

    def run(self) -> None:
        splitter = FrameSplitter()
        try:
            with socket.create_connection(split_address(self._address), ANSWER_S) as connection:
                while not self._ending.is_set() or self._waiting:
                    frames = []
                    while len(self._waiting) < self._window and not self._ending.is_set():
                        frames.append(self._next_request())
                    if frames:
                        connection.sendall(b"".join(frames))
                    data = connection.recv(1 << 16)
                    if not data:
                        raise ConnectionResetError
                    for frame in splitter.feed(data):
                        self._answered(decode_frame(*frame))
        except OSError:
            self.lost_connection = True

    def _next_request(self) -> bytes:
        count = BATCH_ITEMS if self._kind == "batch" else 1
        bodies = [self._next_body() for _ in range(count)]
        queue_id = len(self.sent) // count % self._queues
        ext = send_header(self._topic, queue_id, self._properties(bodies[0]), batch=self._kind == "batch")
        if self._kind == "batch":
            items = [BatchItem(0, body, self._properties(body).encode()) for body in bodies]
            command = request(RequestCode.SEND_BATCH_MESSAGE, ext | {"i": ""}, encode_batch(items))
        else:
            command = request(RequestCode.SEND_MESSAGE_V2, ext, bodies[0])
        self._waiting[command.opaque] = bodies
        return encode(command)

    def _next_body(self) -> bytes:
        name = f"{self.name}-{len(self.sent)} ".encode()
        body = name + self._random.randbytes(self._random.randrange(self._body_bytes_max))
        self.sent.append(body)
        return body

    def _properties(self, body: bytes) -> str:
        delay = f"DELAY\x01{DELAY_LEVEL}\x02" if self._kind == "delayed" else ""
        key = key_of(body)
        return f"KEYS\x01{key}\x02UNIQ_KEY\x01U{key}\x02{delay}TAGS\x01TagA\x02"

    def _answered(self, reply: Command) -> None:
        bodies = self._waiting.pop(reply.opaque)
        if reply.code != ResponseCode.SUCCESS:
            self.refused[reply.code, reply.remark] += 1
            return
        queue_id, first = int(reply.ext["queueId"]), int(reply.ext["queueOffset"])
        ids = reply.ext["msgId"].split(",")
        for place, (body, message_id) in enumerate(zip(bodies, ids, strict=True)):
            self.acked.append(Acked(body, queue_id, first + place, message_id))


def send_header(topic: str, queue_id: int, properties: str, *, batch: bool = False) -> dict[str, str]:
    """The fields of SEND_MESSAGE_V2 under their short names."""
    return {
        "a": "PG", "b": topic, "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0", "g": "1700000000000",
        "h": "0", "i": properties, "j": "0", "k": "false", "m": "true" if batch else "false",
    }  # fmt: skip


def pull_header(topic: str, queue_id: int, offset: int) -> dict[str, str]:
    """The fields of a pull that carries its own subscription and does not wait."""
    return {
        "consumerGroup": "CG", "topic": topic, "queueId": str(queue_id), "queueOffset": str(offset),
        "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
        "subscription": "*", "subVersion": "0", "expressionType": "TAG",
    }  # fmt: skip


def read_queue(broker: Control, topic: str, queue_id: int, offset: int = 0) -> list[StoredMessage]:
    """Every message of a queue from `offset` on, pulled as a consumer pulls them."""
    messages: list[StoredMessage] = []
    while True:
        reply = broker.call(RequestCode.PULL_MESSAGE, pull_header(topic, queue_id, offset))
        if reply.code != ResponseCode.SUCCESS:
            assert reply.code == ResponseCode.PULL_NOT_FOUND, f"{topic}:{queue_id} at {offset}: {reply}"
            return messages
        messages += split_records(reply.body)
        assert int(reply.ext["nextBeginOffset"]) > offset, reply.ext
        offset = int(reply.ext["nextBeginOffset"])


def read_topic(address: str, topic: str, queues: int = 4) -> list[list[StoredMessage]]:
    """Every message of every queue."""
    with Control(address, timeout_s=ANSWER_S) as broker:
        return [read_queue(broker, topic, queue_id) for queue_id in range(queues)]


def query_by_key(broker: Control, topic: str, key: str) -> list[StoredMessage]:
    """What QUERY_MESSAGE finds for one key."""
    header = {
        "topic": topic, "key": key, "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str((1 << 63) - 1),
    }  # fmt: skip
    reply = broker.call(RequestCode.QUERY_MESSAGE, header)
    return list(split_records(reply.body)) if reply.code == ResponseCode.SUCCESS else []


def assert_ledger_holds(
    queues: list[list[StoredMessage]],
    *,
    sent: Iterable[bytes],
    acked: Iterable[Acked],
) -> None:
    """Nothing acknowledged is lost or moved, nothing is invented or doubled, offsets are dense."""
    allowed = set(sent)
    seen: Counter[bytes] = Counter()
    for queue_id, messages in enumerate(queues):
        assert [message.queue_offset for message in messages] == list(range(len(messages)))
        assert all(message.queue_id == queue_id for message in messages)
        positions = [message.log_offset for message in messages]
        assert positions == sorted(set(positions)), "a queue follows the log"
        seen.update(sent_body(message) for message in messages)
    invented = [body[:40] for body in seen if body not in allowed]
    assert not invented, f"{len(invented)} messages nobody sent: {invented[:3]}"
    doubled = [body[:40] for body, count in seen.items() if count > 1]
    assert not doubled, f"{len(doubled)} messages stored twice: {doubled[:3]}"
    lost = []
    for ack in acked:
        queue = queues[ack.queue_id]
        there = queue[ack.queue_offset] if ack.queue_offset < len(queue) else None
        if there is None or there.body != ack.body or there.offset_msg_id != ack.message_id:
            lost.append((ack.body[:40], ack.queue_id, ack.queue_offset))
    assert not lost, f"{len(lost)} acknowledged messages are not where they were: {lost[:3]}"


def wait_for(
    condition: Callable[[], bool], *, timeout_s: float = ANSWER_S, what: str, state: object = ""
) -> None:
    """Poll until it holds; connections that break meanwhile count as not yet. `state` is shown when it fails."""
    give_up_s = time.monotonic() + timeout_s
    while True:
        with contextlib.suppress(RemotingError):
            if condition():
                return
        assert time.monotonic() < give_up_s, f"not within {timeout_s:g} s: {what} {state}"
        time.sleep(0.05)
