"""A recall may have to search all that strangers timed for its millisecond: it does so in steps, between which others act."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from rocketeer.broker.feature import Feature
from rocketeer.broker.features.timer.admission import TimerRules, timer_admission_feature
from rocketeer.broker.features.timer.feature import timer_feature
from rocketeer.broker.features.timer.recall import RecallRules
from rocketeer.broker.topics import TopicTable
from rocketeer.broker.writer import Writer, WriteResult
from rocketeer.config import BrokerConfig
from rocketeer.observe.counters import Counters
from rocketeer.protocol.codes import RequestCode, ResponseCode
from rocketeer.protocol.command import Command, request
from rocketeer.protocol.recall_handle import RecallHandle
from rocketeer.remoting.connection import Connection
from rocketeer.remoting.slices import InOrder
from rocketeer.steps import Steps, finish
from support.clock import ManualClock
from support.stores import bodies, make_store, message, read_queue

STRANGERS = 500


class Sender:
    """The connection of the one who asks."""

    def __init__(self) -> None:
        self.answers: list[Command] = []

    def send(self, answer: Command) -> None:
        self.answers.append(answer)


class Crowded:
    """A store where a message of topic `Mine` waits behind strangers' with its id, for the same millisecond."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.due_ms = self.clock.now_ms() + 60_000
        self.store = make_store(folder, self.clock)
        self.store.open()
        rules = TimerRules(enabled=True, delay_ms_max=86_400_000, precision_ms=1)
        self.writer = Writer(
            self.store,
            message_bytes_max=16 * 1024,
            counters=Counters(),
            rewrites=timer_admission_feature(rules, self.clock).rewrites,
        )
        topics = TopicTable(BrokerConfig(), self.clock)
        for topic in ("Mine", "Theirs"):
            topics.create_in_send_back(topic, 1)
        self.feature: Feature = timer_feature(
            RecallRules(enabled=True, broker_name="b", region="r"),
            folder=folder / "timer",
            flush_ms=1_000,
            store=self.store,
            topics=topics,
            writer=self.writer,
            clock=self.clock,
            follows=False,
        )
        self.store.dispatchers.extend(self.feature.dispatchers)
        self.sender = Sender()
        for _ in range(STRANGERS):
            self.send("Theirs")
        self.send("Mine")

    def send(self, topic: str) -> None:
        outcome: list[WriteResult] = []
        properties = {"UNIQ_KEY": "same", "TIMER_DELIVER_MS": str(self.due_ms)}
        self.writer.put(message(topic.encode(), topic, properties=properties), outcome.append)
        assert outcome[0].stored

    def recalling(self) -> Steps[Command | None]:
        handle = RecallHandle("Mine", "b", self.due_ms, "same").encode()
        asked = request(RequestCode.RECALL_MESSAGE, {"topic": "Mine", "recallHandle": handle})
        outcome = self.feature.handlers[RequestCode.RECALL_MESSAGE](asked, cast(Connection, self.sender))
        assert isinstance(outcome, InOrder)
        return cast(Steps[Command | None], outcome.steps)

    def deliver(self) -> list[bytes]:
        """Everything comes; what topic `Mine` has then."""

        async def serve() -> None:
            for service in self.feature.services:
                if service.name.startswith("deliver") and (more := service.run()) is not None:
                    await more

        self.clock.advance(ms=60_000)
        asyncio.run(serve())
        assert len(read_queue(self.store, "Theirs")) == STRANGERS
        return bodies(self.store, "Mine")


@pytest.fixture
def crowded(tmp_path: Path) -> Crowded:
    return Crowded(tmp_path)


def test_every_message_with_its_hash_is_looked_at_in_a_step_of_its_own(crowded: Crowded) -> None:
    steps = sum(1 for _ in crowded.recalling())
    assert steps >= STRANGERS
    (answer,) = crowded.sender.answers
    assert (answer.code, answer.ext["msgId"]) == (ResponseCode.SUCCESS, "same")
    assert crowded.deliver() == []


def test_what_is_delivered_while_it_is_searched_is_not_recalled(crowded: Crowded) -> None:
    recalling = crowded.recalling()
    for _ in range(STRANGERS // 2):
        next(recalling)
    assert crowded.deliver() == [b"Mine"]
    refusal = finish(recalling)
    assert refusal is not None
    assert refusal.code == ResponseCode.ILLEGAL_OPERATION
    assert "timestamp invalid" in (refusal.remark or "")
    assert crowded.sender.answers == []
