"""A broker whose disk cannot keep up refuses what has waited too long, in RocketMQ's words, and serves the others."""

import contextlib
import re
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer import Message, Producer, SendResult
from rocketeer.bench.control import Control
from rocketeer.errors import BrokerRefused
from rocketeer.model.subscription import Subscription
from rocketeer.protocol.bodies.heartbeat import ConsumerData, Heartbeat, encode_heartbeat
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request
from support.cluster import ServerCluster
from support.raw_connection import RawConnection
from support.senders import pull_header, read_queue, send_header, wait_for
from support.slow_disk import Disk, slow_disk_cluster

TOPIC = "Slow"
SENDERS = 12
WAITED = re.compile(
    r"\[(TIMEOUT_CLEAN_QUEUE|PCBUSY_CLEAN_QUEUE)\]broker busy, start flow control for a while, "
    r"period in queue: (\d+)ms, size of queue: \d+"
)
SLOW_MS = 200
"""A write, and so a turn of the loop, takes longer than a send, heartbeat or transaction may wait here."""
PATIENT_MS = 60_000
QUICK = {
    "waitTimeMillsInSendQueue": PATIENT_MS,
    "waitTimeMillsInPullQueue": PATIENT_MS,
    "waitTimeMillsInHeartbeatQueue": PATIENT_MS,
    "waitTimeMillsInTransactionQueue": PATIENT_MS,
    "osPageCacheBusyTimeOutMills": PATIENT_MS,
}
GROUP = ConsumerData("CG", subscriptions=(Subscription(TOPIC),))
BEAT = encode_heartbeat(Heartbeat("10.0.0.1@slow", ("PG",), (GROUP,)))
END = {
    "producerGroup": "PG", "tranStateTableOffset": "0", "commitLogOffset": "0", "commitOrRollback": "8",
    "fromTransactionCheck": "false",
}  # fmt: skip
ASKED: dict[str, tuple[int, dict[str, str], bytes]] = {
    "heartbeat": (RequestCode.HEART_BEAT, {}, BEAT),
    "pull": (RequestCode.PULL_MESSAGE, pull_header(TOPIC, 0, 0), b""),
    "transaction": (RequestCode.END_TRANSACTION, END, b""),
    "offset": (RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": "0"}, b""),
    "config": (RequestCode.GET_BROKER_CONFIG, {}, b""),
    "runtime": (RequestCode.GET_BROKER_RUNTIME_INFO, {}, b""),
}


@contextlib.contextmanager
def running(folder: Path, conf: dict[str, int]) -> Iterator[tuple[ServerCluster, Disk]]:
    with slow_disk_cluster(folder, conf={**QUICK, **conf}) as (cluster, disk):
        with Control(cluster.broker) as broker:
            broker.create_topic(TOPIC, queues=1)
            broker.ask(RequestCode.HEART_BEAT, {}, BEAT)
        yield cluster, disk


class Senders:
    """Many connections, each with one send under way; what they are answered is counted."""

    def __init__(
        self, cluster: ServerCluster, topic: str = TOPIC, properties: str = "", *, count: int = SENDERS
    ) -> None:
        self._address = cluster.broker
        self._topic = topic
        self._header = send_header(topic, 0, properties)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(count)]
        self.stored: Counter[bytes] = Counter()
        self.refused: Counter[bytes] = Counter()
        self.remarks: list[tuple[int, str]] = []

    def __enter__(self) -> "Senders":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _run(self, number: int) -> None:
        count = 0
        with RawConnection(self._address) as line:
            while not self._stop.is_set():
                body = b"%d-%d" % (number, count)
                count += 1
                self._note(body, line.ask(request(RequestCode.SEND_MESSAGE_V2, dict(self._header), body)))

    def _note(self, body: bytes, answer: Command) -> None:
        with self._lock:
            if answer.code == ResponseCode.SUCCESS:
                self.stored[body] += 1
            else:
                self.refused[body] += 1
                self.remarks.append((answer.code, answer.remark or ""))

    def send_with(self, producer: Producer) -> SendResult | BrokerRefused:
        """One message of a real producer among them; what came of it."""
        body = b"mine-%d" % self.stored.total()
        try:
            result = producer.send(Message(TOPIC, body), timeout_s=30)
        except BrokerRefused as refusal:
            return refusal
        with self._lock:
            self.stored[body] += 1
        return result

    def check(self, cluster: ServerCluster, reason: str, waited_ms: int) -> None:
        """Every refusal is RocketMQ's, and true: a refused message is not there, all others are, once."""
        for code, remark in self.remarks:
            match = WAITED.fullmatch(remark)
            assert code == ResponseCode.SYSTEM_BUSY
            assert match is not None, remark
            assert match[1] == reason
            assert int(match[2]) >= waited_ms
        with Control(cluster.broker, timeout_s=60) as broker:
            assert Counter(message.body for message in read_queue(broker, self._topic, 0)) == self.stored


def ask(broker: Control, name: str) -> Command:
    code, ext, body = ASKED[name]
    return broker.call(code, dict(ext), body)


def is_busy(answer: Command) -> bool:
    return answer.code == ResponseCode.SYSTEM_BUSY


@pytest.mark.timeout(180)
def test_sends_that_waited_too_long_are_refused_and_the_others_are_served(tmp_path: Path) -> None:
    with running(tmp_path, {"waitTimeMillsInSendQueue": 100}) as (cluster, disk):
        with (
            Control(cluster.broker, timeout_s=60) as broker,
            Producer("PG", nameserver=cluster.namesrv, retries=0) as producer,
            Senders(cluster) as senders,
        ):
            senders.send_with(producer)
            disk.wait(SLOW_MS)
            wait_for(lambda: len(senders.remarks) > 50, what="refusals", state=senders)
            for name in [*ASKED, *ASKED]:
                assert not is_busy(ask(broker, name)), name
            told = iter(lambda: senders.send_with(producer), None)  # until it is told, too
            refusal = next(refusal for refusal in told if isinstance(refusal, BrokerRefused))
            assert refusal.code == ResponseCode.SYSTEM_BUSY
            assert WAITED.search(str(refusal))
            disk.wait(0)
            before = senders.stored.total()
            wait_for(lambda: senders.stored.total() > before + 100, what="sends after the trouble")
        senders.check(cluster, "TIMEOUT_CLEAN_QUEUE", 100)


@pytest.mark.timeout(180)
def test_each_kind_of_request_has_its_own_patience(tmp_path: Path) -> None:
    conf = {"waitTimeMillsInHeartbeatQueue": 60, "waitTimeMillsInTransactionQueue": 100}
    with running(tmp_path, conf) as (cluster, disk):
        with Control(cluster.broker, timeout_s=60) as broker, Senders(cluster) as senders:
            disk.wait(SLOW_MS)
            for name, limit_ms in (("heartbeat", 60), ("transaction", 100)):
                answers = iter(lambda name=name: ask(broker, name), None)  # type: ignore[misc]
                remark = next(answer.remark for answer in answers if is_busy(answer))
                match = WAITED.fullmatch(remark or "")
                assert match is not None, remark
                assert match[1] == "TIMEOUT_CLEAN_QUEUE"
                assert int(match[2]) >= limit_ms
            for other in ASKED.keys() - {"heartbeat", "transaction"}:
                assert not is_busy(ask(broker, other)), other
            disk.wait(0)
            for name in ("heartbeat", "transaction"):
                wait_for(lambda name=name: not is_busy(ask(broker, name)), what=f"a {name} after the trouble")  # type: ignore[misc]
        assert not senders.remarks, "sends may wait as long as they like here"


@pytest.mark.timeout(180)
def test_behind_a_write_that_hangs_sends_are_refused_and_the_others_are_served(tmp_path: Path) -> None:
    """Plain sends are stored by compiled code, the others by Python, which goes on while a write hangs."""
    with running(tmp_path, {"osPageCacheBusyTimeOutMills": 250}) as (cluster, disk):
        for topic, properties in ((TOPIC, ""), ("SlowToo", "DELAY\x010\x02")):
            with (
                Control(cluster.broker, timeout_s=60) as broker,
                Senders(cluster, topic, properties, count=3) as senders,
            ):
                disk.wait(400)
                wait_for(lambda senders=senders: bool(senders.remarks), what="refusals", state=senders)  # type: ignore[misc]
                for name in ASKED:
                    assert not is_busy(ask(broker, name)), name
                disk.wait(0)
                before = senders.stored.total()
                wait_for(
                    lambda senders=senders, before=before: senders.stored.total() > before + 100,  # type: ignore[misc]
                    what="sends after the trouble",
                )
            senders.check(cluster, "PCBUSY_CLEAN_QUEUE", 250)
