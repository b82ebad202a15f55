"""What strangers do with TLS: handshakes in crowds, handshakes that do not end, and crowds of requests inside."""

import contextlib
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator

from rocketeer.protocol.command import Command, encode
from rocketeer.record.batch import BatchItem, encode_batch
from rocketeer.remoting.address import split_address
from support.hold import HONEST_TOPIC
from support.senders import send_header
from support.worst_requests.accounts import signed
from support.worst_requests.catalogue import HA_TLS, TLS, Attack, listed

CROWD = 300


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _connected(address: str) -> socket.socket:
    return socket.create_connection(split_address(address), 30)


def _hello() -> bytes:
    """What a client says first."""
    out = ssl.MemoryBIO()
    shaking = _context().wrap_bio(ssl.MemoryBIO(), out)
    with contextlib.suppress(ssl.SSLWantReadError):
        shaking.do_handshake()
    return out.read()


def _all_at_once(socks: list[socket.socket], data: bytes) -> None:
    for sock in socks:
        with contextlib.suppress(OSError):
            sock.sendall(data)


@contextlib.contextmanager
def _sockets(address: str, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_connected(address)) for _ in range(count)]


@listed(TLS, f"{CROWD} handshakes that begin together and do not end", memory_mb=128)
def _(address: str) -> None:
    with _sockets(address, CROWD) as socks:
        hello = _hello()
        _all_at_once(socks, hello)
        time.sleep(1)


@listed(TLS, "2,000 connections that say a TLS hello is coming", memory_mb=128)
def _(address: str) -> None:
    with _sockets(address, 2_000) as socks:
        _all_at_once(socks, b"\x16\x03\x01\x02\x00\x01")
        time.sleep(1)


@listed(TLS, "500 connections whose hello is nonsense")
def _(address: str) -> None:
    with _sockets(address, 500) as socks:
        _all_at_once(socks, b"\x16\x03\x01\x02\x00" + os.urandom(512))
        time.sleep(0.5)


def crowd(make: Callable[[], Command], size: int) -> Attack:
    """All of them have shaken hands and have sent nearly all of the request before the first one sends its end."""

    def attack(address: str) -> None:
        data = encode(make())
        with contextlib.ExitStack() as stack:
            lines = [stack.enter_context(_encrypted(address)) for _ in range(size)]
            senders = [
                threading.Thread(target=line.sendall, args=(data[:-1],), daemon=True) for line in lines
            ]
            for sender in senders:
                sender.start()
            for sender in senders:
                sender.join(60)
            for line in lines:
                line.sendall(data[-1:])
            for line in lines:
                with contextlib.suppress(OSError):
                    line.recv(1 << 16)

    return attack


@listed(TLS, "16 connections with 20,000 records of one byte each", memory_mb=128)
def _(address: str) -> None:
    data = encode(signed(310, send_header(HONEST_TOPIC, 0, ""), bytes(20_000)))
    with _sockets(address, 16) as socks:
        writers = [_TinyRecords(sock, data) for sock in socks]
        senders = [threading.Thread(target=writer.send, daemon=True) for writer in writers]
        for sender in senders:
            sender.start()
        for sender, sock in zip(senders, socks, strict=True):
            sender.join(60)
            with contextlib.suppress(OSError):
                sock.recv(1)


class _TinyRecords:
    """Everything is encrypted before it is sent."""

    def __init__(self, sock: socket.socket, data: bytes) -> None:
        self._sock = sock
        come, out = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = _context().wrap_bio(come, out)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                sock.sendall(out.read())
                come.write(sock.recv(1 << 16))
        for at in range(len(data)):
            tls.write(data[at : at + 1])
        self._records = out.read()

    def send(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.sendall(self._records)


PEERS = 64
"""So many are let in at the ports for servers of one installation."""


@listed(HA_TLS, f"4 times {PEERS} handshakes that begin together and do not end")
def _(address: str) -> None:
    hello = _hello()
    for _ in range(4):
        with _sockets(address, PEERS) as socks:
            _all_at_once(socks, hello)
            time.sleep(0.2)


@listed(HA_TLS, f"{PEERS} slaves that report in 20,000 records of one byte each, at once")
def _(address: str) -> None:
    data = struct.pack(">q", -1) + bytes(20_000)
    with _sockets(address, PEERS) as socks:
        writers = [_TinyRecords(sock, data) for sock in socks]
        senders = [threading.Thread(target=writer.send, daemon=True) for writer in writers]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join(60)
        time.sleep(1)


def _encrypted(address: str) -> ssl.SSLSocket:
    return _context().wrap_socket(_connected(address))


def _batch(count: int, properties: bytes) -> Command:
    items = [BatchItem(0, b"", properties) for _ in range(count)]
    return signed(320, send_header(HONEST_TOPIC, 0, "", batch=True), encode_batch(items))


listed(TLS, f"{CROWD} connections with a batch of 1,000 messages each", memory_mb=128)(
    crowd(lambda: _batch(1_000, b"KEYS\x01a b c\x02"), CROWD)
)
listed(
    TLS,
    "64 connections with a batch of 1,000 messages with keys that are not UTF-8 each",
    memory_mb=128,
)(crowd(lambda: _batch(1_000, b"KEYS\x01\xff\x02"), 64))
listed(TLS, "64 connections with a message of 15,000 keys each", memory_mb=128)(
    crowd(lambda: signed(310, send_header(HONEST_TOPIC, 0, "KEYS\x01" + "a " * 15_000), b"x"), 64)
)
listed(TLS, "64 connections with a message of 4 MB each", memory_mb=400)(
    crowd(lambda: signed(310, send_header(HONEST_TOPIC, 0, ""), bytes(4_000_000)), 64)
)
