"""What strangers do at the ports for servers of one installation: the HA port, and the members' port of a group."""

import contextlib
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator

from rocketeer.group.frames import FrameKind, frame
from rocketeer.remoting.address import split_address
from support.worst_requests.catalogue import HA_PORT, MEMBERS_PORT, listed
from support.worst_requests.pieces import MB

CONNECTIONS = 64
"""So many are let in."""


@contextlib.contextmanager
def _connections(address: str, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_connected(address)) for _ in range(count)]


def _connected(address: str) -> socket.socket:
    return socket.create_connection(split_address(address), 10)


def _send(sock: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        sock.sendall(data)


def _together(socks: list[socket.socket], data: bytes) -> None:
    """From a thread for each."""
    senders = [threading.Thread(target=_send, args=(sock, data), daemon=True) for sock in socks]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join(60)


def _read(sock: socket.socket, size: int) -> None:
    sock.settimeout(1)
    with contextlib.suppress(OSError):
        while size > 0 and (data := sock.recv(1 << 20)):
            size -= len(data)


@listed(HA_PORT, "64 slaves with 500,000 reports each at once")
def _(address: str) -> None:
    with _connections(address, CONNECTIONS) as socks:
        for sock in socks:
            _send(sock, struct.pack(">qq", -1, 0))
        _together(socks, bytes(8 * 500_000))


@listed(HA_PORT, "64 slaves that want the whole log at once", memory_mb=64)
def _(address: str) -> None:
    with _connections(address, CONNECTIONS) as socks:
        readers = [threading.Thread(target=_read, args=(sock, 20 * MB), daemon=True) for sock in socks]
        for sock in socks:
            _send(sock, struct.pack(">qq", -1, 0))
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(60)


@listed(HA_PORT, "64 slaves that want the whole log and do not read it", memory_mb=64)
def _(address: str) -> None:
    with _connections(address, CONNECTIONS) as socks:
        for sock in socks:
            _send(sock, struct.pack(">qq", -1, 0))
        time.sleep(2)


def _come_and_go(address: str, data: bytes) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), _connected(address) as sock:
            sock.sendall(data)


@listed(HA_PORT, "200 connections that come with nonsense and go")
def _(address: str) -> None:
    _come_and_go(address, b"\x7f" * 64)


def _hello(address: str, epochs: list[tuple[int, int]], group: str = "", **fields: object) -> bytes:
    name, epoch = _group_and_epoch(address) if not group else (group, 1)
    hello = {"group": name, "member": 7, "incarnation": "x", "epoch": epoch, "epochs": epochs, "log_end": 0}
    return frame(FrameKind.HELLO, epoch, 0, json.dumps(hello | fields, separators=(",", ":")).encode())


def _group_and_epoch(address: str) -> tuple[str, int]:
    """The leader names its group and epoch to whoever errs."""
    said = _refusal(address, _hello(address, [], group="?"))
    found = re.search(r"this is (\S+)", said)
    assert found is not None, said
    name = found[1]
    said = _refusal(address, _hello(address, [], group=name))
    found = re.search(r"this is (\d+)", said)
    return name, int(found[1]) if found is not None else 1


def _refusal(address: str, hello: bytes) -> str:
    with _connected(address) as sock:
        sock.sendall(hello)
        return sock.recv(8192)[17:].decode(errors="replace")


@listed(MEMBERS_PORT, "20 members with a million bytes of epochs each", memory_mb=128)
def _(address: str) -> None:
    data = _hello(address, [(0, 0)] * 170_000, log_end=1)
    for _ in range(20):
        with _connections(address, 1) as socks:
            _send(socks[0], data)
            _read(socks[0], 1)


@listed(MEMBERS_PORT, "60 members with all the epochs there may be, at once", memory_mb=128)
def _(address: str) -> None:
    data = _hello(address, [(0, 0)] * 1_000, log_end=1)
    with _connections(address, 60) as socks:
        _together(socks, data[:-1])
        for sock in socks:
            _send(sock, data[-1:])
        for sock in socks:
            _read(sock, 1)


@listed(MEMBERS_PORT, "60 members with 100,000 acknowledgements each at once")
def _(address: str) -> None:
    name, epoch = _group_and_epoch(address)
    with _connections(address, 60) as socks:
        for number, sock in enumerate(socks):
            _send(sock, _hello(address, [], group=name, member=10 + number, epoch=epoch))
        _together(socks, frame(FrameKind.ACK, epoch, 0) * 100_000)


@listed(MEMBERS_PORT, "200 connections that come with nonsense and go")
def _(address: str) -> None:
    _come_and_go(address, b"\x7f" * 64)


@listed(MEMBERS_PORT, "a group with a name of a million letters, 20 times", memory_mb=64)
def _(address: str) -> None:
    data = _hello(address, [], group="g" * 1_000_000)
    for _ in range(20):
        with contextlib.suppress(OSError):
            _refusal(address, data)
