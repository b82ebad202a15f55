"""TLS handshakes of newcomers, one in a turn of the loop: each takes a millisecond of it, for a signature.

A handshake begins when the whole hello is there: whoever sends half of it waits without one (`hello_bytes`). So many
are under way at a time; one that has taken long gives its place to those who wait.
"""

import asyncio
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

GRACE_S: Final = 0.5
"""After so long a handshake that is not done gives way."""
AGAIN_S: Final = 0.05
RECORD_HEADER_BYTES: Final = 5
HELLO_BYTES_MAX: Final = RECORD_HEADER_BYTES + (16 << 10)

BeginConnection = Callable[[socket.socket, ssl.SSLContext, float], Coroutine[Any, Any, None]]


def hello_bytes(start: bytes) -> int:
    """How many bytes the first record of TLS has, as far as its start says; more than HELLO_BYTES_MAX: it is none."""
    if len(start) < RECORD_HEADER_BYTES:
        return RECORD_HEADER_BYTES
    return RECORD_HEADER_BYTES + int.from_bytes(start[3:5], "big")


class Handshakes:
    """The TLS handshakes of one server. `begin` closes the socket when its handshake fails or is cancelled."""

    def __init__(self, at_once_max: int, begin: BeginConnection) -> None:
        self._at_once_max = at_once_max
        self._begin = begin
        self._waiting: deque[tuple[socket.socket, ssl.SSLContext, float]] = deque()
        """With since when they are here."""
        self._under_way: dict[asyncio.Task[None], tuple[float, float]] = {}
        """With when they began, and since when they are here; the first to begin first."""
        self._is_due = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def ask(self, sock: socket.socket, tls: ssl.SSLContext, since_s: float) -> None:
        """Queue a socket for its handshake, behind those before it; `since_s`: since when it is here."""
        self._waiting.append((sock, tls, since_s))
        self._schedule(0.0)

    def close(self) -> None:
        for sock, _, _ in self._waiting:
            sock.close()
        self._waiting.clear()
        for task in self._under_way:
            task.cancel()

    def oldest_s(self) -> float | None:
        """Since when the oldest is here."""
        if self._under_way:
            return next(iter(self._under_way.values()))[1]
        return self._waiting[0][2] if self._waiting else None

    def drop_oldest(self) -> None:
        if self._under_way:
            oldest = next(iter(self._under_way))
            del self._under_way[oldest]
            oldest.cancel()
        else:
            self._waiting.popleft()[0].close()

    def _schedule(self, pause_s: float) -> None:
        if not self._is_due:
            self._is_due = True
            loop = asyncio.get_running_loop()
            if pause_s:
                loop.call_later(pause_s, self._go_on)
            else:
                loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_due = False
        if not self._waiting:
            return
        now_s = time.monotonic()
        if len(self._under_way) >= self._at_once_max:
            oldest, (began_s, _) = next(iter(self._under_way.items()))
            if now_s - began_s < GRACE_S:
                self._schedule(AGAIN_S)
                return
            del self._under_way[oldest]
            oldest.cancel()
        sock, tls, since_s = self._waiting.popleft()
        task = asyncio.ensure_future(self._begin(sock, tls, since_s))
        self._under_way[task] = now_s, since_s
        task.add_done_callback(self._done)
        if self._waiting:
            self._schedule(0.0)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._under_way.pop(task, None)
