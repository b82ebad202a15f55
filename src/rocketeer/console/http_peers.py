"""HTTP connections of the console: requests wait for each other (`request_queue.py`), and have to come to the point.

uvicorn serves all that has come at once, reads heads of any number of lines, ends connections that are silent between
two requests, and waits for ever in the midst of one: a peer that sends its request byte by byte is ended here.
"""

import asyncio
import re
from collections import deque
from typing import Final

import h11
from starlette.requests import Request
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

from rocketeer.console.request_queue import request_queue

REQUEST_S: Final = 15.0
"""How long the head of a request may take, and how long its body."""
CONNECTIONS_MAX: Final = 400
"""At a time; beyond it requests are answered with 503."""
STRANGERS_MAX: Final = 100
"""Connections of those who have not signed in; beyond it the oldest gives its place to the next."""
BACKLOG: Final = 32
"""Most connections that may come in one turn of the loop."""
HEAD_BYTES_MAX: Final = 16 << 10
HEAD_LINES_MAX: Final = 200
PIECE_BYTES: Final = 4 << 10
"""How much is taken at a time where a head may be: what is there at once comes at once, however large."""
_PEER: Final = "peer"
_BLANK_LINE: Final = re.compile(rb"\n\r?\n")


def note_peer(request: Request, *, is_user: bool) -> None:
    """Whether the request was one of somebody who has signed in: so will be the next one of its connection."""
    peer = getattr(request.state, _PEER, None)
    if peer is not None:
        request_queue().note_user(peer, is_user=is_user)


class _Flow(FlowControl):
    """Nothing more is read while something waits."""

    def __init__(self, transport: asyncio.Transport, came: deque[bytes]) -> None:
        super().__init__(transport)
        self._came = came

    def resume_reading(self) -> None:
        if not self._came:
            super().resume_reading()


class HttpPeer(H11Protocol):
    """Looks every REQUEST_S whether the peer is in the midst of the same thing as before."""

    _look: asyncio.TimerHandle | None = None
    _before: object = None
    _in_turn = False
    _head_lines = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._came: deque[bytes] = deque()
        request_queue().admit(self, STRANGERS_MAX)
        self.flow = _Flow(transport, self._came)
        self._look = self.loop.call_later(REQUEST_S, self._look_again)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look is not None:
            self._look.cancel()
        request_queue().remove(self)
        self._came.clear()
        super().connection_lost(exc)

    def give_way(self) -> None:
        """Close the connection: too many peers have not signed in."""
        self.transport.close()

    # --- one after the other -----------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._came.append(data)
        self.flow.pause_reading()
        request_queue().add(self)

    def handle_events(self) -> None:
        """Also called when an answer is complete: requests that came with the last one wait, too."""
        if self._in_turn or not (self._came or self.conn.trailing_data[0]):
            super().handle_events()
        else:
            request_queue().add(self)

    def take_turn(self) -> None:
        if self.transport.is_closing():
            self._came.clear()
            return
        if self.conn.their_state is h11.DONE:  # comes back when the answer is complete
            return
        self._in_turn = True
        try:
            if self._came:
                self._take_piece()
            else:
                self.handle_events()
        finally:
            self._in_turn = False
        if self.scope is not None:
            self.scope["state"][_PEER] = self
        if self._came:
            request_queue().add(self)

    def _take_piece(self) -> None:
        piece = self._came.popleft()
        if self.conn.their_state is h11.IDLE:
            if len(piece) > PIECE_BYTES:
                self._came.appendleft(piece[PIECE_BYTES:])
                piece = piece[:PIECE_BYTES]
            blank = _BLANK_LINE.search(piece)
            self._head_lines += piece.count(b"\n", 0, len(piece) if blank is None else blank.start())
            if self._head_lines > HEAD_LINES_MAX:
                self.send_400_response("Too many headers.")
                return
        self.flow.resume_reading()  # before: what it is about may be a reason to stop
        super().data_received(piece)
        if self.conn.their_state is not h11.IDLE:
            self._head_lines = 0

    def send_400_response(self, msg: str) -> None:
        """Also for what stands behind a request that is being answered: its answer has nowhere to go any more."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        try:
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                super().send_400_response(msg)
        except h11.LocalProtocolError:  # the answer to HEAD has no body, and this one would
            pass
        self.transport.close()

    # --- to the point ------------------------------------------------------------------------

    def _look_again(self) -> None:
        """Look whether the peer has got on; time this process was busy is not counted."""
        is_sending = self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not self._came
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
