"""Frames: large ones, broken ones, ones that do not end."""

import contextlib
import json
import struct
import time

from rocketeer.protocol.command import request
from support.raw_connection import RawConnection
from support.worst_requests.catalogue import broker, nameserver
from support.worst_requests.pieces import (
    MB,
    ask,
    flood,
    frame,
)


@broker("a lock of 100,000 queues")
def _(address: str) -> None:
    queues = [{"topic": "T", "brokerName": "b", "queueId": number} for number in range(100_000)]
    body = json.dumps({"consumerGroup": "g", "clientId": "c", "mqSet": queues}).encode()
    ask(address, request(41, {}, body), request(42, {}, body))


@broker("50 locks of 4,000 queues each", memory_mb=128)
def _(address: str) -> None:
    for number in range(50):
        queues = [{"topic": f"T{number}", "brokerName": "b", "queueId": queue} for queue in range(2_000)]
        ask(
            address,
            request(41, {}, json.dumps({"consumerGroup": "g", "clientId": "c", "mqSet": queues}).encode()),
        )


@broker("a header with a million fields")
def _(address: str) -> None:
    fields = b",".join(b'"k%d":"v"' % number for number in range(1_000_000))
    for code in (310, 11, 34, 9999):
        ask(address, frame(b'{"code":%d,"opaque":7,"extFields":{%s}}' % (code, fields)))


@broker("a binary header with a million fields")
def _(address: str) -> None:
    fields = b"".join(
        struct.pack(">h4si", 4, b"%04x" % (number & 0xFFFF), 1) + b"v" for number in range(1_000_000)
    )
    ask(address, frame(struct.pack(">hBhiiii", 310, 0, 0, 7, 0, 0, len(fields)) + fields, kind=1))


@broker("binary headers with lengths that lie")
def _(address: str) -> None:
    for sizes in ((2**31 - 1, 0), (-1, 0), (0, 2**31 - 1), (0, -1)):
        for _ in range(50):
            ask(address, frame(struct.pack(">hBhiiii", 310, 0, 0, 7, 0, *sizes) + bytes(1000), kind=1))


@broker("JSON 100,000 deep in bodies")
def _(address: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    for code in (34, 41, 42, 46, 200):
        ask(address, request(code, {}, deep), request(code, {}, b'{"a":' + deep + b"}"))


@broker("40 unfinished frames of 15.9 MB", memory_mb=340)
@nameserver("40 unfinished frames of 15.9 MB", memory_mb=340)
def _(address: str) -> None:
    data = struct.pack(">iI", 16 * MB - 64, 0) + bytes(15_900_000)
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            line = stack.enter_context(RawConnection(address))
            with contextlib.suppress(OSError):
                line.send(data)
        time.sleep(0.3)


@broker("500 connections that come and go with half a frame")
def _(address: str) -> None:
    for _ in range(500):
        with RawConnection(address) as line:
            line.send(struct.pack(">iI", 1000, 0) + b"{")


@broker("all topics, groups and offsets asked for 60 times")
def _(address: str) -> None:
    flood(address, [request(code) for _ in range(60) for code in (21, 201, 43)])
