"""One connection to a server for reading in bulk: several requests under way, large bodies read in one piece.

The head of a reply is handed over before its body has arrived, so that the next request is on its way (and the
server at work on it) while megabytes still come in. Kept between tasks: `borrow` and `give_back`.
"""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

from rocketeer.errors import (
    BadFrame,
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    FrameTooLarge,
    ProtocolError,
)
from rocketeer.protocol.command import Command, decode_frame, encode
from rocketeer.protocol.frame import FRAME_BYTES_MAX, PREFIX
from rocketeer.remoting.address import split_address

CONNECT_TIMEOUT_S: Final = 5.0
KEPT_MAX: Final = 4
"""Idle connections kept per address and process."""

OnHead = Callable[[Command], None]


class Wire:
    """Not for threads to share."""

    def __init__(self, address: str) -> None:
        self.address = address
        host_port = split_address(address)
        try:
            self._socket = socket.create_connection((host_port.host, host_port.port), CONNECT_TIMEOUT_S)
        except OSError as error:
            raise ConnectFailed(address, str(error) or type(error).__name__) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._room = bytearray()
        self.waiting = 0
        """Requests whose replies have not come yet."""

    def send(self, command: Command, timeout_s: float) -> None:
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(encode(command))
        except TimeoutError:
            raise CallTimeout(self.address, command.code, timeout_s) from None
        except OSError as error:
            raise ConnectionLost(self.address, str(error)) from error
        self.waiting += 1

    def receive(self, timeout_s: float) -> tuple[Command, bytearray]:
        """The next reply: its head, and its body."""
        head, body = self._reply(timeout_s, None)
        return head, bytearray(body)

    def receive_large(self, timeout_s: float, on_head: OnHead) -> tuple[Command, memoryview]:
        """The same in memory that the next one is read into. `on_head` sees the head first and may `send`."""
        return self._reply(timeout_s, on_head)

    def _reply(self, timeout_s: float, on_head: OnHead | None) -> tuple[Command, memoryview]:
        deadline_s = time.monotonic() + timeout_s
        try:
            while True:
                head, body_bytes = self._head(deadline_s)
                if head.is_response:
                    self.waiting -= 1
                    if on_head is not None:
                        on_head(head)
                if len(self._room) < body_bytes:
                    self._room = bytearray(body_bytes)
                body = memoryview(self._room)[:body_bytes]
                self._fill(body, deadline_s)
                if head.is_response:
                    return head, body
        except TimeoutError:
            raise CallTimeout(self.address, 0, timeout_s) from None
        except (OSError, ProtocolError) as error:
            raise ConnectionLost(self.address, str(error)) from error

    def ask(self, commands: Sequence[Command], timeout_s: float) -> list[tuple[Command, bytes]]:
        """Send all, then collect the replies in the order of the requests."""
        replies: dict[int, tuple[Command, bytes]] = {}
        for sent, command in enumerate(commands):
            # A server may stop reading from a peer that does not take its answers.
            if sent - len(replies) >= 64:
                self._collect(replies, timeout_s)
            self.send(command, timeout_s)
        while len(replies) < len(commands):
            self._collect(replies, timeout_s)
        return [replies[command.opaque] for command in commands]

    def _collect(self, replies: dict[int, tuple[Command, bytes]], timeout_s: float) -> None:
        head, body = self.receive(timeout_s)
        replies[head.opaque] = (head, bytes(body))

    @property
    def is_usable(self) -> bool:
        """Whether nothing is under way and the peer has not closed."""
        if self.waiting:
            return False
        try:
            self._socket.settimeout(0)
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False  # closed by the peer, or bytes nobody asked for

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    def _head(self, deadline_s: float) -> tuple[Command, int]:
        size, kind_and_header = PREFIX.unpack(self._exactly(PREFIX.size, deadline_s))
        header_bytes = kind_and_header & 0xFFFFFF
        if size + 4 > FRAME_BYTES_MAX:
            raise FrameTooLarge(size=size + 4, limit=FRAME_BYTES_MAX)
        if header_bytes > size - 4:
            raise BadFrame(f"a header of {header_bytes} bytes in a frame of {size}")
        header = bytes(self._exactly(header_bytes, deadline_s))
        return decode_frame(kind_and_header >> 24, header, b""), size - 4 - header_bytes

    def _exactly(self, size: int, deadline_s: float) -> bytearray:
        data = bytearray(size)
        self._fill(memoryview(data), deadline_s)
        return data

    def _fill(self, view: memoryview, deadline_s: float) -> None:
        size, at = len(view), 0
        while at < size:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._socket.settimeout(left_s)
            came = self._socket.recv_into(view[at:])
            if not came:
                raise ConnectionLost(self.address)
            at += came


_kept: dict[str, list[Wire]] = {}
_kept_by = os.getpid()


def borrow(address: str) -> Wire:
    """A connection of this process, new or kept from an earlier task."""
    global _kept_by
    if _kept_by != os.getpid():  # forked: the sockets belong to the parent
        _kept.clear()
        _kept_by = os.getpid()
    while idle := _kept.get(address):
        wire = idle.pop()
        if wire.is_usable:
            return wire
        wire.close()
    return Wire(address)


def give_back(wire: Wire) -> None:
    """For the next task; one with replies still to come is of no use to anybody."""
    idle = _kept.setdefault(wire.address, [])
    if wire.waiting or len(idle) >= KEPT_MAX:
        wire.close()
    else:
        idle.append(wire)


def forget(address: str) -> None:
    """Close what is kept for an address that does not answer."""
    for wire in _kept.pop(address, []):
        wire.close()
