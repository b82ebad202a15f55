"""The console at Apache's own broker: every page shows what that answers; what it cannot answer is left out with a reason."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from rocketeer import Admin, Message, Producer, PushConsumer, ReceivedMessage, SendResult, TopicConfig
from rocketeer.console.app import make_app
from rocketeer.console.config import ClusterConfig, ConsoleConfig
from rocketeer.console.pages import all_pages
from rocketeer.errors import BrokerRefused
from support.cluster import ServerCluster, running_cluster
from support.senders import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]
SLOW_S = 4.0
"""A page that waits for an answer that never comes takes longer."""


@dataclass
class Shop:
    cluster: ServerCluster
    sent: list[SendResult]
    client_id: str


def knows_itself(admin: Admin, broker: str) -> bool:
    try:
        admin.broker_runtime(broker)
    except BrokerRefused:
        return False
    return True


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Orders that `billing` consumes, refunds that `refusing` refused, one message that is delayed for long."""
    folder = tmp_path_factory.mktemp("apache")
    conf = {"messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"}
    with (
        running_cluster(folder, peer="apache", conf=conf) as cluster,
        Admin(cluster.namesrv, timeout_s=10) as admin,
    ):
        for topic in ("orders", "refunds", "later"):
            admin.update_topic(TopicConfig(topic, 2, 2), cluster="DefaultCluster")
        billing = PushConsumer("billing", nameserver=cluster.namesrv, trace=True)
        refusing = PushConsumer("refusing", nameserver=cluster.namesrv, retries=0)
        billed: list[str] = []
        billing.subscribe("orders")(lambda message: billed.append(message.message_id))

        @refusing.subscribe("refunds")
        def refuse(message: ReceivedMessage) -> None:
            raise ValueError("never")

        with billing, refusing, Producer("shop", nameserver=cluster.namesrv, trace=True) as producer:
            sent = [
                producer.send(
                    Message("orders", b'{"number": %d}' % number, tags="created", keys=f"order-{number}")
                )
                for number in range(12)
            ]
            for number in range(3):
                producer.send(Message("refunds", b"refund", keys=f"refund-{number}"))
            producer.send(Message("later", b"delayed", keys="delayed", delay_level=18))
            wait_for(
                lambda: len(billed) == 12 and "%DLQ%refusing" in admin.topics(),
                what="orders and dead letters",
            )
            # In its first second Apache's broker has no figures of itself, and answers with an exception.
            wait_for(lambda: knows_itself(admin, cluster.broker), what="the broker's figures")
            yield Shop(cluster, sent, billing.client_id)


@pytest.fixture(scope="module")
def console(shop: Shop) -> Iterator[TestClient]:
    config = ConsoleConfig(clusters=(ClusterConfig(name="apache", nameserver=shop.cluster.namesrv),))
    with TestClient(make_app(config), base_url="http://127.0.0.1") as client:
        yield client


def page(console: TestClient, path: str) -> str:
    """A page as it is when nothing of it fails, and no answer is waited for in vain."""
    began_s = time.monotonic()
    answer = console.get(f"/c/apache{path}")
    took_s = time.monotonic() - began_s
    assert answer.status_code == 200, (path, answer.text)
    assert 'class="failures"' not in answer.text, (path, answer.text)
    assert took_s < SLOW_S, (path, took_s)
    return answer.text


def test_every_page_shows_what_that_broker_holds(console: TestClient, shop: Shop) -> None:
    first, address = shop.sent[0], shop.cluster.broker
    held = {
        "/": "broker-a",
        "/cluster": "V4_9",
        f"/cluster/{address}": "mappedFileSizeCommitLog",
        "/topics": "orders",
        "/topics?kind=system": "SCHEDULE_TOPIC_XXXX",
        "/topics/orders": "billing",
        "/groups": "billing",
        "/groups/billing": shop.client_id,
        f"/groups/billing/members/{quote(shop.client_id, safe='')}": "orders",
        "/producers": "shop",
        "/messages?topic=orders&begin=0": "order-1",
        "/messages?topic=orders&by=key&value=order-7": "order-7",
        f"/messages?topic=orders&by=id&value={first.message_id}": "order-0",
        f"/messages/orders/{first.offset_message_id}": "billing",
        "/dead-letters": "refusing",
        "/dead-letters?kind=retry": "refusing",
        "/dead-letters/refusing": "refund-1",
        "/delayed": "2 h 0 min",
        "/transactions": "Half messages",
        "/operations": "orderMessageEnable",
        "/pipeline": "Spark jobs",
    }
    for path, text in held.items():
        wait_for(
            lambda path=path, text=text: text in page(console, path), what=f"{text} on {path}", timeout_s=30
        )
    shown = {path.partition("?")[0] for path in held} | {"/replicas", "/access", "/trace"}
    for view in all_pages().views:
        pattern = re.compile(re.sub(r"{\w+(:path)?}", ".+", view.path))
        assert any(pattern.fullmatch(path) for path in shown), f"{view.path} is not looked at"


def test_a_trace_is_shown(console: TestClient, shop: Shop) -> None:
    path = f"/trace?id={shop.sent[0].message_id}"
    wait_for(lambda: "billing" in page(console, path), what="the trace", timeout_s=60)


def test_what_it_cannot_answer_is_left_out_with_a_reason(console: TestClient) -> None:
    delayed = page(console, "/delayed")
    assert "broker-a has no timers: RocketMQ 4 delivers timed messages at once." in delayed
    assert "/delayed/recall" not in delayed
    access = page(console, "/access")
    assert "broker-a has aclEnable=false." in access
    assert "<form method" not in access.partition("<main")[2]
    assert "No broker here is a member of a replica group." in page(console, "/replicas")


def test_actions_change_that_broker(console: TestClient, shop: Shop) -> None:
    token = {"x-csrf-token": console.get("/api/token").json()["token"]}

    def act(path: str, **fields: object) -> str:
        answer = console.post(f"/api/apache{path}", json=fields, headers=token)
        assert answer.status_code == 200, (path, answer.text)
        assert answer.json()["failures"] == [], path
        return str(answer.json()["done"])

    assert "made is on broker-a" in act("/topics", topic="made", read_queues=2, write_queues=2)
    assert "stored in queue" in act("/topics/made/send", body="hello", keys="greeting")
    assert "queues of orders" in act("/groups/billing/reset", topic="orders", time="2020-01-01T00:00")
    assert "go on at their end" in act("/groups/billing/skip", topic="orders")
    first = shop.sent[0]
    assert "CR_SUCCESS" in act(
        f"/messages/orders/{first.offset_message_id}/consume", group="billing", client=shop.client_id
    )
    key = "maxTransferCountOnMessageInMemory"
    assert "'33'" in act(f"/cluster/{shop.cluster.broker}/setting", key=key, value="33")
    assert "led away" in act("/brokers/broker-a/writable", writable=False)
    assert "led to broker-a again" in act("/brokers/broker-a/writable", writable=True)
    assert "is saved" in act("/operations/kv", namespace="NS", key="a", value="b")
    assert "is deleted" in act("/operations/kv/delete", namespace="NS", key="a")
    act("/dead-letters/refusing/resend")
    assert "is deleted" in act("/topics/made/delete")
    assert "is deleted" in act("/groups/refusing/delete")
