"""A blocking connection for reading in bulk: several requests under way, large bodies read in one piece.

The head of a reply is handed over before its body has arrived, so that the next request is on its way (and the
server at work on it) while megabytes still come in. Kept for the next use in this process: `take` and `give_back`.
"""

import contextlib
import os
import time
from collections.abc import Callable, Hashable
from typing import Final

from rocketeer.client.secure import OPEN, ConnectionSecurity
from rocketeer.errors import (
    BadFrame,
    CallTimeout,
    ConnectionLost,
    FrameTooLarge,
    ProtocolError,
)
from rocketeer.protocol.command import Command, decode_frame, encode, signed
from rocketeer.protocol.frame import FRAME_BYTES_MAX, PREFIX
from rocketeer.remoting.blocking import closed_by_peer, connect

CONNECT_TIMEOUT_S: Final = 5.0
KEPT_MAX: Final = 4
"""Idle connections kept per address and process."""

OnHead = Callable[[Command], None]


class BulkConnection:
    """Not for threads to share."""

    def __init__(self, address: str, security: ConnectionSecurity = OPEN, kind: Hashable = None) -> None:
        self.address = address
        self.kind = kind
        self._sign = security.sign
        self._socket = connect(address, time.monotonic() + CONNECT_TIMEOUT_S, tls=security.tls)
        self._room = bytearray()
        self.waiting = 0
        """Requests whose replies have not come yet."""

    def send(self, command: Command, timeout_s: float) -> None:
        if self._sign is not None:
            command = signed(command, self._sign)
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

    @property
    def is_usable(self) -> bool:
        """Whether nothing is under way and the peer has not closed."""
        return not self.waiting and not closed_by_peer(self._socket)

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


_kept: dict[tuple[str, Hashable], list[BulkConnection]] = {}
_kept_by = os.getpid()


def _open() -> ConnectionSecurity:
    return OPEN


def take(
    address: str, kind: Hashable = None, security: Callable[[], ConnectionSecurity] = _open
) -> BulkConnection:
    """A connection of this process, new or kept from an earlier task; only those of one `kind` are alike."""
    global _kept_by
    if _kept_by != os.getpid():  # forked: the sockets belong to the parent
        _kept.clear()
        _kept_by = os.getpid()
    while idle := _kept.get((address, kind)):
        connection = idle.pop()
        if connection.is_usable:
            return connection
        connection.close()
    return BulkConnection(address, security(), kind)


def give_back(connection: BulkConnection) -> None:
    """For the next task; one with replies still to come is of no use to anybody."""
    idle = _kept.setdefault((connection.address, connection.kind), [])
    if connection.waiting or len(idle) >= KEPT_MAX:
        connection.close()
    else:
        idle.append(connection)


def forget(address: str) -> None:
    """Close what is kept for an address that does not answer."""
    for key in [key for key in _kept if key[0] == address]:
        for connection in _kept.pop(key):
            connection.close()
