"""HTTP connections of the console have to come to the point: a peer that sends its request byte by byte is ended.

uvicorn ends connections that are silent between two requests, and waits for ever in the midst of one.
"""

import asyncio
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S: Final = 15.0
"""How long the head of a request may take, and how long its body."""
CONNECTIONS_MAX: Final = 400
"""At a time; beyond it requests are answered with 503."""


class PromptHttp(H11Protocol):
    """Looks every REQUEST_S whether the peer is in the midst of the same thing as before."""

    _look: asyncio.TimerHandle | None = None
    _before: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look = self.loop.call_later(REQUEST_S, self._look_again)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Also for what stands behind a request that is being answered: its answer has nowhere to go any more."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _look_again(self) -> None:
        """What a program of ours is busy with is not the peer's fault."""
        is_sending = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        now = (self.conn.their_state, self.cycle)
        if is_sending and now == self._before:
            self.transport.close()
            return
        # The first look may come right after the request began: it has till the next one.
        self._before = now if is_sending else None
        if self.cycle is None and is_sending:
            self.transport.close()
            return
        self._look = self.loop.call_later(REQUEST_S, self._look_again)
