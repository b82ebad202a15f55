"""Connections of the console: every request is answered, in order, however it comes; what is too much is not read."""

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from rocketeer.config.ports import free_ports
from rocketeer.console import http_peers
from rocketeer.console.request_queue import RequestQueue
from support.senders import wait_for

GET = b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n"


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """The path, and how many bytes the body has."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    body = f"<{scope['path']} {size}>".encode()
    length = str(len(body)).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    _, port = free_ports()
    config = uvicorn.Config(
        echo, port=port, http=http_peers.HttpPeer, ws="none", lifespan="off", log_level="error",
        h11_max_incomplete_event_size=http_peers.HEAD_BYTES_MAX,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started, what="the server")
    yield port
    server.should_exit = True
    thread.join(20)


@contextlib.contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        yield sock


def read_until(sock: socket.socket, end: bytes) -> bytes:
    data = b""
    while end not in data:
        piece = sock.recv(1 << 16)
        if not piece:
            break
        data += piece
    return data


def test_requests_that_come_together_are_answered_in_their_order(port: int) -> None:
    with connected(port) as sock:
        sock.sendall(b"".join(GET % number for number in range(300)))
        answers = read_until(sock, b"</299 0>")
        places = [answers.index(b"</%d 0>" % number) for number in range(300)]
        assert places == sorted(places)


def test_a_body_of_any_size_arrives_and_so_does_the_request_behind_it(port: int) -> None:
    for size in (0, 1, 70_000, 3_000_000):
        with connected(port) as sock:
            head = b"POST /form HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size
            sock.sendall(head + b"\n" * size + GET % 7)
            assert b"</form %d>" % size in read_until(sock, b"</7 0>")


@pytest.mark.parametrize("fields", [b"a: b\r\n" * 300, b"a: " + b"b" * 40_000 + b"\r\n"])
def test_a_head_of_too_many_lines_or_bytes_is_refused(port: int, fields: bytes) -> None:
    with connected(port) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n" + fields + b"\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert b" 400 " in read_until(sock, b"\r\n")
    with connected(port) as sock:
        sock.sendall(b"GET /fine HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 100 + b"\r\n")
        assert b"</fine 0>" in read_until(sock, b">")


@pytest.mark.parametrize("method", [b"HEAD", b"POST"])
def test_a_body_that_cannot_be_read_ends_the_connection_and_nothing_else(
    port: int, method: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with connected(port) as sock:
        sock.sendall(method + b" /x HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        sock.sendall(b"no size of a chunk\r\n")
        with contextlib.suppress(ConnectionResetError):
            while sock.recv(1000):
                pass
    with connected(port) as sock:
        sock.sendall(GET % 7)
        assert b"</7 0>" in read_until(sock, b">")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_of_too_many_strangers_the_oldest_gives_its_place(port: int) -> None:
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(connected(port))
        others = [stack.enter_context(connected(port)) for _ in range(http_peers.STRANGERS_MAX)]
        assert first.recv(100) == b""
        others[-1].sendall(GET % 1)
        assert b"</1 0>" in read_until(others[-1], b">")


class Waiter:
    def __init__(self, name: str, served: list[str]) -> None:
        self._name = name
        self._served = served

    def take_turn(self) -> None:
        self._served.append(self._name)

    def give_way(self) -> None:
        raise AssertionError("there is room")


async def test_users_do_not_wait_behind_strangers() -> None:
    served: list[str] = []
    request_queue = RequestQueue()
    peers = [Waiter(f"stranger {number}", served) for number in range(50)]
    user = Waiter("user", served)
    for peer in (*peers, user):
        request_queue.admit(peer, 100)
    request_queue.note_user(user, is_user=True)
    for peer in (*peers, user):
        request_queue.add(peer)
    while len(served) < 51:
        before = len(served)
        await asyncio.sleep(0)
        assert len(served) - before <= 2, "one of each in a turn"
    assert served[:3] == ["user", "stranger 0", "stranger 1"]
