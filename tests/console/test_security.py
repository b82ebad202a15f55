"""What an attacker tries: other sites' forms, stolen and fixed sessions, guessed passwords, roles, headers, names."""

import contextlib
import json
import socket
import ssl
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml
from starlette.responses import Response
from starlette.testclient import TestClient
from typer.testing import CliRunner

from rocketeer import Admin
from rocketeer.bench.processes import ServerProcess
from rocketeer.cli.main import app as cli
from rocketeer.config.ports import free_ports
from rocketeer.console import http_peers, sessions
from rocketeer.console.app import make_app
from rocketeer.console.config import ClusterConfig, ConsoleConfig
from rocketeer.console.pages import all_pages
from rocketeer.console.sign_in_limit import ADDRESS_WAIT_S_MAX, FREE_TRIES, NAME_WAIT_S_MAX, SignInLimit
from rocketeer.console.users import UserRole, add_user
from support.senders import wait_for
from support.shop import Shop

PASSWORDS = {"eve": "eves password", "otto": "ottos password", "adam": "adams password"}
ROLES = {"eve": UserRole.VIEWER, "otto": UserRole.OPERATOR, "adam": UserRole.ADMIN}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("console")
    for name, password in PASSWORDS.items():
        add_user(folder / "users.yml", name, password, ROLES[name])
    return folder


@pytest.fixture
def client(shop: Shop, files: Path) -> Iterator[TestClient]:
    config = ConsoleConfig(
        clusters=(ClusterConfig(name="shop", nameserver=shop.nameserver),),
        users=files / "users.yml",
        audit_log=files / "audit.log",
    )
    with TestClient(make_app(config), base_url="http://127.0.0.1", follow_redirects=False) as started:
        yield started


def sign_in(client: TestClient, name: str) -> dict[str, str]:
    """Signed in; the header that actions need."""
    assert client.post("/sign-in", data={"name": name, "password": PASSWORDS[name]}).status_code == 303
    return {"x-csrf-token": client.get("/api/token").json()["token"]}


def entries(files: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (files / "audit.log").read_text().splitlines()]


def test_no_view_download_or_action_is_open_to_whoever_is_not_signed_in(client: TestClient) -> None:
    registry = all_pages()
    for each in (*registry.views, *registry.downloads):
        path = each.path.replace(":path", "").replace("{", "").replace("}", "")
        assert client.get(f"/api/shop{path}").status_code == 401, path
        answer = client.get(f"/c/shop{path}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in"), path
    for action in registry.actions:
        path = action.path.replace("{", "").replace("}", "")
        assert client.post(f"/api/shop{path}", json={}).status_code == 401, path
        assert client.post(f"/c/shop{path}", data={}).status_code == 303, path
    for path in ("/api", "/api/openapi.json", "/api/token"):
        assert client.get(path).status_code in (303, 401), path
    assert client.get("/static/console.css").status_code == 200


@pytest.mark.parametrize("name", ["eve", "otto"])
def test_no_action_of_a_higher_role_is_done_by_page_or_api(
    client: TestClient, name: str, files: Path
) -> None:
    headers = sign_in(client, name)
    refused = [action for action in all_pages().actions if action.role > ROLES[name]]
    assert len(refused) > 8
    before = len(entries(files))
    for action in refused:
        path = action.path.replace("{", "").replace("}", "")
        form = {"csrf_token": headers["x-csrf-token"], "confirmed": "yes"}
        assert client.post(f"/c/shop{path}", data=form).status_code == 403, action.name
        answer = client.post(f"/api/shop{path}", json={}, headers=headers)
        assert answer.status_code == 403, action.name
        assert "role" in answer.json()["error"]
    noted = entries(files)[before:]
    assert [entry["event"] for entry in noted] == ["refused"] * (2 * len(refused))
    assert {entry["user"] for entry in noted} == {name}
    if name == "eve":
        assert "Access" not in client.get("/c/shop/").text, (
            "a page nobody with the role may see is not offered"
        )


def test_a_form_of_another_site_or_another_session_changes_nothing(client: TestClient) -> None:
    headers = sign_in(client, "adam")
    token = headers["x-csrf-token"]
    for extra in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}):
        answer = client.post("/c/shop/topics", data={"topic": "forged", "csrf_token": token}, headers=extra)
        assert answer.status_code == 403, extra
        signed = client.post("/sign-in", data={"name": "adam", "password": PASSWORDS["adam"]}, headers=extra)
        assert signed.status_code == 403, "nor is anybody signed in from elsewhere"
    sign_in(client, "adam")
    for stale in (token, "", "0" * 64, "\u202e"):
        answer = client.post("/c/shop/topics", data={"topic": "forged", "csrf_token": stale})
        assert answer.status_code == 403, "a token is of one session"
    assert "forged" not in json.dumps(client.get("/api/shop/topics").json())


def test_a_session_that_was_there_before_is_not_the_one_signed_in(client: TestClient) -> None:
    sign_in(client, "eve")
    before = client.cookies["rocketeer_session"]
    headers = sign_in(client, "adam")
    assert client.cookies["rocketeer_session"] != before
    stolen = client.cookies["rocketeer_session"]
    out = client.post("/sign-out", data={"csrf_token": headers["x-csrf-token"]})
    assert out.status_code == 303
    client.cookies.set("rocketeer_session", stolen)
    assert client.get("/api/shop/topics").status_code == 401, "signing out ends it, whoever has the cookie"
    client.cookies.set("rocketeer_session", stolen[:-2])
    assert client.get("/api/shop/topics").status_code == 401


def test_cookies_are_not_for_scripts_nor_for_other_sites(client: TestClient) -> None:
    answer = client.post("/sign-in", data={"name": "adam", "password": PASSWORDS["adam"]})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_who_is_taken_out_of_the_file_is_out(client: TestClient, files: Path) -> None:
    add_user(files / "users.yml", "gone", "gones password", UserRole.ADMIN)
    PASSWORDS["gone"] = "gones password"
    sign_in(client, "gone")
    assert client.get("/api/shop/topics").status_code == 200
    users = yaml.safe_load((files / "users.yml").read_text())
    del users["gone"], PASSWORDS["gone"]
    (files / "users.yml").write_text(yaml.safe_dump(users))
    assert client.get("/api/shop/topics").status_code == 401


def test_guessing_is_slowed_and_noted(client: TestClient, files: Path) -> None:
    def tried(password: str) -> Any:
        return client.post("/sign-in", data={"name": "adam", "password": password})

    for _ in range(FREE_TRIES):
        assert tried("wrong").status_code == 401
    for _ in range(
        6
    ):  # the wait doubles from a second on, and a try may take longer than that on a busy machine
        if tried("wrong").status_code == 429:
            break
    limited = tried(PASSWORDS["adam"])
    assert limited.status_code == 429
    assert int(limited.headers["retry-after"]) >= 1
    assert [entry["event"] for entry in entries(files)][-1] == "sign-in refused"
    assert PASSWORDS["adam"] not in (files / "audit.log").read_text()


def test_the_wait_doubles_and_ends() -> None:
    limit, now_s = SignInLimit(), 1000.0
    for _ in range(FREE_TRIES - 1):
        limit.failed("10.0.0.1", "adam", now_s)
    assert limit.wait_s("10.0.0.1", "adam", now_s) == 0
    waits = []
    for _ in range(20):
        limit.failed("10.0.0.1", "adam", now_s)
        waits.append(limit.wait_s("10.0.0.1", "adam", now_s))
    assert waits[:4] == [1, 2, 4, 8]
    assert waits[-1] == ADDRESS_WAIT_S_MAX
    assert limit.wait_s("10.0.0.2", "adam", now_s) == NAME_WAIT_S_MAX, "others cannot lock adam out for long"
    assert limit.wait_s("10.0.0.2", "eve", now_s) == 0
    assert limit.wait_s("10.0.0.1", "adam", now_s + ADDRESS_WAIT_S_MAX) == 0
    limit.succeeded("10.0.0.2", "adam")
    assert limit.wait_s("10.0.0.2", "adam", now_s) == 0


def test_where_nobody_signs_in_no_other_name_leads_here(browser: TestClient) -> None:
    for host in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "[::1"):
        assert browser.get("/c/shop/", headers={"host": host}).status_code == 421, host
    for host in ("localhost:8080", "127.0.0.1:1", "[::1]:80"):
        assert browser.get("/c/shop/cluster", headers={"host": host}).status_code == 200, host


def test_what_has_no_length_or_too_much_of_it_is_refused(browser: TestClient) -> None:
    def endless() -> Iterator[bytes]:
        yield b"topic=x"

    assert browser.post("/c/shop/topics", content=endless()).status_code == 411
    huge = browser.post("/c/shop/topics", content=b"x", headers={"content-length": str(1 << 40)})
    assert huge.status_code == 413


@pytest.mark.parametrize("body", ["", "[", "[]", '"x"', "null", "[" * 100_000])
def test_a_body_that_is_no_object_is_one_sentence(browser: TestClient, body: str) -> None:
    headers = {"x-csrf-token": browser.get("/api/token").json()["token"]}
    answer = browser.post("/api/shop/topics", content=body, headers=headers)
    assert answer.status_code == 400
    assert "JSON" in answer.json()["error"]


def test_a_name_cannot_end_a_header(browser: TestClient) -> None:
    group = 'x\r\nset-cookie: a=b\r\n"; filename="evil.html'
    answer = browser.get(f"/c/shop/dead-letters/{urllib.parse.quote(group, safe='')}/export")
    assert "a=b" not in str(answer.headers)
    exported = browser.get("/c/shop/dead-letters/refusing/export")
    assert exported.headers["content-disposition"].startswith("attachment; ")
    assert "sandbox" in exported.headers["content-security-policy"]
    assert exported.headers["x-content-type-options"] == "nosniff"


def test_an_action_leads_nowhere_else(browser: TestClient) -> None:
    token = browser.get("/api/token").json()["token"]
    for back in ("//evil.example/", "https://evil.example/c/shop/", "/c/shop/\\..//evil", "/c/other/", "x"):
        fields = {"csrf_token": token, "topic": "not a name", "back": back}
        answer = browser.post("/c/shop/topics", data=fields, follow_redirects=False)
        assert answer.headers["location"].startswith("/c/shop/"), back


def test_every_answer_has_the_policy(browser: TestClient) -> None:
    for path in ("/c/shop/", "/api/shop/topics", "/static/console.js", "/nowhere", "/c/nowhere/", "/sign-in"):
        headers = browser.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert "unsafe" not in headers["content-security-policy"], path
        assert headers["x-frame-options"] == "DENY"


def test_what_cannot_be_noted_is_not_done(shop: Shop, tmp_path: Path) -> None:
    config = ConsoleConfig(
        clusters=(ClusterConfig(name="shop", nameserver=shop.nameserver),),
        audit_log=tmp_path / "no" / "audit",
    )
    with TestClient(make_app(config), base_url="http://127.0.0.1") as client:
        headers = {"x-csrf-token": client.get("/api/token").json()["token"]}
        answer = client.post("/api/shop/topics", json={"topic": "unnoted"}, headers=headers)
        assert answer.status_code == 500
        assert "audit log" in answer.json()["error"]
    with Admin(shop.nameserver) as admin:
        assert "unnoted" not in admin.topics()


def test_bodies_and_secrets_are_not_noted_and_everything_else_is(client: TestClient, files: Path) -> None:
    before = len(entries(files))
    headers = sign_in(client, "adam")
    client.post("/api/shop/topics/later/send", json={"body": "private words"}, headers=headers)
    client.post("/api/shop/access", json={"access_key": "k", "secret_key": "geheim"}, headers=headers)
    dry = client.post("/api/shop/topics/later/delete", json={"dry_run": True}, headers=headers).json()
    assert any("messages are in it" in each for each in dry["will"])
    text = (files / "audit.log").read_text()
    assert "private words" not in text
    assert "geheim" not in text
    noted = entries(files)[before:]
    asked, done = [entry for entry in noted if entry.get("action") == "send_message"]
    assert (asked["event"], done["event"]) == ("asked", "done")
    assert "stored in queue" in str(done["outcome"])
    assert not [entry for entry in noted if entry.get("action") == "delete_topic"]
    assert (files / "audit.log").stat().st_mode & 0o777 == 0o600


def test_https_by_itself(shop: Shop, files: Path, tmp_path: Path) -> None:
    made = CliRunner().invoke(cli, ["certs", str(tmp_path), "--host", "127.0.0.1"])
    assert made.exit_code == 0, made.output
    _, port = free_ports()
    command = [
        sys.executable, "-m", "rocketeer.cli.main", "console", "-n", shop.nameserver, "--port", str(port), "--users", str(files / "users.yml"),
        "--certificate", str(tmp_path / "server.pem"), "--key", str(tmp_path / "server-key.pem"),
    ]  # fmt: skip
    running = ServerProcess(command, log=tmp_path / "console.out")
    try:
        context = ssl.create_default_context(cafile=tmp_path / "ca.pem")

        def answers() -> bool:
            try:
                with urllib.request.urlopen(f"https://127.0.0.1:{port}/sign-in", context=context) as answer:
                    return "max-age" in answer.headers["strict-transport-security"]
            except (urllib.error.URLError, OSError):
                return False

        wait_for(answers, what="the console")
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(f"https://127.0.0.1:{port}/sign-in", context=ssl.create_default_context())
    finally:
        running.stop()


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("no certificate")
    arguments = ["console", "-n", "127.0.0.1:1", "--certificate", str(tmp_path / "x.pem")]
    half = CliRunner().invoke(cli, arguments)
    assert "--key" in str(half.exception or half.output)
    bad = CliRunner().invoke(cli, [*arguments, "--key", str(tmp_path / "x.pem")])
    assert "cannot be used" in str(bad.exception or bad.output)


def test_strangers_have_no_large_form_read(client: TestClient) -> None:
    assert client.post("/sign-in", content=b"a=b&" * 10_000).status_code == 413
    form = {"content-type": "application/x-www-form-urlencoded"}
    path = next(action.path for action in all_pages().actions if "{" not in action.path)
    began_s = time.process_time()
    refused = client.post(f"/c/shop{path}", content=b"a=b&" * 1_000_000, headers=form)
    assert refused.status_code in (303, 401), "who has not signed in is told so"
    assert time.process_time() - began_s < 0.5, "and nobody has taken a million fields apart before"


def test_sessions_have_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 3)
    kept = sessions.Sessions(is_secure=False)
    begun = [kept.begin(Response(), f"user{number}") for number in range(5)]
    assert [each.id in kept._ends_s for each in begun] == [False, False, True, True, True]


@contextlib.contextmanager
def served(answer: Any) -> Iterator[int]:
    """An application behind the console's HTTP; its port."""
    _, port = free_ports()
    server = uvicorn.Server(
        uvicorn.Config(
            answer, port=port, http=http_peers.HttpPeer, ws="none", lifespan="off", log_level="error"
        )
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started, what="the server")
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(20)


async def ok(send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def test_a_peer_that_sends_its_request_byte_by_byte_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_peers, "REQUEST_S", 0.5)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await ok(send)

    with served(answer) as port:
        for start in (b"", b"GET / HTT", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port), 10) as slow:
                slow.sendall(start)
                assert slow.recv(100) == b"", start
        with socket.create_connection(("127.0.0.1", port), 10) as prompt:
            prompt.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert b"ok" in prompt.recv(1000)


def test_a_body_that_is_none_ends_the_request_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await ok(send)  # whatever is wrong with the body

    with served(answer) as port:
        with socket.create_connection(("127.0.0.1", port), 10) as peer:
            peer.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nno chunk\r\n\r\n")
            assert peer.recv(1000).startswith(b"HTTP/1.1 400")
        with socket.create_connection(("127.0.0.1", port), 10) as peer:
            peer.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert b"ok" in peer.recv(1000)
    assert "Traceback" not in caplog.text


def test_a_form_of_strangers_has_few_fields(client: TestClient) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert client.post("/sign-in", content=b"a&" * 5_000, headers=form).status_code == 400
