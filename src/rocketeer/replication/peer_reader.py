"""Reads what another server sends on a stream: both ends of both streams, the HA port's and the members'."""

import asyncio
from collections.abc import Callable

from rocketeer.errors import ReplicationError, StoreError, StoreRefused
from rocketeer.security.peer_socket import PeerSocket


class PeerReader:
    """Gives `take` the bytes as they come, valid until it returns; what it raises ends the connection.

    `ended` is told why nothing more will come: OSError when the connection is gone, otherwise what `take` raised.
    Belongs to the loop thread.
    """

    def __init__(
        self,
        sock: PeerSocket,
        buffer_bytes: int,
        *,
        peer: str,
        take: Callable[[memoryview], None],
        ended: Callable[[Exception], None],
    ) -> None:
        self._sock = sock
        self._peer = peer
        self._buffer = memoryview(bytearray(buffer_bytes))
        self._take = take
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._loop.add_reader(sock.fileno(), self._readable)
        self._loop.call_soon(self._readable)  # something may have been read before

    def _readable(self) -> None:
        if self._closed:
            return
        try:
            count = self._sock.recv_into(self._buffer)
            if not count:
                raise ConnectionResetError(f"the {self._peer} closed the connection")
        except BlockingIOError:
            return
        except OSError as error:
            self._ended(error)
            return
        try:
            self._take(self._buffer[:count])
        except (ReplicationError, StoreError, StoreRefused) as error:
            self._ended(error)

    def close(self) -> None:
        """Before the socket is closed."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._sock.fileno())
