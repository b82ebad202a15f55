"""Peers that send rubbish, too much, or nothing: it costs them their connection or an error, and nobody else anything."""

import json
import os
import random
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rocketeer.bench.control import Control
from rocketeer.bench.processes import anonymous_bytes, cpu_seconds
from rocketeer.errors import RemotingError
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import encode, request
from support.cluster import TEST_CONF, ServerCluster, open_files, running_cluster
from support.raw_connection import RawConnection
from support.records import split_records
from support.senders import pull_header, read_queue, send_header, wait_for

MB = 1 << 20
TOPIC = "Victim"
FILES_FEW = 160


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path_factory.mktemp("hostile")) as running:
        with Control(running.broker) as broker:
            broker.create_topic(TOPIC, queues=1)
        yield running


def frame(header: bytes, body: bytes = b"", kind: int = 0) -> bytes:
    return struct.pack(">iI", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


def json_frame(code: int, ext: dict[str, Any] | bytes, body: bytes = b"") -> bytes:
    fields = ext if isinstance(ext, bytes) else json.dumps(ext).encode()
    return frame(b'{"code":%d,"opaque":7,"flag":0,"version":409,"extFields":%s}' % (code, fields), body)


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


GARBAGE = {
    "negative length": struct.pack(">i", -1) + b"x" * 8,
    "length 0": bytes(16),
    "length 3": struct.pack(">i", 3) + b"x" * 8,
    "a gigabyte announced": struct.pack(">i", 1 << 30) + b"x" * 8,
    "one byte over the limit": struct.pack(">iI", 16 * MB - 3, 0),
    "header longer than its frame": struct.pack(">iI", 10, 0xFFFFFF) + b"x" * 10,
    "unknown serialisation": frame(b"{}", kind=9),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x00\x50" + bytes(80),
    "no header": frame(b""),
    "header null": frame(b"null"),
    "header without code": frame(b"{}"),
    "header of zeros": frame(bytes(100)),
    "code too large": frame(b'{"code":99999999999999999999}'),
    "nesting bomb": frame(nested(100_000)),
    "nesting bomb in a send": frame(b'{"code":310,"opaque":7,"zzz":' + nested(100_000) + b"}"),
    "nesting bomb in a send's fields": json_frame(310, b'{"zzz":' + nested(100_000) + b"}"),
    "nesting bomb in a pull's fields": json_frame(11, b'{"zzz":' + nested(100_000) + b"}"),
    "invalid UTF-8 in a send": json_frame(310, b'{"a":"\xff\xfe","b":"T"}'),
    "invalid UTF-8 in a pull": json_frame(11, b'{"consumerGroup":"\xff\xfe","topic":"T"}'),
    "half a surrogate pair": json_frame(15, b'{"consumerGroup":"\\ud800","topic":"T"}'),
    "binary header that ends early": frame(bytes(5), kind=1),
    "binary header that lies": frame(struct.pack(">hBhiii", 310, 0, 0, 1, 0, 1 << 30), kind=1),
    "random": random.Random(1).randbytes(4096),
}


@pytest.mark.parametrize("port", ["listen", "vip", "namesrv"])
def test_garbage_ends_its_own_connection_only(cluster: ServerCluster, port: str) -> None:
    address = {
        "listen": cluster.broker,
        "vip": f"127.0.0.1:{cluster.broker_port - 2}",
        "namesrv": cluster.namesrv,
    }[port]
    with Control(address, timeout_s=30) as healthy:
        for name, data in GARBAGE.items():
            with RawConnection(address, timeout_s=30) as line:
                line.send(data)
                assert line.closed_by_peer(), name
            assert healthy.call(9999).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED, name


def test_every_closed_connection_has_one_line_in_the_log(cluster: ServerCluster) -> None:
    log = cluster.broker_process.log
    before = len(log.read_text().splitlines())
    for data in GARBAGE.values():
        with RawConnection(cluster.broker, timeout_s=30) as line:
            line.send(data)
            assert line.closed_by_peer()
    added = log.read_text().splitlines()[before:]
    assert len(added) == len(GARBAGE), "\n".join(added)
    assert all("connection closed" in line for line in added)


BODIES = {
    "nothing": b"",
    "not JSON": b"not json",
    "bytes": bytes(range(256)),
    "null": b"null",
    "a list": b"[]",
    "an empty object": b"{}",
    "a text": b'"x"',
    "arrays in arrays": nested(200_000),
    "objects in objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "keys in keys": b"{" * 40 + b"1:1" + b"}:1" * 39 + b"}",
    "a million bare keys": b"{" + b",".join(b"%d:1" % number for number in range(1_000_000)) + b"}",
    "an open quote": b'{"a' + b'\\"' * 4_000_000,
    "commas": b"[" + b"," * 8_000_000 + b"]",
}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", BODIES)
def test_nonsense_in_bodies_is_refused_quickly(cluster: ServerCluster, name: str) -> None:
    """34, 41, 42, 46, 200 to the broker; 103, 322 to the name server."""
    registration = {
        "brokerName": "b", "brokerAddr": "10.0.0.1:1", "clusterName": "C", "haServerAddr": "10.0.0.1:2", "brokerId": "0",
        "compressed": "false", "bodyCrc32": "0",
    }  # fmt: skip
    before = anonymous_bytes(cluster.broker_process.pid), anonymous_bytes(cluster.namesrv_process.pid)
    for address, codes, ext in (
        (cluster.broker, (34, 41, 42, 46, 200), {}),
        (cluster.namesrv, (103, 322), registration),
    ):
        for code in codes:
            used_s = cpu_seconds(cluster.broker_process.pid) + cpu_seconds(cluster.namesrv_process.pid)
            with RawConnection(address) as line:
                line.send(json_frame(code, ext, BODIES[name]))
                reply = line.reply()
            used_s = (
                cpu_seconds(cluster.broker_process.pid) + cpu_seconds(cluster.namesrv_process.pid) - used_s
            )
            assert used_s < 1, f"{code} took {used_s:.1f} s"
            if (code, name) not in ((103, "nothing"), (103, "an empty object"), (322, "an empty object")):
                assert reply.code == ResponseCode.SYSTEM_ERROR, (code, reply)
                assert reply.remark
                assert len(reply.remark) < 1000
    after = anonymous_bytes(cluster.broker_process.pid), anonymous_bytes(cluster.namesrv_process.pid)
    assert sum(after) - sum(before) < 100 * MB


def test_a_compressed_registration_cannot_grow_without_bounds(cluster: ServerCluster) -> None:
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(bytes(MB)) for _ in range(300)) + packer.flush()
    ext = {"brokerName": "b", "brokerAddr": "10.0.0.1:1", "clusterName": "C", "haServerAddr": "x", "brokerId": "0", "compressed": "true", "bodyCrc32": "0"}  # fmt: skip
    with RawConnection(cluster.namesrv) as line:
        line.send(json_frame(103, ext, bomb))
        assert line.reply().code == ResponseCode.SYSTEM_ERROR
    assert anonymous_bytes(cluster.namesrv_process.pid) < 200 * MB


def test_a_batch_of_countless_empty_messages_is_refused_before_it_is_split(cluster: ServerCluster) -> None:
    item = struct.pack(">iiiiih", 22, 0, 0, 0, 0, 0)
    used_s = cpu_seconds(cluster.broker_process.pid)
    with RawConnection(cluster.broker) as line:
        reply = line.ask(request(320, send_header(TOPIC, 0, "", batch=True), item * 700_000))
    assert reply.code == ResponseCode.MESSAGE_ILLEGAL
    assert cpu_seconds(cluster.broker_process.pid) - used_s < 0.7


def test_a_query_that_finds_more_than_a_frame_carries_gives_the_newest(cluster: ServerCluster) -> None:
    with RawConnection(cluster.broker) as line:
        for number in range(6):
            send = send_header(TOPIC, 0, "KEYS\x01heavy")
            assert line.ask(request(310, send, b"%d" % number + bytes(3 * MB))).code == ResponseCode.SUCCESS
        query = {
            "topic": TOPIC,
            "key": "heavy",
            "maxNum": "64",
            "beginTimestamp": "0",
            "endTimestamp": str(1 << 62),
        }
        found = list(split_records(line.ask(request(12, query)).body))
    assert [message.body[:1] for message in found] == [b"1", b"2", b"3", b"4", b"5"]


NUMBERS = [
    "-1",
    str(2**31 - 1),
    str(-(2**31)),
    str(2**31),
    str(2**63 - 1),
    str(-(2**63)),
    str(2**80),
    "",
    "x",
    "0x10",
    "1" * 5000,
]


def test_numbers_of_any_size_get_an_answer(cluster: ServerCluster) -> None:
    send = send_header(TOPIC, 0, "")
    pull = pull_header(TOPIC, 0, 0)
    where = {
        "consumerGroup": "G",
        "topic": TOPIC,
        "queueId": "0",
        "commitOffset": "0",
        "timestamp": "0",
        "offset": "0",
    }
    query = {"topic": TOPIC, "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1"}
    back = {"group": "G", "offset": "0", "delayLevel": "0", "maxReconsumeTimes": "16"}
    requests = [(310, send), (11, pull), (14, where), (29, where), (30, where), (31, where), (32, where), (12, query), (33, where), (36, back)]  # fmt: skip
    with RawConnection(cluster.broker) as line:
        for code, ext in requests:
            for name in ext:
                for number in NUMBERS:
                    changed = ext | {name: number}
                    assert line.ask(request(code, changed, b"x")).opaque, (code, name, number)


def test_replies_leave_before_a_broken_connection_closes(cluster: ServerCluster) -> None:
    with RawConnection(cluster.broker) as line:
        sends = [request(310, send_header(TOPIC, 0, ""), b"kept %d" % number) for number in range(3)]
        line.send(b"".join(map(encode, sends)) + frame(b"{"))
        assert [line.reply().opaque for _ in sends] == [each.opaque for each in sends]
        assert line.closed_by_peer()


@pytest.mark.parametrize("group", ["../../../x", "a/b", "a@b", "", "\0", "x" * 256, "new\nline"])
def test_a_group_that_cannot_be_served_is_not_made(cluster: ServerCluster, group: str) -> None:
    with RawConnection(cluster.broker) as line:
        back = {"group": group, "offset": "0", "delayLevel": "0"}
        assert line.ask(request(36, back)).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        pull = pull_header(TOPIC, 0, 0) | {"consumerGroup": group}
        assert line.ask(request(11, pull)).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert (
            line.ask(request(200, {}, json.dumps({"groupName": group}).encode())).code
            == ResponseCode.SYSTEM_ERROR
        )
        beat = {"clientID": "c", "consumerDataSet": [{"groupName": group, "subscriptionDataSet": []}]}
        line.ask(request(34, {}, json.dumps(beat).encode()))
        topics = json.loads(line.ask(request(21)).body)["topicConfigTable"]
        assert f"%RETRY%{group}" not in topics


def test_a_message_that_can_never_be_delivered_holds_up_no_other(cluster: ServerCluster) -> None:
    """A group's name may be longer than what fits a topic's name behind %RETRY%."""
    with RawConnection(cluster.broker) as line, Control(cluster.broker) as broker:
        stored = line.ask(request(310, send_header(TOPIC, 0, ""), b"to be refused"))
        log_offset = int(stored.ext["msgId"][16:], 16)
        back = {"group": "x" * 130, "offset": str(log_offset), "delayLevel": "1"}
        assert line.ask(request(36, back)).code == ResponseCode.SYSTEM_ERROR, (
            "said at once, not after the delay"
        )
        delayed = send_header("Later", 0, "DELAY\x011\x02")
        assert line.ask(request(310, delayed, b"behind it")).code == ResponseCode.SUCCESS
        wait_for(lambda: broker.max_offset("Later", 0) > 0, what="the delayed message")
        assert read_queue(broker, "Later", 0)[0].body == b"behind it"


@pytest.mark.timeout(240)
def test_idle_connections_cost_little_and_are_let_go(cluster: ServerCluster) -> None:
    pid = cluster.broker_process.pid
    memory, files = anonymous_bytes(pid), open_files(pid)
    with ExitStack() as stack:
        silent = [stack.enter_context(RawConnection(cluster.broker)) for _ in range(250)]
        half = [stack.enter_context(RawConnection(cluster.broker)) for _ in range(250)]
        for line in half:
            line.send(encode(request(310, send_header(TOPIC, 0, ""), b"x" * 100))[:50])
        wait_for(lambda: open_files(pid) >= 500, what="500 connections", state=f"{files} files before")
        with Control(cluster.broker) as broker:
            began_s = time.monotonic()
            for _ in range(100):
                broker.max_offset(TOPIC, 0)
            assert time.monotonic() - began_s < 10
        assert anonymous_bytes(pid) - memory < 40 * MB
        assert len(silent) == len(half)
    wait_for(lambda: open_files(pid) < files + 20, what="descriptors given back")


@pytest.mark.timeout(240)
def test_a_reader_that_does_not_read_waits_alone(cluster: ServerCluster) -> None:
    """A thousand pulls of 200 KB at once, as a consumer of a thousand queues sends them."""
    pid = cluster.broker_process.pid
    with Control(cluster.broker) as broker:
        broker.create_topic("Large", queues=1)
    with RawConnection(cluster.broker) as line:
        for reply in line.ask_all(
            [request(310, send_header("Large", 0, ""), b"x" * 50_000) for _ in range(64)]
        ):
            assert reply.code == ResponseCode.SUCCESS
    memory = anonymous_bytes(pid)
    pulls = [request(11, pull_header("Large", 0, number % 60)) for number in range(1000)]
    with RawConnection(cluster.broker) as slow:
        slow.send(b"".join(map(encode, pulls)))
        most = 0
        with Control(cluster.broker, timeout_s=30) as other:
            for _ in range(400):
                other.max_offset("Large", 0)
                most = max(most, anonymous_bytes(pid))
        assert most - memory < 100 * MB
        for pull in pulls:
            assert slow.reply().opaque == pull.opaque
    with RawConnection(cluster.broker) as gone:  # and one that goes away in the middle
        gone.send(b"".join(map(encode, pulls)))
    wait_for(lambda: anonymous_bytes(pid) - memory < 100 * MB, what="memory given back")


def test_pulls_held_for_one_who_left_are_forgotten(cluster: ServerCluster) -> None:
    pid = cluster.broker_process.pid
    with Control(cluster.broker) as broker:
        broker.create_topic("Quiet", queues=1)
    header = pull_header("Quiet", 0, 0) | {"sysFlag": "6", "suspendTimeoutMillis": "300000"}
    memory = 0
    for number in range(6):
        with ExitStack() as stack:
            lines = [stack.enter_context(RawConnection(cluster.broker)) for _ in range(10)]
            for line in lines:
                line.send(b"".join(encode(request(11, header)) for _ in range(1000)))
                assert line.ask(request(30, {"topic": "Quiet", "queueId": "0"})).code == ResponseCode.SUCCESS
        if number == 1:
            memory = anonymous_bytes(pid)
    assert anonymous_bytes(pid) - memory < 30 * MB, "what the first ones took is used again"


def test_endless_subscriptions_are_not_remembered(cluster: ServerCluster) -> None:
    pid = cluster.broker_process.pid
    memory = anonymous_bytes(pid)
    with RawConnection(cluster.broker) as line:
        for number in range(60):
            tags = "||".join(f"t{number}_{tag}" for tag in range(20_000))
            line.ask(request(11, pull_header(TOPIC, 0, 0) | {"subscription": tags}))
    assert anonymous_bytes(pid) - memory < 60 * MB


@pytest.mark.timeout(240)
def test_more_connections_than_descriptors_stop_neither_clients_nor_the_store(tmp_path: Path) -> None:
    conf = {**TEST_CONF, "mappedFileSizeCommitLog": MB}
    with ServerCluster("ours", tmp_path, conf=conf, files_max=FILES_FEW) as few, ExitStack() as stack:
        pid = few.broker_process.pid
        early = stack.enter_context(RawConnection(few.broker))
        assert early.ask(request(310, send_header("Early", 0, ""), b"x")).code == ResponseCode.SUCCESS
        for number in range(3 * FILES_FEW):
            crowd = stack.enter_context(socket.socket())
            crowd.connect(("127.0.0.1", few.broker_port))
            crowd.sendall(b"\0" * (number % 5))
        wait_for(lambda: "connections ended" in (tmp_path / "broker.out").read_text(), what="a full house")
        with RawConnection(few.broker) as newcomer:  # those who never asked anything give their places
            assert newcomer.ask(request(310, send_header("Early", 0, ""), b"x")).code == ResponseCode.SUCCESS
        held = pull_header("Early", 0, 2) | {"sysFlag": "6", "suspendTimeoutMillis": "2000"}
        used_s = cpu_seconds(pid)
        assert early.ask(request(11, held)).code == ResponseCode.PULL_NOT_FOUND  # after two seconds
        assert cpu_seconds(pid) - used_s < 1, "it does not spin"
        for number in range(200):  # several log files, many queues
            sent = early.ask(request(310, send_header(f"Topic{number}", 0, ""), bytes(20_000)))
            assert sent.code == ResponseCode.SUCCESS, sent
        stack.close()

        def lets_new_ones_in() -> bool:
            with Control(few.broker, timeout_s=5) as late:
                return late.max_offset("Topic7", 0) == 1

        wait_for(lets_new_ones_in, what="a new connection")
        log = (tmp_path / "broker.out").read_text()
        of_garbage = log.count("connection closed")  # a line each
        assert log.count("WARNING") - of_garbage < 40, log[-3000:]


def test_random_bytes_behind_valid_frames_never_stop_the_server(cluster: ServerCluster) -> None:
    """Frames whose parts were changed at random; whatever happens, it is an answer or a closed connection."""
    dice = random.Random(int(os.environ.get("SEED", "3")))
    models = [
        encode(request(310, send_header(TOPIC, 0, "KEYS\x01k"), b"body")),
        encode(request(11, pull_header(TOPIC, 0, 0))),
        encode(request(34, {}, b'{"clientID":"c","consumerDataSet":[{"groupName":"g"}]}')),
        encode(request(105, {"topic": TOPIC})),
        encode(request(RequestCode.UPDATE_AND_CREATE_TOPIC, {"topic": "T", "readQueueNums": "1"})),
    ]
    for number in range(600):
        data = bytearray(dice.choice(models))
        for _ in range(dice.choice((1, 1, 2, 5, 20))):
            data[dice.randrange(4 if dice.random() < 0.9 else 0, len(data))] = dice.randrange(256)
        address = cluster.broker if number % 3 else cluster.namesrv
        with RawConnection(address, timeout_s=10) as line:
            line.send(bytes(data))
            line.socket.shutdown(socket.SHUT_WR)
            try:
                line.receive()
            except (RemotingError, TimeoutError, ValueError):
                pytest.fail(f"neither an answer nor an end: {bytes(data)!r}")
    with Control(cluster.broker) as broker, Control(cluster.namesrv) as namesrv:
        assert broker.max_offset(TOPIC, 0) >= 0
        assert namesrv.call(9999).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert "Traceback" not in cluster.broker_process.log.read_text()
    assert "Traceback" not in cluster.namesrv_process.log.read_text()
