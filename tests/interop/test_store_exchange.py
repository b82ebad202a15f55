"""One store folder, two makes of broker in turn: what one wrote the other serves, goes on with, and hands back.

Both are told the same file sizes. Needs Java and Apache's jars (`make interop`).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketeer.bench.control import Control
from rocketeer.bench.servers import ApacheMissing, Make, apache_lib
from rocketeer.protocol.codes import RequestCode
from support.cluster import ServerCluster
from support.senders import (
    Acked,
    Sender,
    assert_ledger_holds,
    key_of,
    query_by_key,
    read_queue,
    read_topic,
    send_header,
    wait_for,
)

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

PLAIN, DELAYED, DELETED, GROUP = "Exchanged", "ExchangedLater", "ExchangedAnew", "CG"
QUEUES = 4
MESSAGES = 3000
KEYS_ASKED = 25
SIZES = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 500 * 20,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 5000,
    "messageDelayLevel": "1s 2s 3s 4s 5s 6s 7s 8s 9s 10s 11s 12s 13s 14s 15s 16s 17s 18s",
    "flushConsumerOffsetInterval": 500,
}


class Exchange:
    """A store and its ledger; brokers come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent: set[bytes] = set()
        self.acked: list[Acked] = []
        self.delayed_acked: set[bytes] = set()
        self.delayed_sent: set[bytes] = set()
        self.phase = 0
        self.cluster: ServerCluster | None = None

    def open_with(self, make: Make) -> None:
        self.cluster = ServerCluster(make, self.folder, conf=SIZES, heap="512m", ready_s=120)
        self.cluster.start()

    def leave(self, *, kill: bool) -> None:
        """Under load when it is killed."""
        assert self.cluster is not None
        senders = self._senders()
        for sender in senders:
            sender.start()
        wait_for(lambda: all(len(sender.acked) > 100 for sender in senders), what="answers", state=senders)
        if kill:
            self.cluster.kill_broker()
        for sender in senders:
            if not kill:
                sender.finish()
            sender.join(60)
            assert sender.lost_connection == kill, sender
            self._note(sender)
        if kill:
            self.cluster.kill()
        else:
            assert self.cluster.stop_broker() in (0, 143), "Java says 143 when it was terminated"
            self.cluster.stop()
        self.cluster = None

    def load(self) -> None:
        """A few thousand messages of each kind, all answered."""
        self.phase += 1
        senders = self._senders()
        for sender in senders:
            sender.start()
        wait_for(
            lambda: all(len(sender.sent) > MESSAGES for sender in senders[:2]), what="load", state=senders
        )
        for sender in senders:
            sender.finish()
            assert not sender.refused
            self._note(sender)
        self.phase += 1

    def _senders(self) -> list[Sender]:
        assert self.cluster is not None
        address, name = self.cluster.broker, f"{self.phase}-{self.cluster.make}"
        return [
            Sender(address, PLAIN, name=f"{name}-plain", queues=QUEUES, window=32),
            Sender(address, PLAIN, name=f"{name}-batch", queues=QUEUES, window=4, kind="batch"),
            Sender(address, DELAYED, name=f"{name}-delayed", queues=QUEUES, window=2, kind="delayed"),
        ]

    def _note(self, sender: Sender) -> None:
        if sender.name.endswith("delayed"):
            self.delayed_sent.update(sender.sent)
            self.delayed_acked.update(ack.body for ack in sender.acked)
        else:
            self.sent.update(sender.sent)
            self.acked += sender.acked

    def check(self) -> None:
        """Everything acknowledged so far is served: by queue, by key, and after its delay."""
        assert self.cluster is not None
        address = self.cluster.broker
        wait_for(
            lambda: sum(map(len, read_topic(address, PLAIN, QUEUES))) >= len(self.acked), what="all messages"
        )
        assert_ledger_holds(read_topic(address, PLAIN, QUEUES), sent=self.sent, acked=self.acked)
        with Control(address, timeout_s=60) as broker:
            for ack in self.acked[:: max(1, len(self.acked) // KEYS_ASKED)]:
                found: list[bytes] = []

                def is_found(ack: Acked = ack, found: list[bytes] = found) -> bool:
                    # Java fills its index behind the answers; ours has it when it is asked.
                    found[:] = [each.body for each in query_by_key(broker, PLAIN, key_of(ack.body))]
                    return bool(found)

                wait_for(is_found, what=f"a message by its key {key_of(ack.body)}")
                assert found == [ack.body]

    def check_delayed(self) -> None:
        assert self.cluster is not None
        arrived: set[bytes] = set()
        offsets = [0] * QUEUES

        def complete() -> bool:
            assert self.cluster is not None
            with Control(self.cluster.broker, timeout_s=60) as broker:
                for queue_id in range(QUEUES):
                    messages = read_queue(broker, DELAYED, queue_id, offsets[queue_id])
                    offsets[queue_id] += len(messages)
                    arrived.update(message.body for message in messages)
            return self.delayed_acked <= arrived

        wait_for(complete, timeout_s=90, what="all delayed messages")
        assert arrived <= self.delayed_sent


@pytest.fixture
def exchange(tmp_path: Path) -> Iterator[Exchange]:
    try:
        apache_lib()
    except ApacheMissing as missing:
        pytest.skip(str(missing))
    exchange = Exchange(tmp_path)
    yield exchange
    if exchange.cluster is not None:
        exchange.cluster.kill()
        for log in sorted(tmp_path.glob("*.out")):
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-4000:]}")


@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill -9"])
@pytest.mark.parametrize(
    "makes", [("ours", "apache"), ("apache", "ours")], ids=["ours first", "apache first"]
)
def test_a_store_goes_back_and_forth(exchange: Exchange, makes: tuple[Make, Make], kill: bool) -> None:
    first, second = makes
    exchange.open_with(first)
    assert exchange.cluster is not None
    with Control(exchange.cluster.broker) as broker:
        for topic in (PLAIN, DELAYED):
            broker.create_topic(topic, queues=QUEUES)
    where = {"consumerGroup": GROUP, "topic": PLAIN, "queueId": "1"}
    exchange.load()
    with Control(exchange.cluster.broker) as broker:
        broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, where | {"commitOffset": "77"})
    exchange.check()
    exchange.leave(kill=kill)
    for make in (second, first, second):
        exchange.open_with(make)
        exchange.check()
        if not kill:
            with Control(exchange.cluster.broker) as broker:
                assert broker.ask(RequestCode.QUERY_CONSUMER_OFFSET, where).ext["offset"] == "77"
        exchange.load()
        exchange.check()
        exchange.leave(kill=kill)
    exchange.open_with(first)
    exchange.check()
    exchange.check_delayed()
    assert len(list((exchange.cluster.store / "commitlog").iterdir())) > 10
    exchange.leave(kill=False)


@pytest.mark.parametrize("abort", [False, True], ids=["stopped", "as after a crash"])
def test_apaches_broker_passes_over_what_our_log_says_more(exchange: Exchange, abort: bool) -> None:
    """A topic's end, fillers where a record was damaged, our part of the checkpoint: it serves all the rest."""
    exchange.open_with("ours")
    assert exchange.cluster is not None
    with Control(exchange.cluster.broker) as broker:
        for topic in (PLAIN, DELAYED, DELETED):
            broker.create_topic(topic, queues=QUEUES)
        header = send_header(DELETED, 0, "")
        broker.ask(RequestCode.SEND_MESSAGE_V2, header, b"old")
    exchange.load()
    with Control(exchange.cluster.broker) as broker:
        broker.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": DELETED})
        broker.create_topic(DELETED, queues=QUEUES)
        broker.ask(RequestCode.SEND_MESSAGE_V2, header, b"new")
    exchange.leave(kill=False)

    exchange.phase += 1  # other messages from here on
    victim = exchange.acked[-50]
    damage(exchange.folder / "store", victim)
    exchange.open_with("ours")  # mends it
    exchange.acked.remove(victim)
    exchange.leave(kill=False)
    exchange.phase += 1
    assert list((exchange.folder / "store" / "corrupt").iterdir())
    if abort:
        (exchange.folder / "store" / "abort").touch()
    for make in ("apache", "ours"):
        exchange.open_with(make)
        address = exchange.cluster.broker
        for queue_id, queue in enumerate(read_topic(address, PLAIN, QUEUES)):
            expected = [ack for ack in exchange.acked if ack.queue_id == queue_id]
            found = {message.body: message.queue_offset for message in queue}
            assert {ack.body: ack.queue_offset for ack in expected}.items() <= found.items()
            assert victim.body not in found
        assert [message.body for message in read_topic(address, DELETED, QUEUES)[0]] == [b"new"]
        exchange.load()
        exchange.leave(kill=False)
        exchange.phase += 1


def damage(store: Path, victim: Acked) -> None:
    """A byte of the message's body, wherever in the log it stands."""
    for path in sorted((store / "commitlog").iterdir()):
        raw = path.read_bytes()
        at = raw.find(victim.body)
        if at >= 0:
            with path.open("r+b") as file:
                file.seek(at)
                file.write(b"\xee")
            return
    raise AssertionError(victim)
