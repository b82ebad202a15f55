"""Clients: heartbeats, goodbyes, questions to members."""

import contextlib
import json
import socket
import struct
import threading
import time

from rocketeer.protocol.command import encode, request
from support.hold import HONEST_TOPIC
from support.raw_connection import RawConnection
from support.senders import send_header
from support.worst_requests.catalogue import broker
from support.worst_requests.pieces import (
    FILLED,
    WIDE,
    ask,
    flood,
    heartbeat,
    held_pull,
    names,
    pour,
    read_to_the_end,
)


@broker("a heartbeat with 60,000 groups")
def _(address: str) -> None:
    ask(address, request(34, {}, heartbeat(names("many-", 60_000))))


@broker("a heartbeat with 60,000 groups and little else")
def _(address: str) -> None:
    body = json.dumps(
        {"clientID": "c", "consumerDataSet": [{"groupName": f"few{n}"} for n in range(60_000)]}
    ).encode()
    ask(address, request(34, {}, body))


@broker("a heartbeat with 100,000 subscriptions")
def _(address: str) -> None:
    ask(address, request(34, {}, heartbeat(["G"], topics=names("topic-", 100_000))))


@broker("a heartbeat with a subscription that has 240,000 tags, and one with 500,000 codes")
def _(address: str) -> None:
    for told in ({"tagsSet": ["a"] * 240_000}, {"codeSet": [1] * 500_000}):
        consumer = {"groupName": "tags", "subscriptionDataSet": [{"topic": "T", "subString": "a"} | told]}
        body = json.dumps({"clientID": "c", "consumerDataSet": [consumer]}, separators=(",", ":")).encode()
        check = {"clientId": "c", "group": "g", "subscriptionData": {"topic": "T", "subString": "a"} | told}
        ask(
            address,
            request(34, {}, body),
            request(34, {}, body),
            request(46, {}, json.dumps(check, separators=(",", ":")).encode()),
        )


@broker("a heartbeat with 100,000 producer groups")
def _(address: str) -> None:
    producers = [{"groupName": name} for name in names("p-", 100_000)]
    ask(address, request(34, {}, json.dumps({"clientID": "c", "producerDataSet": producers}).encode()))


@broker("20 heartbeats with 500 groups each, then the end of the connection")
def _(address: str) -> None:
    beats = [request(34, {}, heartbeat(names(f"h{number}-", 500))) for number in range(20)]
    flood(address, beats)


@broker("100 clients with 100 groups each disappear")
def _(address: str) -> None:
    body = [heartbeat(names("d-", 100), client=f"c{number}") for number in range(100)]
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(RawConnection(address)) for _ in body]
        for line, beat in zip(lines, body, strict=True):
            line.send(request(34, {}, beat))
        for line in lines:
            line.reply()


@broker("1,500 members of a group, each with a held pull, are reset together", memory_mb=128)
def _(address: str) -> None:
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(RawConnection(address)) for _ in range(1_500)]
        for number, line in enumerate(lines):
            line.send(request(34, {}, heartbeat(["crowd"], client=f"c{number}")))
            line.send(held_pull(FILLED, 10**9))
        for line in lines:
            line.reply()
        for line in lines:
            line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@broker("unregistering 8,000 groups that are not there")
def _(address: str) -> None:
    flood(
        address,
        [
            request(35, {"clientID": "c", "producerGroup": f"u{n}", "consumerGroup": f"u{n}"})
            for n in range(8_000)
        ],
    )


@broker("20,000 questions to a member that does not answer")
def _(address: str) -> None:
    with RawConnection(address) as silent:
        silent.send(request(34, {}, heartbeat(["silent"], client="silent")))
        silent.reply()
        asked = {"consumerGroup": "silent", "clientId": "silent"}
        with RawConnection(address) as line:
            pour(line, b"".join(encode(request(307, asked, bytes(500))) for _ in range(20_000)))


@broker("32,000 questions with headers of 30 KB about members that do not answer", memory_mb=360)
def _(address: str) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(5):
            member = stack.enter_context(RawConnection(address))
            member.ask(request(34, {}, heartbeat(["deaf"], client=f"deaf{number}")))
        data = encode(request(223, {"group": "deaf", "topic": "T", "x": "y" * 30_000})) * 4_000
        for line in [stack.enter_context(RawConnection(address)) for _ in range(8)]:
            pour(line, data)


@broker(
    "300 wishes to consume a message of 4 MB, of nobody and of a member that does not answer", memory_mb=48
)
def _(address: str) -> None:
    with RawConnection(address) as line, RawConnection(address) as member:
        stored = line.ask(request(310, send_header(HONEST_TOPIC, 0, ""), bytes(4_190_000)))
        member.ask(request(34, {}, heartbeat(["takes"], client="takes")))
        threading.Thread(target=read_to_the_end, args=(member,), daemon=True).start()
        wish = {"consumerGroup": "takes", "msgId": stored.ext["msgId"]}
        flood(address, [request(309, wish | {"clientId": "nobody"})] * 150)
        for _ in range(150):
            line.send(request(309, wish | {"clientId": "takes"}))
            time.sleep(0.005)


@broker("4,000 settings of groups at once")
def _(address: str) -> None:
    bodies = [json.dumps({"groupName": f"set{number}"}).encode() for number in range(4_000)]
    flood(address, [request(200, {}, body) for body in bodies])


@broker("32 connections with 1,000 small requests each at once", memory_mb=128)
def _(address: str) -> None:
    data = b"".join(encode(request(29, {"topic": f"none{n}", "queueId": "0"})) for n in range(1_000))
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(RawConnection(address)) for _ in range(32)]
        threads = [threading.Thread(target=pour, args=(line, data), daemon=True) for line in lines]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)


@broker("a reset of 65,535 queues with 20 members", memory_mb=300)
def _(address: str) -> None:
    ext = {"topic": WIDE, "group": "wide", "timestamp": "1", "isForce": "true"}
    with contextlib.ExitStack() as stack:
        members = [stack.enter_context(RawConnection(address)) for _ in range(20)]
        for number, member in enumerate(members):
            member.ask(request(34, {}, heartbeat(["wide"], topics=[WIDE], client=f"w{number}")))
        readers = [threading.Thread(target=read_to_the_end, args=(each,), daemon=True) for each in members]
        for reader in readers:
            reader.start()
        ask(address, request(222, ext))


@broker("a group of 4,000 members, asked for")
def _(address: str) -> None:
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(RawConnection(address)) for _ in range(4_000)]
        for number, line in enumerate(lines):
            line.send(request(34, {}, heartbeat(["crowd"], client=f"m{number}")))
        for line in lines:
            line.reply()
        ask(address, *[request(code, {"consumerGroup": "crowd"}) for code in (203, 38) * 3])


@broker("a producer that calls itself otherwise 30,000 times", memory_mb=6)
def _(address: str) -> None:
    flood(
        address,
        [
            request(
                34,
                {},
                json.dumps({"clientID": f"{n:0500}", "producerDataSet": [{"groupName": "p"}]}).encode(),
            )
            for n in range(30_000)
        ],
    )
