"""What fills a table first and has all of it walked over then; what is large and due together; names without end."""

import contextlib
import json
import threading
import time

from rocketeer.bench.control import Control
from rocketeer.protocol.command import Command, encode, reply, request
from rocketeer.protocol.recall_handle import RecallHandle
from rocketeer.record.ids import parse_offset_msg_id
from support.hold import HONEST_TOPIC
from support.raw_connection import RawConnection
from support.senders import pull_header, send_header
from support.worst_requests.catalogue import broker, nameserver
from support.worst_requests.name_server import registration
from support.worst_requests.pieces import (
    FILLED,
    MB,
    ask,
    flood,
    heartbeat,
    held_pull,
    names,
    pour,
    read_to_the_end,
)


def _saved() -> Command:
    """The answer comes when all tables that changed are on disk."""
    return request(200, {}, json.dumps({"groupName": "saved"}).encode())


def _producers(client: str, groups: list[str]) -> Command:
    told = {"clientID": client, "producerDataSet": [{"groupName": group} for group in groups]}
    return request(34, {}, json.dumps(told).encode())


# --- due together ------------------------------------------------------------------------------


@broker("40 messages of 3 MB, delayed, due together")
def _(address: str) -> None:
    send = request(310, send_header(HONEST_TOPIC, 0, "DELAY\x011\x02"), bytes(3 * MB))
    with RawConnection(address) as line:
        for _ in range(40):
            line.ask(send)
    time.sleep(1.3)


@broker("40 messages of 3 MB, timed, due together")
def _(address: str) -> None:
    due_ms = int(time.time() * 1000) + 1_000
    send = request(310, send_header(HONEST_TOPIC, 0, f"TIMER_DELIVER_MS\x01{due_ms}\x02"), bytes(3 * MB))
    with RawConnection(address) as line:
        for _ in range(40):
            line.ask(send)
    time.sleep(max(0.2, due_ms / 1000 + 0.5 - time.time()))


@broker("20,000 messages with one id, timed for one millisecond, and 20 recalls that search them")
def _(address: str) -> None:
    due_ms = int(time.time() * 1000) + 30 * 86_400_000
    timed = f"UNIQ_KEY\x01same\x02TIMER_DELIVER_MS\x01{due_ms}\x02"
    flood(address, [request(310, send_header(HONEST_TOPIC, 0, timed), b"x") for _ in range(20_000)])
    with Control(address, timeout_s=60) as control:
        control.create_topic("Other", queues=1)
    handle = RecallHandle("Other", "broker-a", due_ms, "same").encode()
    recall = request(370, {"producerGroup": "PG", "topic": "Other", "recallHandle": handle})
    ask(address, *[recall] * 20)


@broker("30 transactions of 3 MB, asked after together")
def _(address: str) -> None:
    with RawConnection(address) as producer, RawConnection(address) as line:
        producer.ask(_producers("halves", ["halves"]))
        threading.Thread(target=read_to_the_end, args=(producer,), daemon=True).start()
        properties = "TRAN_MSG\x01true\x02PGROUP\x01halves\x02"
        send = request(310, send_header(HONEST_TOPIC, 0, properties), bytes(3 * MB))
        for _ in range(30):
            line.ask(send)
        time.sleep(1.5)


@broker("6,000 transactions of groups of their own, asked after together")
def _(address: str) -> None:
    flood(
        address,
        [
            request(
                310,
                send_header(HONEST_TOPIC, 0, f"TRAN_MSG\x01true\x02PGROUP\x01alone{n}\x02"),
                b"x",
                oneway=True,
            )
            for n in range(6_000)
        ],
    )
    time.sleep(2.2)


@broker(
    "500 messages that name topics of 30,000 characters they were tried in before, sent back", memory_mb=8
)
def _(address: str) -> None:
    offsets = []
    with RawConnection(address) as line:
        for number in range(500):
            properties = f"RETRY_TOPIC\x01{number}" + "r" * 30_000
            stored = line.ask(request(310, send_header(HONEST_TOPIC, 0, properties), b"x"))
            offsets.append(stored.ext["msgId"][16:])
    failed = {"group": "failing", "delayLevel": "-1"}
    flood(address, [request(36, failed | {"offset": str(int(offset, 16))}) for offset in offsets])


# --- clients -----------------------------------------------------------------------------------


@broker("60 connections with 2,000 producer groups each, all asked for, then they close")
def _(address: str) -> None:
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(RawConnection(address)) for _ in range(60)]
        for part in range(2):
            for line in lines:
                line.send(_producers("c", names(f"p{part}-", 1_000)))
            for line in lines:
                line.reply()
        ask(address, request(328), request(204, {"producerGroup": "p0-0"}))


@broker("5 heartbeats with 4,900 subscriptions of one group, asked for each time")
def _(address: str) -> None:
    with RawConnection(address) as line:
        for number in range(5):
            line.ask(request(34, {}, heartbeat(["wishes"], topics=names(f"wish{number}-", 4_900))))
            line.ask(request(203, {"consumerGroup": "wishes"}))


@broker("5 heartbeats with 4,000 SQL filters each")
def _(address: str) -> None:
    for number in range(5):
        ask(address, request(34, {}, heartbeat([f"sqls{number}"], topics=names("s", 4_000), sql="a=1")))
    ask(address, _saved())


@broker("a member that tells 15 MB of offsets")
def _(address: str) -> None:
    table = b",".join(b'{"brokerName":"b","queueId":%d,"topic":"T"}:5' % queue for queue in range(250_000))
    body = b'{"messageQueueTable":{%b}}' % table
    with RawConnection(address) as member:
        member.ask(request(34, {}, heartbeat(["teller"], client="teller")))

        def tell() -> None:
            with contextlib.suppress(OSError):  # the attack is over
                while (asked := member.receive()) is not None:
                    if asked.code == 221:
                        member.send(reply(asked, body=body))

        threading.Thread(target=tell, daemon=True).start()
        ask(address, request(223, {"topic": "T", "group": "teller"}))


@broker("60 locks of a queue with a name of 1 MB each", memory_mb=16)
def _(address: str) -> None:
    for number in range(60):
        queue = {"topic": f"{number}" + "t" * 1_000_000, "brokerName": "b", "queueId": 0}
        body = json.dumps({"consumerGroup": "g", "clientId": "c", "mqSet": [queue]}).encode()
        ask(address, request(41, {}, body))


# --- pulls -------------------------------------------------------------------------------------


@broker("100 held pulls that bring 1 MB each, in binary headers", memory_mb=32)
def _(address: str) -> None:
    with Control(address, timeout_s=60) as control, RawConnection(address) as line:
        control.create_topic("HeldBig", queues=1)
        pull = held_pull("HeldBig", 0, more="x" * 100_000)
        pull.body = bytes(1_000_000)
        pull.serialize = 1
        pour(line, encode(pull) * 100)


@broker("150 held pulls with different SQL of 240 terms, and as many with 2,500 tags each", memory_mb=48)
def _(address: str) -> None:
    with Control(address, timeout_s=60) as control, RawConnection(address) as line:
        control.create_topic("HeldBig", queues=1)
        pulls = []
        for number in range(150):
            sql = " OR ".join(f"a{number} = {term}" for term in range(240))
            pulls.append(held_pull("HeldBig", 0, subscription=sql, expressionType="SQL92"))
            pulls.append(held_pull("HeldBig", 0, subscription="||".join(names(f"{number}", 2_000))))
        pour(line, b"".join(map(encode, pulls)))


@broker("pulls with 4,000 texts to compare with, and with 4,000 tags of 50 characters")
def _(address: str) -> None:
    pull = pull_header(FILLED, 0, 10**9)
    for number in range(3):
        sql = f"a{number} IN (" + ",".join(["'x'"] * 3_900) + ")"
        tags = "||".join(f"{number}{tag:049}" for tag in range(4_000))
        ask(address, request(11, pull | {"subscription": sql, "expressionType": "SQL92"}))
        ask(address, request(11, pull | {"subscription": tags}))


# --- offsets and topics --------------------------------------------------------------------------


@broker("30,000 groups have consumed a topic: which?", memory_mb=96)
def _(address: str) -> None:
    where = {"queueId": "0", "commitOffset": "5", "topic": FILLED}
    flood(address, [request(15, where | {"consumerGroup": f"who{n}"}, oneway=True) for n in range(30_000)])
    compared = {"topic": FILLED, "compareGroup": "x", "filterGroups": "a"}
    ask(address, request(300, {"topic": FILLED}), request(308, compared))


@broker(
    "offsets of one group in 50,000 queues of one topic, 1,024 ids apart or not: compared, copied, saved",
    memory_mb=96,
)
def _(address: str) -> None:
    where = {"topic": FILLED, "consumerGroup": "wide", "commitOffset": "5"}
    for apart in (1024, 1):
        flood(address, [request(15, where | {"queueId": str(n * apart)}, oneway=True) for n in range(50_000)])
        ask(
            address,
            request(308, {"topic": FILLED, "compareGroup": "wide", "filterGroups": "a"}),
            request(314, {"srcGroup": "wide", "destGroup": "as wide", "topic": FILLED, "offline": "true"}),
            _saved(),
        )


@broker("a group with offsets on 10,000 topics: looked at, copied, deleted", memory_mb=96)
def _(address: str) -> None:
    where = {"queueId": "0", "commitOffset": "5", "consumerGroup": "everywhere"}
    flood(address, [request(15, where | {"topic": f"place{n}"}, oneway=True) for n in range(10_000)])
    ask(
        address,
        request(208, {"consumerGroup": "everywhere"}),
        request(314, {"srcGroup": "everywhere", "destGroup": "copied", "offline": "true"}),
        request(207, {"groupName": "everywhere", "cleanOffset": "true"}),
    )


@broker("20,000 offsets with names of 1,000 characters, told and saved", memory_mb=160)
def _(address: str) -> None:
    where = {"queueId": "0", "commitOffset": "5", "consumerGroup": "g"}
    flood(address, [request(15, where | {"topic": f"{n:01000}"}, oneway=True) for n in range(20_000)])
    ask(address, request(43), request(43, {"rocketeerPacked": "zlib"}), _saved())


@broker("a topic with messages in 65,535 queues: figures, cleaned up, deleted", memory_mb=160)
def _(address: str) -> None:
    with Control(address, timeout_s=60) as control:
        control.create_topic("Used", queues=65_535)
    flood(address, [request(310, send_header("Used", queue, ""), b"x") for queue in range(65_535)])
    figures = [
        request(315, {"statsName": name, "statsKey": "Used"}) for name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE")
    ]
    ask(address, *figures, request(306), request(316), request(215, {"topic": "Used"}))


@broker("20,000 messages of as many queues sent back, and saved", memory_mb=96)
def _(address: str) -> None:
    with Control(address, timeout_s=60) as control:
        control.create_topic("Failing", queues=20_000)
    with RawConnection(address) as line:
        line.ask(request(34, {}, heartbeat(["failing"])))
        sends = [request(310, send_header("Failing", queue, ""), b"x") for queue in range(20_000)]
        stored = [parse_offset_msg_id(answer.ext["msgId"])[1] for answer in line.ask_all(sends)]
    back = {"group": "failing", "delayLevel": "3", "originTopic": "Failing"}
    flood(address, [request(36, back | {"offset": str(log_offset)}) for log_offset in stored])
    ask(address, _saved())


# --- settings ------------------------------------------------------------------------------------

SETTINGS = (
    b"x" * 1_000_000 + b"=1\n",
    b"".join(b"k%d=1\n" % number for number in range(100_000)),
    b"\\\n" * 500_000,
    b"k=" + b"\\a" * 500_000,
    b"x" * 16_000 + b"=1\n",
    b"k=1\n" * 4_000,
)


@broker("1 MB of settings")
def _(address: str) -> None:
    for body in SETTINGS:
        ask(address, request(25, {}, body))


@nameserver("1 MB of settings")
def _(address: str) -> None:
    for body in SETTINGS:
        ask(address, request(318, {}, body))


@broker("200 refused settings of 16 KB at once")
def _(address: str) -> None:
    flood(address, [request(25, {}, SETTINGS[-1])] * 200)


@nameserver("200 refused settings of 16 KB at once")
def _(address: str) -> None:
    flood(address, [request(318, {}, SETTINGS[-1])] * 200)


# --- a name server's tables ----------------------------------------------------------------------


@nameserver("8 namespaces with names of 250 KB, each emptied again", memory_mb=16)
def _(address: str) -> None:
    for number in range(8):
        key = {"namespace": f"{number}" + "n" * 250_000, "key": "k"}
        ask(address, request(100, key | {"value": "v"}), request(102, key))


@nameserver("10 registrations with 1,000 topics whose names have 3,500 characters", memory_mb=32)
def _(address: str) -> None:
    with RawConnection(address) as line:
        for number in range(10):
            topics = [f"{number}-{topic}" + "x" * 3_500 for topic in range(1_000)]
            line.ask(registration("long", topics, number + 1))
