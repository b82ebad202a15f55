"""Every page shows what the cluster holds; forms change it; nothing that was stored becomes HTML."""

import html
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from rocketeer import Admin, Message, Producer, PushConsumer, ReceivedMessage, TopicConfig
from rocketeer.console.app import make_app
from rocketeer.console.config import ClusterConfig, ConsoleConfig
from rocketeer.console.pages import all_pages
from rocketeer.console.users import UserRole, add_user
from rocketeer.errors import ConfigError
from support.senders import wait_for
from support.shop import HOSTILE, Shop


def token_of(page: str) -> str:
    found = re.search(r'name="csrf_token" value="([0-9a-f]+)"', page)
    assert found is not None
    return found.group(1)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/", "broker-a"),
        ("/cluster", "broker-a"),
        ("/topics", "orders"),
        ("/topics?q=order", "orders"),
        ("/topics/orders", "broker-a"),
        ("/groups", "Groups"),
        ("/messages", "Find by"),
        ("/producers", "Producers"),
        ("/dead-letters", "refusing"),
        ("/dead-letters/refusing?q=refund-3", "refund-3"),
        ("/dead-letters/refusing?q=nowhere", "Nothing found."),
        ("/delayed", "Delayed"),
        ("/transactions", "Half messages"),
        ("/trace", "Message id"),
        ("/trace?id=C0000202E8120000000000000000001D", "Nothing found."),
        ("/access", "access control"),
        ("/pipeline", "Spark jobs"),
        ("/operations", "orderMessageEnable"),
        ("/messages?topic=orders&by=key&value=order-7", "order-7"),
        ("/messages?topic=orders", "order-1"),
    ],
)
def test_a_page_shows_the_cluster(browser: TestClient, path: str, text: str) -> None:
    answer = browser.get(f"/c/shop{path}")
    assert answer.status_code == 200, answer.text
    assert text in answer.text


def test_what_was_sent_is_shown_and_never_becomes_html(browser: TestClient) -> None:
    found = browser.get("/c/shop/messages", params={"topic": "hostile"})
    assert HOSTILE not in found.text
    assert html.escape(HOSTILE) in found.text or "&lt;script&gt;" in found.text
    links = re.findall(r"/c/shop/messages/hostile/[0-9A-F]{32}", found.text)
    assert len(links) == 3
    for link in links:
        page = browser.get(link)
        assert page.status_code == 200
        assert HOSTILE not in page.text
    assert "no HTML" not in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]


def test_a_topic_is_created_changed_and_deleted(browser: TestClient, shop: Shop) -> None:
    token = token_of(browser.get("/c/shop/topics").text)
    fields = {"csrf_token": token, "topic": "made-here", "read_queues": "3", "write_queues": "3", "perm": "6"}
    done = browser.post("/c/shop/topics", data=fields)
    assert "made-here" in done.text
    with Admin(shop.nameserver) as admin:
        (config, _) = [table["made-here"] for table in admin.topic_configs().answers.values()]
        assert config.write_queues == 3
    sent = browser.post("/c/shop/topics/made-here/send", data={"csrf_token": token, "body": "hello"})
    assert "stored in queue" in sent.text
    gone = browser.post("/c/shop/topics/made-here/delete", data={"csrf_token": token, "confirmed": "yes"})
    assert "is deleted" in gone.text
    assert browser.get("/c/shop/topics/made-here").status_code == 502


def test_dead_letters_are_sent_again_with_progress(browser: TestClient, shop: Shop) -> None:
    with Admin(shop.nameserver) as admin:
        before = len(admin.messages_with_key("refunds", "refund-11"))
        fields = {"csrf_token": token_of(browser.get("/c/shop/topics").text), "rate": "100", "q": "refund 11"}
        asked = browser.post("/c/shop/dead-letters/refusing/resend", data=fields)
        assert "This will happen" in asked.text
        assert "refund 11" in asked.text
        done = browser.post("/c/shop/dead-letters/refusing/resend", data={**fields, "confirmed": "yes"})
        assert "being sent again" in done.text
        wait_for(lambda: "1 / 1" in browser.get("/c/shop/dead-letters").text, what="the job's end")
        wait_for(
            lambda: len(admin.messages_with_key("refunds", "refund-11")) == before + 1,
            what="the message again",
        )


def test_dead_letters_of_an_idempotent_producer_are_sent_again(browser: TestClient, shop: Shop) -> None:
    """Their marks are of the first sending: the broker would take the second for it, and store nothing."""

    def refuse(message: ReceivedMessage) -> None:
        raise ValueError("never")

    def letters() -> list[str]:
        found = browser.get("/api/shop/dead-letters/returning").json()["found"]
        return [letter["message"]["id"] for letter in found]

    with Admin(shop.nameserver) as admin:
        admin.update_topic(TopicConfig("returns", 1, 1), broker=shop.pair.broker)
        consumer = PushConsumer("returning", nameserver=shop.nameserver, retries=0)
        consumer.subscribe("returns")(refuse)
        with consumer, Producer("returns", nameserver=shop.nameserver, idempotent=True) as producer:
            producer.send(Message("returns", b"with a number", keys="numbered"))
            producer.send(
                Message("returns", b"with an id", keys="named", properties={"DEDUP_ID": "return 2"})
            )
            wait_for(
                lambda: "%DLQ%returning" in admin.topics() and len(letters()) == 2, what="the dead letters"
            )
        token = {"x-csrf-token": browser.get("/api/token").json()["token"]}
        for letter in letters():
            path = f"/api/shop/messages/%25DLQ%25returning/{letter}/resend"
            assert "sent to returns again" in browser.post(path, json={}, headers=token).json()["done"]
        for key in ("numbered", "named"):
            wait_for(
                lambda key=key: len(admin.messages_with_key("returns", key)) == 2, what=f"{key} stored again"
            )


def test_a_group_that_nobody_knows_is_not_there(browser: TestClient) -> None:
    answer = browser.get("/c/shop/groups/mistyped")
    assert answer.status_code == 404
    assert "no broker knows the group" in answer.text


def test_a_form_without_its_token_changes_nothing(browser: TestClient) -> None:
    for fields in ({}, {"csrf_token": "0" * 64}):
        answer = browser.post("/c/shop/topics", data={"topic": "forged", **fields})
        assert answer.status_code == 403
    assert "forged" not in browser.get("/c/shop/topics").text


def test_the_api_mirrors_pages_and_actions(browser: TestClient) -> None:
    rows = browser.get("/api/shop/topics", params={"q": "orders"}).json()["page"]["rows"]
    assert [row["name"] for row in rows] == ["orders"]
    body = {"topic": "by-api", "read_queues": 1, "write_queues": 1}
    assert browser.post("/api/shop/topics", json=body).status_code == 403
    headers = {"x-csrf-token": browser.get("/api/token").json()["token"]}
    assert "by-api" in browser.post("/api/shop/topics", json=body, headers=headers).json()["done"]
    described = browser.get("/api/openapi.json").json()["paths"]
    registry = all_pages()
    assert len([verb for path in described.values() for verb in path]) == (
        len(registry.views) + len(registry.downloads) + len(registry.actions)
    )
    for view in registry.views:
        if "{" not in view.path:
            assert browser.get(f"/api/shop{view.path}").status_code == 200, view.path


def test_who_signs_in_may_do_what_the_role_allows(shop: Shop, tmp_path: Path) -> None:
    users = tmp_path / "users.yml"
    add_user(users, "eve", "eves password", UserRole.VIEWER)
    add_user(users, "adam", "adams password", UserRole.ADMIN)
    assert users.stat().st_mode & 0o777 == 0o600
    assert "password" not in users.read_text().replace("password:", "")
    audit = tmp_path / "audit.log"
    config = ConsoleConfig(
        clusters=(ClusterConfig(name="shop", nameserver=shop.nameserver),), users=users, audit_log=audit
    )
    with TestClient(make_app(config), base_url="http://127.0.0.1") as client:
        assert "Sign in" in client.get("/c/shop/").text
        assert client.get("/api/shop/topics").status_code == 401
        assert client.post("/sign-in", data={"name": "eve", "password": "wrong one"}).status_code == 401
        client.post("/sign-in", data={"name": "eve", "password": "eves password"})
        page = client.get("/c/shop/topics").text
        assert "orders" in page
        assert 'action="/c/shop' not in page, "a viewer sees no form"
        headers = {"x-csrf-token": client.get("/api/token").json()["token"]}
        refused = client.post("/api/shop/topics", json={"topic": "x"}, headers=headers)
        assert refused.status_code == 403
        assert "operator" in refused.json()["error"]
        client.post("/sign-in", data={"name": "adam", "password": "adams password"})
        headers = {"x-csrf-token": client.get("/api/token").json()["token"]}
        assert client.post("/api/shop/topics", json={"topic": "adams"}, headers=headers).status_code == 200
    assert '"user": "adam"' in audit.read_text()
    assert "save_topic" in audit.read_text()


def test_beyond_this_machine_nobody_gets_in_without_users() -> None:
    config = ConsoleConfig(clusters=(ClusterConfig(name="x", nameserver="127.0.0.1:1"),), host="0.0.0.0")
    with pytest.raises(ConfigError, match="--users"):
        make_app(config)


def test_a_dead_cluster_is_one_sentence(tmp_path: Path) -> None:
    config = ConsoleConfig(clusters=(ClusterConfig(name="gone", nameserver="127.0.0.1:1"),))
    with TestClient(make_app(config), base_url="http://127.0.0.1") as client:
        answer = client.get("/c/gone/")
        assert answer.status_code == 502
        assert "127.0.0.1:1" in answer.text
        assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "path", ["/topics?page=x", "/messages?topic=orders&begin=never", "/messages?topic=orders&after=x:y"]
)
def test_a_field_that_cannot_be_used_is_named(browser: TestClient, path: str) -> None:
    answer = browser.get(f"/c/shop{path}")
    assert answer.status_code == 400


def test_a_chinese_browser_gets_chinese(browser: TestClient) -> None:
    page = browser.get("/c/shop/topics", headers={"accept-language": "zh-CN,zh;q=0.9"}).text
    assert 'lang="zh-CN"' in page
    assert "主题" in page
