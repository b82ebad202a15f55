"""The catalogue of worst requests: for each its name, the frames, and how much memory it may take from the server.

An attack uses the server until everything it sent was answered or refused; what it costs others is measured by
`support.hold`. `python -m support.worst_requests` (with PYTHONPATH=tests) prints the table for both servers.
"""

import contextlib
import json
import struct
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from rocketeer.bench.control import Control
from rocketeer.model.data_version import DataVersion
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.bodies.register import encode_registration
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command, encode, request
from rocketeer.record.batch import BatchItem, encode_batch
from support.cluster import Cluster, running_cluster
from support.hold import HONEST_TOPIC, Cost, HonestClient
from support.mutations import recorded_requests
from support.senders import pull_header, send_header
from support.wire import Line

MB = 1 << 20
FILLED = "Filled"
"""A topic with messages of eight properties in its only queue."""
FILLED_MESSAGES = 12_000
COLLIDING = "Colliding"
"""A topic whose messages have different keys of the same hash."""
COLLIDING_MESSAGES = 1 << 15
WIDE = "Wide"
"""A topic with as many queues as a topic may have."""

HARMFUL = {10, 11, 17, 34, 35, 207, 215, 310, 320}
"""Not asked about the wide topic: others use it, or these have entries of their own."""

Attack = Callable[[str], None]


@dataclass(frozen=True)
class Worst:
    """One entry: what it does, at most how many MB the server may take for it."""

    name: str
    attack: Attack
    memory_mb: int = 64


BROKER: list[Worst] = []
NAMESERVER: list[Worst] = []


def broker(name: str, memory_mb: int = 64) -> Callable[[Attack], Attack]:
    def add(attack: Attack) -> Attack:
        BROKER.append(Worst(name, attack, memory_mb))
        return attack

    return add


def nameserver(name: str, memory_mb: int = 64) -> Callable[[Attack], Attack]:
    def add(attack: Attack) -> Attack:
        NAMESERVER.append(Worst(name, attack, memory_mb))
        return attack

    return add


# --- pieces ------------------------------------------------------------------------------------


def frame(header: bytes, body: bytes = b"", kind: int = 0) -> bytes:
    return struct.pack(">iI", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


def ask(address: str, *commands: Command | bytes) -> list[Command | None]:
    """One after the other on one connection; None where the server closed it instead of answering."""
    with Line(address) as line:
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
    with Line(address) as line:
        pour(line, b"".join(map(encode, commands)), last)


def pour(line: Line, data: bytes, last: Command | None = None) -> None:
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


SQL_SHAPES = {
    "parentheses": "(" * 32_000 + "a=1" + ")" * 32_000,
    "a row of terms": " AND ".join(["a=1"] * 7_000),
    "nested to the right": "(a=1 AND " * 6_000 + "a=1" + ")" * 6_000,
    "nested to the left": "(" * 5_000 + "a=1" + " AND a=1)" * 5_000,
    "alternating": "(" * 70 + "a=1" + " AND a=1) OR (b=1 OR c=2)" * 70,
    "NOT NOT NOT": "NOT " * 16_000 + "a=1",
    "minus signs": "- " * 30_000 + "1 = a",
    "a list": "a IN (" + ",".join(["'x'"] * 16_000) + ")",
    "comments": "--\n" * 20_000 + "a=1",
    "an unclosed parenthesis": "(" * 60_000 + "a",
}


# --- broker: clients -----------------------------------------------------------------------------


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
        lines = [stack.enter_context(Line(address)) for _ in body]
        for line, beat in zip(lines, body, strict=True):
            line.send(request(34, {}, beat))
        for line in lines:
            line.reply()


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
    with Line(address) as silent:
        silent.send(request(34, {}, heartbeat(["silent"], client="silent")))
        silent.reply()
        asked = {"consumerGroup": "silent", "clientId": "silent"}
        with Line(address) as line:
            pour(line, b"".join(encode(request(307, asked, bytes(500))) for _ in range(20_000)))


@broker("32 connections with 1,000 small requests each at once", memory_mb=128)
def _(address: str) -> None:
    data = b"".join(encode(request(29, {"topic": f"none{n}", "queueId": "0"})) for n in range(1_000))
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(Line(address)) for _ in range(32)]
        threads = [threading.Thread(target=pour, args=(line, data), daemon=True) for line in lines]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)


@broker("a reset of 65,535 queues with 20 members", memory_mb=300)
def _(address: str) -> None:
    ext = {"topic": WIDE, "group": "wide", "timestamp": "1", "isForce": "true"}
    with contextlib.ExitStack() as stack:
        members = [stack.enter_context(Line(address)) for _ in range(20)]
        for number, member in enumerate(members):
            member.ask(request(34, {}, heartbeat(["wide"], topics=[WIDE], client=f"w{number}")))
        readers = [threading.Thread(target=_read_to_the_end, args=(each,), daemon=True) for each in members]
        for reader in readers:
            reader.start()
        ask(address, request(222, ext))


def _read_to_the_end(line: Line) -> None:
    with contextlib.suppress(OSError):
        while line.socket.recv(1 << 20):
            pass


# --- broker: filters -----------------------------------------------------------------------------


def _sql_pull(expression: str) -> Attack:
    def attack(address: str) -> None:
        pull = pull_header(FILLED, 0, 0) | {"subscription": expression, "expressionType": "SQL92"}
        ask(address, request(11, pull))

    return attack


for _shape, _expression in SQL_SHAPES.items():
    BROKER.append(Worst(f"a pull with 64 KB of SQL: {_shape}", _sql_pull(_expression)))


@broker("checks of long SQL expressions")
def _(address: str) -> None:
    for expression in SQL_SHAPES.values():
        told = {
            "clientId": "c",
            "group": "g",
            "subscriptionData": {"topic": "T", "subString": expression, "expressionType": "SQL92"},
        }
        ask(address, request(46, {}, json.dumps(told).encode()))


@broker("a heartbeat with 200 long SQL subscriptions")
def _(address: str) -> None:
    expression = " AND ".join(f"a{number} = {number}" for number in range(300))
    ask(address, request(34, {}, heartbeat(["sql"], topics=names("s-", 200), sql=expression)))


@broker("pulls through SQL with 250 terms that never match")
def _(address: str) -> None:
    expression = " OR ".join(f"missing{number} = {number}" for number in range(250))
    pull = pull_header(FILLED, 0, 0) | {"subscription": expression, "expressionType": "SQL92"}
    ask(address, *[request(11, pull) for _ in range(4)])


@broker("pulls through SQL that looks for texts")
def _(address: str) -> None:
    expression = " OR ".join(f"p{number % 8} CONTAINS 'xyz{number}'" for number in range(200))
    pull = pull_header(FILLED, 0, 0) | {"subscription": expression, "expressionType": "SQL92"}
    ask(address, *[request(11, pull) for _ in range(4)])


@broker("a pull with 500,000 tags")
def _(address: str) -> None:
    ask(address, request(11, pull_header(FILLED, 0, 0) | {"subscription": "||".join(names("t", 500_000))}))


# --- broker: pulls and queries -------------------------------------------------------------------


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
    with Control(address, timeout_s=60) as control, Line(address) as line:
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
        lines = [stack.enter_context(Line(address)) for _ in range(8)]
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


# --- broker: sends -------------------------------------------------------------------------------


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


@broker("a batch of 2,000 messages with keys beyond ASCII")
def _(address: str) -> None:
    items = [BatchItem(0, b"", f"KEYS\x01größe{number}\x02".encode()) for number in range(2_000)]
    ask(address, request(320, send_header(HONEST_TOPIC, 0, "", batch=True), encode_batch(items)))


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


# --- broker: frames ------------------------------------------------------------------------------


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
def _(address: str) -> None:
    data = struct.pack(">iI", 16 * MB - 64, 0) + bytes(15_900_000)
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            line = stack.enter_context(Line(address))
            with contextlib.suppress(OSError):
                line.send(data)
        time.sleep(0.3)


@broker("500 connections that come and go with half a frame")
def _(address: str) -> None:
    for _ in range(500):
        with Line(address) as line:
            line.send(struct.pack(">iI", 1000, 0) + b"{")


@broker("all topics, groups and offsets asked for 60 times")
def _(address: str) -> None:
    flood(address, [request(code) for _ in range(60) for code in (21, 201, 43)])


# --- name server ---------------------------------------------------------------------------------


def registration(name: str, topics: Iterable[str], version: int, *, compressed: bool = False) -> Command:
    configs = {topic: TopicConfig(topic, 8, 8, 6) for topic in topics}
    body = encode_registration(configs, DataVersion(version, version), compressed=compressed)
    ext = {"brokerName": name, "brokerAddr": f"10.0.0.1:{len(name)}", "clusterName": "C", "haServerAddr": "10.0.0.1:2", "brokerId": "0", "compressed": str(compressed).lower(), "bodyCrc32": "0"}  # fmt: skip
    return request(103, ext, body)


@nameserver("two registrations with 80,000 topics, then the end of the connection", memory_mb=200)
def _(address: str) -> None:
    topics = names("topic-of-some-length-", 80_000)
    ask(address, registration("evil", topics, 1), registration("evil", topics, 2))
    with Control(address, timeout_s=60) as control:
        while control.call(105, {"topic": topics[-1]}).code == ResponseCode.SUCCESS:
            time.sleep(0.05)


@nameserver("a compressed registration with a million topics", memory_mb=200)
def _(address: str) -> None:
    lines = [f"t{number} 8 8 6 SINGLE_TAG".encode() for number in range(1_000_000)]
    version = json.dumps({"timestamp": 3, "counter": 3}).encode()
    opened = struct.pack(">i", len(version)) + version + struct.pack(">i", len(lines)) + b"".join(struct.pack(">i", len(line)) + line for line in lines) + struct.pack(">i", 2) + b"[]"  # fmt: skip
    command = registration("evil2", [], 3, compressed=True)
    command.body = zlib.compress(opened, 1)
    ask(address, command)


@nameserver("a compressed registration that grows to 60 MB of nothing", memory_mb=130)
def _(address: str) -> None:
    command = registration("bomb", [], 3, compressed=True)
    command.body = zlib.compress(bytes(60 * MB), 9)
    ask(address, *[command] * 3)


@nameserver("questions about 80,000 topics", memory_mb=200)
def _(address: str) -> None:
    with Line(address) as line:
        line.ask(registration("lists", names("list-of-many-topics-", 80_000), 1))
        for code, ext in (
            (206, {}),
            (224, {"cluster": "C"}),
            (205, {"brokerName": "lists"}),
            (327, {"brokerName": "lists"}),
            (304, {}),
            (311, {}),
            (312, {}),
            (313, {}),
        ):
            line.ask(request(code, ext))
        unregister = {"brokerName": "lists", "brokerAddr": "10.0.0.1:5", "clusterName": "C", "brokerId": "0"}
        line.ask(request(104, unregister))


@nameserver("3,000 settings", memory_mb=64)
def _(address: str) -> None:
    flood(
        address, [request(100, {"namespace": "N", "key": f"k{n}", "value": "v" * 200}) for n in range(3_000)]
    )


@nameserver("a setting of 10 MB")
def _(address: str) -> None:
    ask(
        address,
        request(100, {"namespace": "N", "key": "huge", "value": "v" * (10 * MB)}),
        request(101, {"namespace": "N", "key": "huge"}),
    )


@nameserver("10,000 brokers from one connection")
def _(address: str) -> None:
    commands = []
    for number in range(10_000):
        command = registration(f"b{number}", ["T"], 1)
        command.ext["brokerAddr"] = f"10.1.0.1:{number}"
        commands.append(command)
    flood(address, commands, last=request(106))


@nameserver("2,000 brokers in clusters of their own that have one topic, asked for 20 times", memory_mb=128)
def _(address: str) -> None:
    with Line(address) as line:
        commands = []
        for number in range(1_900):
            command = registration(f"own{number}", ["OnMany"], 1)
            command.ext |= {"brokerAddr": f"10.3.0.1:{number}", "clusterName": f"C{number}"}
            commands.append(command)
        pour(line, b"".join(map(encode, commands)))
        ask(address, *[request(105, {"topic": "OnMany"}), request(106), request(304)] * 20)


@nameserver("8,000 goodbyes of brokers nobody knows")
def _(address: str) -> None:
    flood(
        address,
        [
            request(
                104,
                {"brokerName": f"n{n}", "brokerAddr": f"10.2.0.1:{n}", "clusterName": "C", "brokerId": "0"},
            )
            for n in range(8_000)
        ],
    )


@nameserver("a header with a million fields")
def _(address: str) -> None:
    fields = b",".join(b'"k%d":"v"' % number for number in range(1_000_000))
    ask(address, frame(b'{"code":105,"opaque":7,"extFields":{%s}}' % fields))


@nameserver("40 unfinished frames of 15.9 MB", memory_mb=340)
def _(address: str) -> None:
    data = struct.pack(">iI", 16 * MB - 64, 0) + bytes(15_900_000)
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            line = stack.enter_context(Line(address))
            with contextlib.suppress(OSError):
                line.send(data)
        time.sleep(0.3)


# --- measuring -----------------------------------------------------------------------------------


def prepare(cluster: Cluster) -> None:
    """What the attacks find in the store."""
    properties = "".join(f"p{number}\x01{'v' * 20}\x02" for number in range(8))
    with Control(cluster.broker, timeout_s=60) as control, Line(cluster.broker) as line:
        for topic in (HONEST_TOPIC, FILLED, COLLIDING, "Heavy"):
            control.create_topic(topic, queues=1)
        control.create_topic(WIDE, queues=65_535)
        keys = list(colliding_keys(COLLIDING_MESSAGES))
        keys.remove("BB" * 15)
        for topic, texts in (
            (FILLED, [properties] * FILLED_MESSAGES),
            (COLLIDING, [f"KEYS\x01{key}\x02" for key in keys]),
        ):
            for start in range(0, len(texts), 500):
                items = [BatchItem(0, b"x", text.encode()) for text in texts[start : start + 500]]
                sent = line.ask(request(320, send_header(topic, 0, "", batch=True), encode_batch(items)))
                assert sent.code == ResponseCode.SUCCESS, sent
        for _ in range(20):
            line.ask(request(310, send_header("Heavy", 0, "KEYS\x01heavy\x02"), bytes(3 * MB)))
        wide = {"consumerGroup": "wide", "topic": WIDE, "commitOffset": "0"}
        flood(
            cluster.broker,
            [request(15, wide | {"queueId": str(queue)}, oneway=True) for queue in range(65_535)],
        )


def measure(cluster: Cluster, worst: Worst, *, is_broker: bool) -> Cost:
    """One try."""
    process = cluster.broker_process if is_broker else cluster.namesrv_process
    address = cluster.broker if is_broker else cluster.namesrv
    with HonestClient(address, process.pid, is_broker=is_broker) as honest:
        worst.attack(address)
        time.sleep(0.1)  # what the end of the attack leaves to do
    return honest.cost


def main(wanted: str = "") -> None:
    """Print what every entry costs now."""
    with tempfile.TemporaryDirectory() as folder, running_cluster(Path(folder)) as cluster:
        prepare(cluster)
        each = EACH_WIDE if wanted else []
        for is_broker, catalogue in ((True, BROKER + each), (False, NAMESERVER)):
            for worst in catalogue:
                if wanted in worst.name:
                    began_s = time.monotonic()
                    cost = measure(cluster, worst, is_broker=is_broker)
                    took_s = time.monotonic() - began_s
                    server = "broker" if is_broker else "name server"
                    print(
                        f"{server:12} {worst.name:66} {cost.hold_ms:9.1f} ms {cost.memory_mb:7.1f} MB {took_s:6.1f} s",
                        flush=True,
                    )


if __name__ == "__main__":
    main(*sys.argv[1:])
