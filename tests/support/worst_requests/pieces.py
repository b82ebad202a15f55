"""What attacks are made of."""

import contextlib
import json
import struct
import threading
from collections.abc import Iterable, Iterator
from itertools import product

from rocketeer.protocol.command import Command, encode, request
from support.raw_connection import RawConnection
from support.senders import pull_header

MB = 1 << 20
FILLED = "Filled"
"""A topic with messages of eight properties in its only queue."""
FILLED_MESSAGES = 12_000
COLLIDING = "Colliding"
"""A topic whose messages have different keys of the same hash."""
COLLIDING_MESSAGES = 1 << 15
WIDE = "Wide"
"""A topic with as many queues as a topic may have."""


def frame(header: bytes, body: bytes = b"", kind: int = 0) -> bytes:
    return struct.pack(">iI", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


def ask(address: str, *commands: Command | bytes) -> list[Command | None]:
    """One after the other on one connection; None where the server closed it instead of answering."""
    with RawConnection(address) as line:
        replies: list[Command | None] = []
        for command in commands:
            try:
                line.send(command)
                replies.append(line.receive())
            except OSError:
                replies.append(None)
            if replies[-1] is None:
                break
        return replies


def flood(address: str, commands: Iterable[Command], last: Command | None = None) -> None:
    """All at once on one connection, then a question whose answer says that they are through."""
    with RawConnection(address) as line:
        pour(line, b"".join(map(encode, commands)), last)


def pour(line: RawConnection, data: bytes, last: Command | None = None) -> None:
    """Send without waiting for answers, and read them all the same: else the server would stop to read."""
    last = last or request(9999)
    sender = threading.Thread(target=line.send, args=(data + encode(last),), daemon=True)
    sender.start()
    while True:
        reply = line.receive()
        if reply is None or (reply.is_response and reply.opaque == last.opaque):
            break
    sender.join(60)


def heartbeat(
    groups: Iterable[str], *, topics: Iterable[str] = ("T",), sql: str | None = None, client: str = "c"
) -> bytes:
    kind, text = ("TAG", "*") if sql is None else ("SQL92", sql)
    subscriptions = [
        {"topic": topic, "subString": text, "expressionType": kind, "subVersion": 1} for topic in topics
    ]
    consumers = [{"groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": subscriptions} for group in groups]  # fmt: skip
    return json.dumps({"clientID": client, "producerDataSet": [], "consumerDataSet": consumers}).encode()


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def colliding_keys(count: int) -> Iterator[str]:
    """Different texts with one hashCode."""
    for number, letters in enumerate(product(("Aa", "BB"), repeat=15)):
        if number == count:
            return
        yield "".join(letters)


def held_pull(topic: str, offset: int, **fields: str) -> Command:
    wait = {"sysFlag": "6", "suspendTimeoutMillis": "20000"}
    return request(11, pull_header(topic, 0, offset) | wait | fields)


def read_to_the_end(line: RawConnection) -> None:
    with contextlib.suppress(OSError):
        while line.socket.recv(1 << 20):
            pass
