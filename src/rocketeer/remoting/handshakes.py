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

Begin = Callable[[socket.socket, ssl.SSLContext], Coroutine[Any, Any, None]]


def hello_bytes(start: bytes) -> int:
    """How many bytes the first record of TLS has, as far as its start says; more than HELLO_BYTES_MAX: it is none."""
    if len(start) < RECORD_HEADER_BYTES:
        return RECORD_HEADER_BYTES
    return RECORD_HEADER_BYTES + int.from_bytes(start[3:5], "big")


class Handshakes:
    """Of one server. `begin` shakes hands and closes the socket if it fails, also when it is cancelled."""

    def __init__(self, at_once_max: int, begin: Begin) -> None:
        self._at_once_max = at_once_max
        self._begin = begin
        self._waiting: deque[tuple[socket.socket, ssl.SSLContext]] = deque()
        self._under_way: dict[asyncio.Task[None], float] = {}
        """With when they began, the oldest first."""
        self._is_due = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def ask(self, sock: socket.socket, tls: ssl.SSLContext) -> None:
        """Have its turn come, behind those who came before."""
        self._waiting.append((sock, tls))
        self._schedule(0.0)

    def close(self) -> None:
        for sock, _ in self._waiting:
            sock.close()
        self._waiting.clear()
        for task in self._under_way:
            task.cancel()

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
            oldest, began_s = next(iter(self._under_way.items()))
            if now_s - began_s < GRACE_S:
                self._schedule(AGAIN_S)
                return
            del self._under_way[oldest]
            oldest.cancel()
        sock, tls = self._waiting.popleft()
        task = asyncio.ensure_future(self._begin(sock, tls))
        self._under_way[task] = now_s
        task.add_done_callback(self._done)
        if self._waiting:
            self._schedule(0.0)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._under_way.pop(task, None)
