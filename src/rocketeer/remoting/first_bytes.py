"""Accepted sockets from which nothing has come yet: their first byte says whether they speak TLS."""

import asyncio
import socket
from collections.abc import Callable

from rocketeer.steps import Steps


class FirstBytes:
    """Waits for the first byte of each socket. Belongs to the loop thread."""

    def __init__(self) -> None:
        self._since_s: dict[socket.socket, float] = {}
        """Sockets whose first bytes are awaited, and since when; the oldest first."""

    def __len__(self) -> int:
        return len(self._since_s)

    def wait(self, sock: socket.socket, on_byte: Callable[[socket.socket], None]) -> None:
        """Call `on_byte` when something has come, as long as the socket is here."""
        loop = asyncio.get_running_loop()
        self._since_s[sock] = loop.time()
        loop.add_reader(sock.fileno(), on_byte, sock)

    def pause(self, sock: socket.socket) -> None:
        """Something has come, and waits for a turn: `go_on` then."""
        asyncio.get_running_loop().remove_reader(sock.fileno())

    def go_on(self, sock: socket.socket, on_byte: Callable[[socket.socket], None]) -> bool:
        """Call `on_byte` again when more has come; False if it is not here any more."""
        if sock not in self._since_s:
            return False
        asyncio.get_running_loop().add_reader(sock.fileno(), on_byte, sock)
        return True

    def take(self, sock: socket.socket) -> float:
        """Wait for it no longer; since when it has waited."""
        self.pause(sock)
        return self._since_s.pop(sock, 0.0)

    def oldest_s(self) -> float | None:
        """Since when the first of them is here."""
        return next(iter(self._since_s.values()), None)

    def drop_oldest(self) -> None:
        self._close(next(iter(self._since_s)))

    def closing_older(self, than_s: float) -> Steps[None]:
        """Close those that are here since before that time, one a step."""
        while (since_s := self.oldest_s()) is not None and since_s < than_s:
            self.drop_oldest()
            yield

    def close_all(self) -> None:
        for sock in list(self._since_s):
            self._close(sock)

    def _close(self, sock: socket.socket) -> None:
        self.take(sock)
        sock.close()
