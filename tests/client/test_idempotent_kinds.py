"""Messages that come later or in transactions, from producers that may send again: each is stored and delivered once."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from rocketeer import COMMIT, ROLLBACK, Message, MessageQueue, Producer, Transaction, TransactionProducer, aio
from rocketeer.bench.control import Control
from rocketeer.client.core.transactions import Verdict
from rocketeer.errors import BrokerRefused
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command
from support.cluster import ServerCluster, restart_broker, running_cluster
from support.consuming import make_topic, until_sync
from support.senders import read_topic, send_header

LATER_MS = 4_000
CONF = {
    "messageDelayLevel": f"{LATER_MS // 1000}s",
    "transactionTimeOut": 60_000,  # nobody is asked: the verdicts are the test's
    "transactionCheckInterval": 60_000,
}
GROUP = "PG-kinds"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), conf=CONF) as running:
        yield running


@dataclass
class Send:
    """One message as it is on the wire, and what its first sending was answered."""

    topic: str
    body: bytes
    properties: str
    sys_flag: int = 0
    answer: dict[str, str] = field(default_factory=dict)

    def __call__(self, broker: Control) -> Command:
        header = send_header(self.topic, 0, self.properties) | {"f": str(self.sys_flag)}
        return broker.call(RequestCode.SEND_MESSAGE_V2, header, self.body)

    def first(self, broker: Control) -> None:
        reply = self(broker)
        assert reply.code == ResponseCode.SUCCESS, reply
        self.answer = dict(reply.ext)

    def again(self, broker: Control) -> None:
        """Answered as the first time: the same place, the same handle to recall it."""
        reply = self(broker)
        assert (reply.code, reply.ext) == (ResponseCode.SUCCESS, self.answer)


def marks(kinds: dict[str, str], topic: str) -> list[Send]:
    """Each kind twice: known by its number, known by its id."""
    sends = []
    for number, (name, kind) in enumerate(kinds.items()):
        for mark in (f"PRODUCER_SEQ\x01{number}", f"DEDUP_ID\x01{name}"):
            body = f"{name}-{mark[:5]}"
            properties = f"UNIQ_KEY\x01{body}\x02PRODUCER_ID\x01{topic}\x02{mark}\x02{kind}"
            sends.append(Send(topic, body.encode(), properties))
    return sends


def delivered(cluster: ServerCluster, topic: str) -> Counter[bytes]:
    return Counter(message.body for queue in read_topic(cluster.broker, topic, 1) for message in queue)


@pytest.mark.timeout(180)
def test_a_message_that_waits_is_known_while_it_waits_and_when_it_was_delivered(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=1)
    due_ms = time.time_ns() // 1_000_000 + LATER_MS
    kinds = {
        "level": "DELAY\x011",
        "deliver": f"TIMER_DELIVER_MS\x01{due_ms}",
        "delay": f"TIMER_DELAY_MS\x01{LATER_MS}",
        "seconds": f"TIMER_DELAY_SEC\x01{LATER_MS // 1000}",
        "past": "TIMER_DELIVER_MS\x011",
        "recalled": f"TIMER_DELAY_MS\x01{LATER_MS // 2}",
    }
    sends = marks(kinds, topic)
    wanted = Counter(send.body for send in sends if not send.body.startswith(b"recalled"))
    with Control(cluster.broker) as broker:
        for send in sends:
            send.first(broker)
        for send in sends:
            send.again(broker)
        for send in sends[-2:]:
            handle = send.answer["recallHandle"]
            header = {"producerGroup": GROUP, "topic": topic, "recallHandle": handle}
            broker.ask(RequestCode.RECALL_MESSAGE, header)
            send.again(broker)
    for kill in (True, False):
        if kill:
            cluster.kill_broker()
            cluster.start_broker()
        else:
            until_sync(lambda: len(delivered(cluster, topic)) == len(wanted), "all of them")
            restart_broker(cluster)
        with Control(cluster.broker) as broker:
            for send in sends:
                send.again(broker)
    until_sync(lambda: len(delivered(cluster, topic)) == len(wanted), "all of them")
    with Control(cluster.broker) as broker:
        for send in sends:
            send.again(broker)
    cluster.kill_broker()
    cluster.start_broker()
    with Control(cluster.broker) as broker:
        for send in sends:
            send.again(broker)
        header = {"producerId": topic, "topic": topic, "queueId": "0"}
        assert broker.ask(RequestCode.GET_PRODUCER_SEQUENCE, header).ext["nextSequence"] == str(len(kinds))
        more = Send(topic, b"next", f"PRODUCER_ID\x01{topic}\x02PRODUCER_SEQ\x01{len(kinds)}")
        more.first(broker)
    assert delivered(cluster, topic) == wanted + Counter([b"next"])


def end(broker: Control, send: Send, verdict: int, group: str = GROUP) -> Command:
    header = {
        "producerGroup": group,
        "tranStateTableOffset": send.answer["queueOffset"],
        "commitLogOffset": str(int(send.answer["msgId"][16:], 16)),
        "commitOrRollback": str(verdict),
    }
    return broker.call(RequestCode.END_TRANSACTION, header)


@pytest.mark.timeout(180)
def test_a_half_message_that_is_sent_again_is_one_transaction(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    kind = f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}"
    bodies = [b"committed", b"rolled back", b"open"]
    sends = [
        Send(
            topic, body, f"UNIQ_KEY\x01{number}\x02PRODUCER_ID\x01p\x02PRODUCER_SEQ\x01{number}\x02{kind}", 4
        )
        for number, body in enumerate(bodies)
    ]
    with Control(cluster.broker) as broker:
        for send in sends:
            send.first(broker)
            send.again(broker)
    cluster.kill_broker()
    cluster.start_broker()
    with Control(cluster.broker) as broker:
        for send in sends:
            send.again(broker)
        assert delivered(cluster, topic) == Counter()
        for send, verdict in zip(sends, (8, 12), strict=False):
            assert end(broker, send, verdict).code == ResponseCode.SUCCESS
            send.again(broker)
            ended = end(broker, send, 8)  # of the one that was sent again: it is the same
            assert (ended.code, ended.remark) == (
                ResponseCode.SYSTEM_ERROR,
                "The transaction has ended before, or was given up",
            )
    restart_broker(cluster)
    with Control(cluster.broker) as broker:
        for send in sends:
            send.again(broker)
        assert end(broker, sends[2], 8).code == ResponseCode.SUCCESS
    assert delivered(cluster, topic) == Counter([b"committed", b"open"])


def test_a_half_message_with_an_id_is_refused(cluster: ServerCluster, topic: str) -> None:
    make_topic(cluster, topic, queues=1)
    half = f"PRODUCER_ID\x01p\x02DEDUP_ID\x01one\x02TRAN_MSG\x01true\x02PGROUP\x01{GROUP}"
    with Control(cluster.broker) as broker:
        for _ in range(2):
            reply = Send(topic, b"x", half, 4)(broker)
            assert reply.code == ResponseCode.MESSAGE_ILLEGAL
            assert reply.remark == (
                "a transaction message cannot have a DEDUP_ID: give it a number, PRODUCER_SEQ"
            )
        Send(topic, b"x", "PRODUCER_ID\x01p\x02DEDUP_ID\x01one").first(broker)  # the id was not used up


async def test_our_producers_number_what_comes_later_and_what_is_in_transactions(
    cluster: ServerCluster, topic: str
) -> None:
    make_topic(cluster, topic, queues=1)

    def local(transaction: Transaction) -> Verdict:
        return COMMIT if transaction.message.body.startswith(b"yes") else ROLLBACK

    options = {"nameserver": cluster.namesrv, "idempotent": True, "send_timeout_s": 30}
    with Producer(GROUP, **options) as producer:  # type: ignore[arg-type]
        producer.send(Message(topic, b"level", delay_level=1))
        producer.send(Message(topic, b"timed", delay=1.0))
    with TransactionProducer(GROUP, check=lambda message: COMMIT, **options) as transactions:  # type: ignore[arg-type]
        for body in (b"yes sync", b"no sync"):
            assert transactions.send_in_transaction(Message(topic, body), local).ok
        transactions.send(Message(topic, b"plain"))
    async with aio.TransactionProducer(GROUP, check=lambda message: COMMIT, **options) as producers:  # type: ignore[arg-type]
        for body in (b"yes aio", b"no aio"):
            assert (await producers.send_in_transaction(Message(topic, body), local)).ok
        nowhere = MessageQueue(topic, "broker-a", 77)
        with pytest.raises(BrokerRefused, match="request queueId"):
            await producers.send_in_transaction(Message(topic, b"x"), local, queue=nowhere, timeout_s=3)
        assert (await producers.send_in_transaction(Message(topic, b"yes again"), local)).ok
    wanted = [b"level", b"timed", b"yes sync", b"plain", b"yes aio", b"yes again"]
    until_sync(lambda: len(delivered(cluster, topic)) == len(wanted), "what was committed")
    assert delivered(cluster, topic) == Counter(wanted)
    stored = [message.properties_dict() for message in read_topic(cluster.broker, topic, 1)[0]]
    assert all("PRODUCER_SEQ" in properties for properties in stored)
