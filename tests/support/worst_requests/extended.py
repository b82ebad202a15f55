"""A broker that works out which groups want a message, and keeps it beside the queues' entries."""

from rocketeer.bench.control import Control
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import request
from rocketeer.record.batch import BatchItem, encode_batch
from support.raw_connection import RawConnection
from support.senders import send_header
from support.worst_requests.catalogue import EXTENDED, listed
from support.worst_requests.pieces import ask, heartbeat, names

GROUPS = 3_000
MESSAGES = 2_000


def _send(address: str, topic: str, count: int) -> None:
    items = [BatchItem(0, b"x", b"a\x012\x02") for _ in range(count)]
    batch = request(320, send_header(topic, 0, "", batch=True), encode_batch(items))
    for sent in ask(address, batch):
        assert sent is not None
        assert sent.code == ResponseCode.SUCCESS, sent.remark


def _filter(address: str, topic: str, groups: list[str], sql: str) -> None:
    for start in range(0, len(groups), 500):
        body = heartbeat(groups[start : start + 500], topics=[topic], sql=sql)
        with RawConnection(address) as line:
            told = line.ask(request(34, {}, body))
        assert told.code == ResponseCode.SUCCESS, told.remark


@listed(EXTENDED, "messages of a topic that 3,000 groups filter, one by one and 2,000 together")
def _(address: str) -> None:
    with Control(address, timeout_s=60) as control:
        control.create_topic("Filtered", queues=1)
    _filter(address, "Filtered", names("f", GROUPS), "a = 1")
    ask(address, *[request(310, send_header("Filtered", 0, "a\x012\x02"), b"x") for _ in range(20)])
    _send(address, "Filtered", MESSAGES)


@listed(EXTENDED, "2,000 messages of a topic that 30 groups filter by long expressions")
def _(address: str) -> None:
    with Control(address, timeout_s=60) as control:
        control.create_topic("Long", queues=1)
    long = " OR ".join(f"missing{number} = {number}" for number in range(250))
    _filter(address, "Long", names("l", 30), long)
    _send(address, "Long", MESSAGES)


@listed(EXTENDED, "2,000 messages together")
def _(address: str) -> None:
    with Control(address, timeout_s=60) as control:
        control.create_topic("Plain", queues=1)
    _send(address, "Plain", MESSAGES)


@listed(EXTENDED, "questions for 2,000 entries with bits of a queue")
def _(address: str) -> None:
    with Control(address, timeout_s=60) as control:
        control.create_topic("Bits", queues=1)
    _filter(address, "Bits", ["bits"], "a = 2")
    for _ in range(MESSAGES // 50):
        _send(address, "Bits", 50)
    where = {"topic": "Bits", "queueId": "0", "index": "0", "count": "2000", "consumerGroup": "bits"}
    told = ask(address, *[request(321, where) for _ in range(3)])
    assert all(each is not None and each.code == ResponseCode.SUCCESS for each in told)
