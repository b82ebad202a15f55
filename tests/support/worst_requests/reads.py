"""Pulls, queries, and questions about topics with very many queues."""

import contextlib

from rocketeer.bench.control import Control
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command, encode, request
from support.mutations import recorded_requests
from support.raw_connection import RawConnection
from support.senders import pull_header, send_header
from support.worst_requests.catalogue import Attack, Worst, broker
from support.worst_requests.pieces import (
    COLLIDING,
    FILLED,
    WIDE,
    ask,
    flood,
    held_pull,
    pour,
)

HARMFUL = {10, 11, 17, 34, 35, 207, 215, 310, 320}
"""Not asked about the wide topic: others use it, or these have entries of their own."""


@broker("a pull for 2^31-1 messages with a tag nobody has")
def _(address: str) -> None:
    pull = pull_header(FILLED, 0, 0) | {"maxMsgNums": str(2**31 - 1), "subscription": "nobody"}
    ask(address, *[request(11, pull) for _ in range(3)])


@broker("a pull for 2^31-1 messages and bytes")
def _(address: str) -> None:
    most = {"maxMsgNums": str(2**31 - 1), "rocketeerMaxBytes": str(2**31 - 1), "maxMsgBytes": str(2**31 - 1)}
    ask(address, *[request(11, pull_header(FILLED, 0, 0) | most) for _ in range(3)])


@broker("40,000 held pulls of one connection, and a message", memory_mb=128)
def _(address: str) -> None:
    with Control(address, timeout_s=60) as control, RawConnection(address) as line:
        control.create_topic("HeldOne", queues=1)
        pull = encode(held_pull("HeldOne", 0))
        pour(line, pull * 40_000)
        assert control.call(310, send_header("HeldOne", 0, ""), b"x").code == ResponseCode.SUCCESS
        line.ask(request(9999))


@broker("40,000 held pulls that look through a filter for nothing", memory_mb=128)
def _(address: str) -> None:
    with contextlib.ExitStack() as stack:
        control = stack.enter_context(Control(address, timeout_s=60))
        control.create_topic("HeldFilter", queues=1)
        lines = [stack.enter_context(RawConnection(address)) for _ in range(8)]
        pull = encode(held_pull("HeldFilter", 0, subscription="a = 1 AND b = 2", expressionType="SQL92"))
        for line in lines:
            pour(line, pull * 5_000)
        for _ in range(3):
            assert (
                control.call(310, send_header("HeldFilter", 0, "a\x012\x02"), b"x").code
                == ResponseCode.SUCCESS
            )
        lines[0].ask(request(9999))


@broker("queries for a key whose hash 32,768 messages share")
def _(address: str) -> None:
    query = {
        "topic": COLLIDING,
        "key": "BB" * 15,
        "maxNum": "64",
        "beginTimestamp": "0",
        "endTimestamp": str(2**62),
    }
    ask(address, *[request(12, query) for _ in range(3)])


@broker("a query that finds 64 large messages")
def _(address: str) -> None:
    query = {
        "topic": "Heavy",
        "key": "heavy",
        "maxNum": "64",
        "beginTimestamp": "0",
        "endTimestamp": str(2**62),
    }
    ask(address, *[request(12, query) for _ in range(3)])


@broker("20,000 questions for offsets of queues that are not there")
def _(address: str) -> None:
    where = [
        {"topic": f"none{n}", "queueId": "0", "timestamp": "5", "consumerGroup": f"none{n}"}
        for n in range(2_500)
    ]
    flood(address, [request(code, ext) for ext in where for code in (29, 30, 31, 32, 14, 29, 30, 31)])


@broker("a reset of 65,535 queues")
def _(address: str) -> None:
    ext = {"topic": WIDE, "group": "wide", "timestamp": "1", "isForce": "true"}
    ask(address, request(222, ext))


@broker("a topic of 65,535 queues made and deleted")
def _(address: str) -> None:
    topic = {
        "topic": "Wide2",
        "defaultTopic": "TBW102",
        "readQueueNums": "65535",
        "writeQueueNums": "65535",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    ask(address, request(17, topic), request(215, {"topic": "Wide2"}))


def _about_wide(code: int) -> list[Command]:
    """The recorded requests of a code, about the topic with very many queues and the group that consumes it."""
    found = []
    for each in recorded_requests():
        if each.header["code"] == code and not each.to_namesrv:
            ext = {name: str(value) for name, value in (each.header.get("extFields") or {}).items()}
            for name in ext:
                if "topic" in name.lower():
                    ext[name] = WIDE
                elif "group" in name.lower():
                    ext[name] = "wide"
            found.append(request(code, ext, each.body))
    return found


def _wide_attack(code: int) -> Attack:
    return lambda address: [ask(address, command) for command in _about_wide(code)] and None


WIDE_CODES = sorted({each.header["code"] for each in recorded_requests() if not each.to_namesrv} - HARMFUL)
EACH_WIDE = [
    Worst(f"request {code} about a topic of 65,535 queues", _wide_attack(code)) for code in WIDE_CODES
]
"""For a closer look than the entry of all of them gives."""


@broker("every recorded request about a topic of 65,535 queues", memory_mb=96)
def _(address: str) -> None:
    for worst in EACH_WIDE:
        worst.attack(address)
