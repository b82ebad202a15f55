"""A store with half messages goes from one make of broker to the other and back: each goes on where the other stopped.

Needs Java and Apache's jars (`make interop`).
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer import COMMIT, ROLLBACK, UNKNOWN, Message, ReceivedMessage, TransactionProducer
from rocketeer.bench.control import Control
from rocketeer.bench.servers import ApacheMissing, Make, apache_lib
from rocketeer.client.core.transactions import Transaction, Verdict
from rocketeer.protocol.bodies.offsets import decode_consumer_offsets
from rocketeer.protocol.codes import RequestCode
from support.cluster import ServerCluster
from support.senders import read_topic, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOPIC = "ExchangedTx"
SYSTEM_GROUP, SYSTEM_TOPICS = "CID_RMQ_SYS_TRANS", ("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC")
CONF = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 500 * 20,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 5000,
    "flushConsumerOffsetInterval": 500,
    "transactionTimeOut": 1000,
    "transactionCheckInterval": 3000,  # longer than an answer takes: Java delivers again for an answer that comes late
    "transactionCheckMax": 100,
}


def said_by_name(transaction: Transaction) -> Verdict:
    """yes-... is committed, no-... rolled back, ...-open left to the next broker."""
    body = transaction.message.body
    return UNKNOWN if body.endswith(b"-open") else COMMIT if body.startswith(b"yes") else ROLLBACK


class Life:
    """What one broker sees: transactions of its own and the open ones of the one before."""

    def __init__(self, cluster: ServerCluster, name: str, group: str, *, answers: bool) -> None:
        self.cluster = cluster
        self.name = name
        self.group = group
        self.answers = answers
        self.asked: list[str] = []

    def check(self, message: ReceivedMessage) -> Verdict:
        self.asked.append(message.text)
        if not self.answers:
            return UNKNOWN
        return COMMIT if message.text.startswith("yes") else ROLLBACK

    def producer(self) -> TransactionProducer:
        return TransactionProducer(
            self.group, nameserver=self.cluster.namesrv, check=self.check, topics=[TOPIC]
        )

    def send(self, producer: TransactionProducer) -> None:
        for number in range(5):
            for kind in ("yes-{}-{}", "no-{}-{}", "yes-{}-{}-open", "no-{}-{}-open"):
                producer.send_in_transaction(
                    Message(TOPIC, kind.format(self.name, number).encode()), said_by_name
                )

    def delivered(self) -> Counter[str]:
        queues = read_topic(self.cluster.broker, TOPIC)
        return Counter(message.body.decode() for queue in queues for message in queue)


def progress(cluster: ServerCluster) -> list[int]:
    """How far the broker is with half and op messages."""
    with Control(cluster.broker) as broker:
        header = {"consumerGroup": SYSTEM_GROUP, "queueId": "0"}
        answers = [
            broker.ask(RequestCode.QUERY_CONSUMER_OFFSET, {**header, "topic": topic})
            for topic in SYSTEM_TOPICS
        ]
    return [int(answer.ext["offset"]) for answer in answers]


def saved(cluster: ServerCluster) -> list[int]:
    """The same, as the file has it."""
    text = (cluster.store / "config" / "consumerOffset.json").read_text()
    table = decode_consumer_offsets(text.encode())
    return [table.get(f"{topic}@{SYSTEM_GROUP}", {}).get(0, -1) for topic in SYSTEM_TOPICS]


@contextlib.contextmanager
def broker(make: Make, folder: Path, *, kill: bool) -> Iterator[ServerCluster]:
    cluster = ServerCluster(make, folder, conf=CONF, heap="512m", ready_s=120)
    try:
        cluster.start()
        yield cluster
        if kill:
            # Nobody is there to be asked any more; the progress of the last round reaches the disk. Before that a
            # Java broker would take copies for messages of their own, as after its own crash.
            wait_for(lambda: saved(cluster) == progress(cluster), what="the progress on disk")
            cluster.kill_broker()
    except BaseException:
        for log in sorted(folder.glob("*.out")):
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-4000:]}")
        cluster.kill()
        raise
    if kill:
        cluster.kill()
    else:
        cluster.stop()


@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill -9 of ours"])
@pytest.mark.parametrize("first", ["ours", "apache"])
def test_open_transactions_are_ended_by_the_next_broker(tmp_path: Path, first: Make, kill: bool) -> None:
    try:
        apache_lib()
    except ApacheMissing as missing:
        pytest.skip(str(missing))
    second: Make = "apache" if first == "ours" else "ours"
    expected: Counter[str] = Counter()
    for number, make in enumerate((first, second, first)):
        last = number == 2
        with broker(make, tmp_path, kill=kill and make == "ours" and not last) as cluster:
            life = Life(cluster, f"{make}{number}", "PG_exchange", answers=True)
            if number:
                with life.producer():  # the one before left these
                    wait_for(
                        lambda life=life, wanted=expected: life.delivered() >= wanted,
                        what="what was open before",
                    )  # type: ignore[misc]
                assert life.delivered() == expected, "nothing lost, nothing twice"
            life.answers = last
            with life.producer() as producer:
                life.asked.clear()
                life.send(producer)
                names = [f"{life.name}-{n}" for n in range(5)]
                expected.update(f"yes-{name}" for name in names)
                wait_for(lambda life=life: len(set(life.asked)) >= 10, what="every open one was asked after")  # type: ignore[misc]
                opened = Counter(f"yes-{name}-open" for name in names)
                if last:
                    expected.update(opened)
                wait_for(
                    lambda life=life, wanted=expected: life.delivered() >= wanted, what="what was committed"
                )  # type: ignore[misc]
                assert life.delivered() == expected
            expected = expected | opened
