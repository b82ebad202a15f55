"""A cluster of two brokers with a shop in it, and consoles over it: by Starlette's client, and in a browser."""

import threading
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from rocketeer import Admin, Message, Producer, PushConsumer, ReceivedMessage, TopicConfig
from rocketeer.console.app import make_app
from rocketeer.console.config import ClusterConfig, ConsoleConfig
from support.consoles import Browser
from support.senders import wait_for
from support.shop import HOSTILE, LARGE, RTL, Shop
from support.two_brokers import two_brokers


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with two_brokers(tmp_path_factory.mktemp("shop")) as pair:
        with Admin(pair.namesrv) as admin:
            for topic in ("orders", "hostile", "refunds", "later"):
                admin.update_topic(TopicConfig(topic, 2, 2), cluster="DefaultCluster")
        refused = threading.Semaphore(0)
        billing = PushConsumer("billing", nameserver=pair.namesrv, trace=True)
        refusing = PushConsumer("refusing", nameserver=pair.namesrv, retries=0)
        billed: list[str] = []
        billing.subscribe("orders", tags="created")(lambda message: billed.append(message.message_id))

        @refusing.subscribe("refunds")
        def refuse(message: ReceivedMessage) -> None:
            refused.release()
            raise ValueError("never")

        with billing, refusing, Producer("shop", nameserver=pair.namesrv, trace=True) as producer:
            for number in range(30):
                producer.send(
                    Message("orders", b'{"number": %d}' % number, tags="created", keys=f"order-{number}")
                )
            producer.send(Message("hostile", HOSTILE.encode(), keys=HOSTILE, tags=HOSTILE,
                                  properties={RTL: HOSTILE}))  # fmt: skip
            producer.send(Message("hostile", bytes(range(256)), keys="binary"))
            producer.send(Message("hostile", b"\x00\xff" * (LARGE // 2), keys="large"))
            for number in range(12):
                producer.send(Message("refunds", b"refund %d" % number, keys=f"refund-{number}"))
            producer.send(Message("later", b"timed", keys="timed", delay=3600))
            producer.send(Message("later", b"delayed", keys="delayed", delay_level=18))
            for _ in range(12):
                assert refused.acquire(timeout=60)
            with Admin(pair.namesrv) as admin:
                wait_for(lambda: _dead(admin) == 12, what="twelve dead letters")
            yield Shop(pair, pair.namesrv, billing.client_id, billed)


def _dead(admin: Admin) -> int:
    if "%DLQ%refusing" not in admin.topics():
        return 0
    return sum(bounds.max_offset for bounds in admin.topic_status("%DLQ%refusing").queues.values())


@pytest.fixture
def browser(shop: Shop) -> Iterator[TestClient]:
    config = ConsoleConfig(clusters=(ClusterConfig(name="shop", nameserver=shop.nameserver),))
    with TestClient(make_app(config), base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture(scope="session")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    started = Browser(tmp_path_factory.mktemp("chrome"), tmp_path_factory.mktemp("downloads"))
    yield started
    started.quit()
