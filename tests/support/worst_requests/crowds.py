"""Crowds: many new connections at once, each with one request that takes the loop for long."""

import contextlib
import threading

from rocketeer.protocol.command import Command, encode, request
from rocketeer.record.batch import BatchItem, encode_batch
from support.hold import HONEST_TOPIC
from support.raw_connection import RawConnection
from support.senders import pull_header, send_header
from support.worst_requests.catalogue import Attack, broker
from support.worst_requests.pieces import FILLED, WIDE

FEW = 16
LARGE = 64
SMALL = 500


def crowd(command: Command, size: int) -> Attack:
    """All of them connect and have sent nearly all of the request before the first one sends its end."""
    data = encode(command)

    def attack(address: str) -> None:
        with contextlib.ExitStack() as stack:
            lines = [stack.enter_context(RawConnection(address)) for _ in range(size)]
            senders = [threading.Thread(target=line.send, args=(data[:-1],), daemon=True) for line in lines]
            for sender in senders:
                sender.start()
            for sender in senders:
                sender.join(60)
            for line in lines:
                line.send(data[-1:])
            for line in lines:
                line.receive()

    return attack


def _batch(count: int, properties: bytes) -> Command:
    items = [BatchItem(0, b"", properties) for _ in range(count)]
    return request(320, send_header(HONEST_TOPIC, 0, "", batch=True), encode_batch(items))


SQL = " OR ".join(f"missing{number} = {number}" for number in range(250))

broker(f"{SMALL} connections with a batch of 1,000 messages each", memory_mb=128)(
    crowd(_batch(1_000, b"KEYS\x01a b c\x02"), SMALL)
)
broker(f"{LARGE} connections with a batch of 16,000 messages each", memory_mb=128)(
    crowd(_batch(16_000, b"KEYS\x01a\x02"), LARGE)
)
broker(f"{LARGE} connections with a batch of 1,000 messages with keys that are not UTF-8 each")(
    crowd(_batch(1_000, b"KEYS\x01\xff\x02"), LARGE)
)
broker(f"{LARGE} connections with a message of 15,000 keys each")(
    crowd(request(310, send_header(HONEST_TOPIC, 0, "KEYS\x01" + "a " * 15_000), b"x"), LARGE)
)
broker(f"{LARGE} connections with a message of 4 MB each", memory_mb=340)(
    crowd(request(310, send_header(HONEST_TOPIC, 0, ""), bytes(4_000_000)), LARGE)
)
broker(f"{SMALL} connections with a pull through SQL that never matches each")(
    crowd(request(11, pull_header(FILLED, 0, 0) | {"subscription": SQL, "expressionType": "SQL92"}), SMALL)
)
broker(f"{SMALL} connections with a pull for a tag nobody has each")(
    crowd(request(11, pull_header(FILLED, 0, 0) | {"maxMsgNums": str(2**31 - 1), "subscription": "x"}), SMALL)
)
broker(f"{SMALL} connections that ask for all topics each", memory_mb=340)(crowd(request(21), SMALL))
broker(f"{FEW} connections that ask for the offsets of a topic of 65,535 queues each", memory_mb=400)(
    crowd(request(208, {"consumerGroup": "wide", "topic": WIDE}), FEW)
)
