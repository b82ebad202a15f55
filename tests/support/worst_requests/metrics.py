"""What strangers do at the port that metrics are served on."""

import contextlib
import socket
import threading
import time

from rocketeer.remoting.address import split_address
from support.worst_requests.catalogue import CATALOGUES, METRICS_PORT, Worst, listed
from support.worst_requests.pieces import MB

CROWDED: list[Worst] = []
"""Of a broker to which strangers have committed offsets for as many names as they liked."""
CATALOGUES["metrics port of a crowded broker"] = CROWDED


def _talk(address: str, data: bytes, *, times: int = 1) -> None:
    """Send and read until the server ends it, one connection after the other."""
    for _ in range(times):
        with contextlib.suppress(OSError), socket.create_connection(split_address(address), 5) as sock:
            reader = threading.Thread(target=_drain, args=(sock,), daemon=True)
            reader.start()
            with contextlib.suppress(OSError):
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
            reader.join(6)


def _drain(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while sock.recv(1 << 18):
            pass


def _all(address: str, data: bytes, *, connections: int, times: int = 1) -> None:
    threads = [
        threading.Thread(target=_talk, args=(address, data), kwargs={"times": times}, daemon=True)
        for _ in range(connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


@listed(METRICS_PORT, "32 requests with 6 MB of headers each at once")
def _(address: str) -> None:
    head = b"GET /metrics HTTP/1.1\r\n" + b"".join(
        b"h%d: %s\r\n" % (number, b"v" * 65_000) for number in range(95)
    )
    _all(address, head + b"\r\n", connections=32)


@listed(METRICS_PORT, "32 connections with 100 requests each at once")
def _(address: str) -> None:
    _all(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 100, connections=32)


@listed(METRICS_PORT, "32 connections with 3,000 requests for nothing each at once")
def _(address: str) -> None:
    _all(address, b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n" * 3_000, connections=32)


@listed(METRICS_PORT, "16 callers with 150 connections each, one after the other")
def _(address: str) -> None:
    _all(address, b"GET /nothing HTTP/1.0\r\n\r\n", connections=16, times=150)


@listed(METRICS_PORT, "a line of 60 MB")
def _(address: str) -> None:
    _talk(address, b"GET /" + b"x" * (60 * MB))


@listed(METRICS_PORT, "100 connections that say nothing")
def _(address: str) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_connection(split_address(address), 5))
        time.sleep(1)


@listed(CROWDED, "32 scrapers of each page at once, of tens of MB")
def _(address: str) -> None:
    for page in (b"/metrics", b"/metrics/exporter"):
        _all(address, b"GET %s HTTP/1.0\r\n\r\n" % page, connections=32)
