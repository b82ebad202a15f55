"""Sends, batches, and what they make the broker keep."""

import contextlib
import struct

from rocketeer.protocol.command import Command, request
from rocketeer.record.batch import BatchItem, encode_batch
from support.hold import HONEST_TOPIC
from support.raw_connection import RawConnection
from support.senders import pull_header, send_header
from support.worst_requests.catalogue import broker
from support.worst_requests.pieces import FILLED, ask, flood


@broker("a batch of 190,000 empty messages")
def _(address: str) -> None:
    item = struct.pack(">iiiiih", 22, 0, 0, 0, 0, 0)
    ask(address, request(320, send_header(FILLED + "2", 0, "", batch=True), item * 190_000))


@broker("a batch of 60,000 messages with keys")
def _(address: str) -> None:
    items = [BatchItem(0, b"", f"KEYS\x01k{number}\x02".encode()) for number in range(60_000)]
    ask(address, request(320, send_header(HONEST_TOPIC, 0, "", batch=True), encode_batch(items)))


@broker("a batch of 16,000 messages with keys")
def _(address: str) -> None:
    items = [BatchItem(0, b"", f"KEYS\x01k{number}\x02".encode()) for number in range(16_000)]
    ask(address, request(320, send_header(HONEST_TOPIC, 0, "", batch=True), encode_batch(items)))


@broker("a batch of 2,000 messages with keys that are not UTF-8")
def _(address: str) -> None:
    items = [BatchItem(0, b"", b"KEYS\x01\xff%d\x02" % number) for number in range(2_000)]
    ask(address, request(320, send_header(HONEST_TOPIC, 0, "", batch=True), encode_batch(items)))


def _of_idempotent_producers(count: int) -> list[Command]:
    """Batches of 2,000 messages of 2,000 bytes, each with an id."""
    header = send_header(HONEST_TOPIC, 0, "", batch=True)
    return [
        request(
            320,
            header,
            encode_batch(
                [
                    BatchItem(
                        0, bytes(2_000), b"PRODUCER_ID\x01p%d\x02DEDUP_ID\x01%d\x02" % (producer, number)
                    )
                    for number in range(2_000)
                ]
            ),
        )
        for producer in range(count)
    ]


@broker("8 batches of 2,000 messages of idempotent producers, then the same again", memory_mb=128)
def _(address: str) -> None:
    batches = _of_idempotent_producers(8)
    flood(address, batches, last=batches[0])
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(RawConnection(address)) for _ in batches]
        for line, batch in zip(lines, batches, strict=True):
            line.send(batch)
        for line in lines:
            line.receive()


@broker("300 messages with 15,000 keys each, then a query")
def _(address: str) -> None:
    send = request(310, send_header(HONEST_TOPIC, 0, "KEYS\x01" + "a " * 15_000), b"x")
    query = {
        "topic": HONEST_TOPIC,
        "key": "zzz",
        "maxNum": "64",
        "beginTimestamp": "0",
        "endTimestamp": str(2**62),
    }
    flood(address, [send] * 300, last=request(12, query))


@broker("20 batches with 60,000 keys each, then one with two million")
def _(address: str) -> None:
    header = send_header(HONEST_TOPIC, 0, "", batch=True)
    keys = [f"{n:x}" for n in range(15_000)]
    full = encode_batch([BatchItem(0, b"x", b"KEYS\x01" + " ".join(keys[:6_000]).encode())] * 10)
    beyond = encode_batch([BatchItem(0, b"x", b"KEYS\x01" + b"a " * 15_000)] * 120)
    flood(address, [request(320, header, full)] * 20, last=request(320, header, beyond))


@broker("batches of 2,000 messages with 30,000 characters of properties in common, five times")
def _(address: str) -> None:
    header = send_header(HONEST_TOPIC, 0, "p\x01" + "v" * 30_000, batch=True)
    body = encode_batch([BatchItem(0, b"", b"")] * 2_000)
    flood(address, [request(320, header, body)] * 5)


@broker("properties with a million separators")
def _(address: str) -> None:
    for separators in ("\x01" * 1_000_000, "\x02" * 1_000_000, "a\x01b\x02" * 500_000):
        ask(address, request(310, send_header(HONEST_TOPIC, 0, separators), b"x"))


@broker("properties with 30,000 separators, 300 times")
def _(address: str) -> None:
    flood(
        address,
        [request(310, send_header(HONEST_TOPIC, 0, "DELAY\x010\x02" + "\x01\x02" * 15_000), b"x")] * 300,
    )


@broker("1,000 messages whose numbers are none, or of 5,000 digits")
def _(address: str) -> None:
    properties = [
        f"PRODUCER_ID\x01p{digits[:1]}\x02PRODUCER_SEQ\x01{number}\x02REAL_TOPIC\x01x\x02REAL_QID\x01{digits}\x02"
        f"DELAY\x01{digits}\x02TIMER_DELAY_MS\x01{digits}\x02"
        for digits in ("9" * 5_000, "²", "٣", "-", "9" * 19)
        for number in range(200)
    ]
    flood(address, [request(310, send_header(HONEST_TOPIC, 0, each), b"x") for each in properties])


@broker("2,000 new topics by sending")
def _(address: str) -> None:
    flood(address, [request(310, send_header(f"storm-{n}", 0, ""), b"x") for n in range(2_000)])


@broker("8,000 new groups by pulling")
def _(address: str) -> None:
    flood(
        address,
        [request(11, pull_header(FILLED, 0, 10**9) | {"consumerGroup": f"storm-{n}"}) for n in range(8_000)],
    )


@broker("50,000 offsets of 50,000 groups and topics", memory_mb=96)
def _(address: str) -> None:
    where = {"queueId": "0", "commitOffset": "5"}
    flood(
        address,
        [
            request(15, where | {"consumerGroup": f"off{n}", "topic": f"off{n}"}, oneway=True)
            for n in range(50_000)
        ],
    )


@broker("30,000 offsets of one group's queues")
def _(address: str) -> None:
    flood(
        address,
        [
            request(
                15,
                {"consumerGroup": "g", "topic": FILLED, "queueId": str(n), "commitOffset": "5"},
                oneway=True,
            )
            for n in range(30_000)
        ],
    )
