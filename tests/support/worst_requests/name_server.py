"""What a name server is asked."""

import json
import struct
import time
import zlib
from collections.abc import Iterable

from rocketeer.bench.control import Control
from rocketeer.model.data_version import DataVersion
from rocketeer.model.topic import TopicConfig
from rocketeer.protocol.bodies.register import encode_registration
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command, encode, request
from support.raw_connection import RawConnection
from support.tables import encode_topic_table
from support.worst_requests.catalogue import nameserver
from support.worst_requests.pieces import (
    MB,
    ask,
    flood,
    frame,
    names,
    pour,
)


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


@nameserver("a bare table of 45,000 topics, as brokers before 3.0.11 tell it", memory_mb=128)
def _(address: str) -> None:
    configs = {name: TopicConfig(name, 8, 8, 6) for name in names("bare-topic-", 45_000)}
    command = registration("bare", [], 1)
    command.body = encode_topic_table(configs, DataVersion(1, 1))
    command.version = 36
    ask(address, command)


@nameserver("questions about 80,000 topics", memory_mb=200)
def _(address: str) -> None:
    with RawConnection(address) as line:
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
    with RawConnection(address) as line:
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


@nameserver("8 times 20,000 topics registered and deleted, each time under new names", memory_mb=28)
def _(address: str) -> None:
    with RawConnection(address) as line:
        for number in range(8):
            topics = names(f"gone{number}-", 20_000)
            line.ask(registration("gone", topics, number + 1))
            pour(line, b"".join(encode(request(216, {"topic": topic})) for topic in topics))
            line.ask(request(205, {"brokerName": "gone"}))
