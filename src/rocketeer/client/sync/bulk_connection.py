"""A blocking connection for reading in bulk: several requests under way, large bodies read in one piece.

The head of a reply is handed over before its body has arrived, so that the next request is on its way (and the
server at work on it) while megabytes still come in. Kept for the next use in this process: `take` and `give_back`.
"""

import os
import time
from collections.abc import Callable, Hashable
from typing import Final

from rocketeer.client.secure import OPEN, ConnectionSecurity
from rocketeer.protocol.command import Command, encode, signed
from rocketeer.remoting.frame_socket import SOCKET_ERRORS, FrameSocket, fail_call

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
        self._socket = FrameSocket(address, time.monotonic() + CONNECT_TIMEOUT_S, tls=security.tls)
        self._room = bytearray()
        self.waiting = 0
        """Requests whose replies have not come yet."""

    def send(self, command: Command, timeout_s: float) -> None:
        if self._sign is not None:
            command = signed(command, self._sign)
        try:
            self._socket.send(encode(command), time.monotonic() + timeout_s)
        except SOCKET_ERRORS as error:
            fail_call(error, self.address, command.code, timeout_s)
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
                head, body_bytes = self._socket.receive_head(deadline_s)
                if head.is_response:
                    self.waiting -= 1
                    if on_head is not None:
                        on_head(head)
                if len(self._room) < body_bytes:
                    self._room = bytearray(body_bytes)
                body = memoryview(self._room)[:body_bytes]
                self._socket.fill(body, deadline_s)
                if head.is_response:
                    return head, body
        except SOCKET_ERRORS as error:
            fail_call(error, self.address, 0, timeout_s)

    @property
    def is_usable(self) -> bool:
        """Whether nothing is under way and the peer has not closed."""
        return not self.waiting and self._socket.is_usable

    def close(self) -> None:
        self._socket.close()


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
