"""What strangers, and a user who may only look, do to a console."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator

from rocketeer.remoting.address import split_address
from support.hold import COOKIE_VARIABLE
from support.worst_requests.catalogue import CONSOLE, listed
from support.worst_requests.pieces import MB


@contextlib.contextmanager
def _connections(address: str, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(split_address(address), 30)) for _ in range(count)
        ]


def _send_and_drain(sock: socket.socket, data: bytes, wait_s: float) -> None:
    """Read all the while: else the server would stop to read."""
    end_s = time.monotonic() + wait_s
    sock.settimeout(0.1)
    view = memoryview(data)
    with contextlib.suppress(OSError):
        while view and time.monotonic() < end_s:
            with contextlib.suppress(TimeoutError):
                view = view[sock.send(view[: 1 << 18]) :]
        sock.settimeout(max(0.1, end_s - time.monotonic()))
        while sock.recv(1 << 18):
            sock.settimeout(max(0.1, end_s - time.monotonic()))


def _all_at_once(address: str, data: bytes, connections: int, wait_s: float = 1.0) -> None:
    """All have connected and sent nearly all before the first one sends its end."""
    with _connections(address, connections) as socks:
        for sock in socks:
            with contextlib.suppress(OSError):
                sock.sendall(data[: min(len(data) - 1, 4_000)])
        time.sleep(0.3)
        rest = data[min(len(data) - 1, 4_000) :]
        threads = [
            threading.Thread(target=_send_and_drain, args=(sock, rest, wait_s), daemon=True) for sock in socks
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)


def _get(path: str, more: bytes = b"") -> bytes:
    return b"GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n" % (path.encode(), more)


def _post(path: str, body: bytes, more: bytes = b"") -> bytes:
    kind = b"Content-Type: application/x-www-form-urlencoded\r\n"
    return b"POST %s HTTP/1.1\r\nHost: x\r\n%s%sContent-Length: %d\r\n\r\n" % (
        path.encode(), kind, more, len(body),
    ) + body  # fmt: skip


@listed(CONSOLE, "150 connections that ask for the sign-in page at once")
def _(address: str) -> None:
    _all_at_once(address, _get("/sign-in"), 150)


@listed(CONSOLE, "32 connections with 200 requests for the sign-in page each")
def _(address: str) -> None:
    _all_at_once(address, _get("/sign-in") * 200, 32)


@listed(CONSOLE, "32 requests with 10,000 headers each at once")
def _(address: str) -> None:
    _all_at_once(address, _get("/", b"a:\r\n" * 10_000), 32)


@listed(CONSOLE, "32 requests with a cookie of 8,000 parts each at once")
def _(address: str) -> None:
    _all_at_once(address, _get("/c/default/", b"Cookie: " + b"a;" * 8_000 + b"\r\n"), 32)


@listed(CONSOLE, "32 sign-ins with 8,000 fields each at once")
def _(address: str) -> None:
    _all_at_once(address, _post("/sign-in", b"a&" * 8_000), 32)


@listed(CONSOLE, "64 wrong passwords at once", memory_mb=192)
def _(address: str) -> None:
    _all_at_once(address, _post("/sign-in", b"name=admin&password=wrong-password"), 64)


@listed(CONSOLE, "400 connections that come and go")
def _(address: str) -> None:
    def come_and_go() -> None:
        for _ in range(10):
            with contextlib.suppress(OSError), _connections(address, 10):
                pass

    threads = [threading.Thread(target=come_and_go, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)


@listed(CONSOLE, "8 forms of 8 MB of a user who may only look", memory_mb=128)
def _(address: str) -> None:
    cookie = b"Cookie: %s\r\n" % os.environ[COOKIE_VARIABLE].encode()
    _all_at_once(address, _post("/c/default/topics", b"a&" * (4 * MB - 1), cookie), 8, 4)
