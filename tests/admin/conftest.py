"""One cluster of two brokers for all admin tests; each test uses topics and groups of its own."""

import itertools
import time
from collections.abc import Callable, Iterator

import pytest

from rocketeer import Admin, Message, Producer, PushConsumer, ReceivedMessage, SendResult, TopicConfig
from support.mqadmin import Mqadmin
from support.two_brokers import TwoBrokers, two_brokers

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBrokers]:
    with two_brokers(tmp_path_factory.mktemp("pair")) as running:
        yield running


@pytest.fixture(scope="session")
def admin(pair: TwoBrokers) -> Iterator[Admin]:
    with Admin(pair.namesrv) as started:
        yield started


@pytest.fixture(scope="session")
def producer(pair: TwoBrokers) -> Iterator[Producer]:
    with Producer("PG_shop", nameserver=pair.namesrv, trace=True) as started:
        yield started


@pytest.fixture
def mqadmin(pair: TwoBrokers, capsys: pytest.CaptureFixture[str]) -> Mqadmin:
    return Mqadmin(pair.namesrv, capsys)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name no other test uses, for a topic or a group."""
    return f"N{next(_numbers)}-{request.node.name[:40].translate(str.maketrans('[]', '--'))}"


@pytest.fixture
def topic(admin: Admin, name: str) -> str:
    """A topic with two queues on each broker."""
    admin.update_topic(TopicConfig(name, 2, 2), cluster="DefaultCluster")
    return name


class Shop:
    """A topic that was sent to, and a group that consumed some of it and is running."""

    def __init__(self, topic: str, group: str, sent: list[SendResult], consumer: PushConsumer) -> None:
        self.topic = topic
        self.group = group
        self.sent = sent
        self.consumer = consumer

    @property
    def client_id(self) -> str:
        return self.consumer.client_id


def wait_until(what: Callable[[], bool], timeout_s: float = 30) -> None:
    end_s = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < end_s, f"not within {timeout_s:g} s"
        time.sleep(0.05)


@pytest.fixture(scope="session")
def shop(pair: TwoBrokers, admin: Admin, producer: Producer) -> Iterator[Shop]:
    """Twelve messages, all consumed, by a consumer that goes on running."""
    admin.update_topic(TopicConfig("Orders", 2, 2), cluster="DefaultCluster")
    group = "billing"
    # It learns of the second broker's retry queue when it looks, not twenty seconds later.
    consumer = PushConsumer(group, nameserver=pair.namesrv, trace=True, rebalance_s=1.0, route_poll_s=1.0)
    seen: list[str] = []

    @consumer.subscribe("Orders", tags="created || paid")
    def bill(message: ReceivedMessage) -> None:
        seen.append(message.message_id)

    with consumer:
        sent = [
            producer.send(Message("Orders", f"order {number}".encode(), tags="created", keys=f"key{number}"))
            for number in range(12)
        ]
        wait_until(lambda: len(seen) >= 12)
        wait_until(lambda: admin.group_progress(group, "Orders").lag == 0)
        yield Shop("Orders", group, sent, consumer)
