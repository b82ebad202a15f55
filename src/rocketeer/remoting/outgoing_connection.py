"""One connection we made: calls out and their answers in, requests of the peer led to our handlers."""

import asyncio
import inspect
import logging
import math
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

import msgspec

from rocketeer.errors import CallTimeout, ConnectionLost, ProtocolError
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import (
    FLAG_RESPONSE,
    Command,
    decode_frame,
    encode,
    encode_call,
    next_opaque,
    reply,
)
from rocketeer.protocol.frame import FrameSplitter
from rocketeer.remoting.refusal import refusal

log = logging.getLogger(__name__)

PushHandler = Callable[[Command, str], Command | Awaitable[Command | None] | None]
"""Answers one request code of a peer: (command, the peer's address) to a reply, or None for no reply."""

WRITE_HIGH_BYTES = 1 << 20
"""Above this many unsent bytes new requests wait until the peer has read."""

READ_BYTES = 256 << 10

FLUSH_BYTES = 256 << 10
"""From this many unsent bytes on they leave at once, without waiting for the end of the loop's turn."""

SILENCE_S = 1.0
"""A call that waited at least so long, while not one byte came, shows a dead connection."""

READING_S = 0.1
"""A call that is over time, but whose answer may be among those being read, is looked at again after this."""

LINGER_S = 1.0
"""Time limit for what was written before `close` to leave."""


class _Call(msgspec.Struct, gc=False, eq=False):
    answer: asyncio.Future[Command]
    asked_s: float
    deadline_s: float
    code: int
    timeout_s: float


class OutgoingConnection(asyncio.BufferedProtocol):
    """Calls to one peer, many at a time, and their answers.

    Its state is the transport's, which closes at errors of its own, too: there is none before `connection_made` and
    after `connection_lost`, `is_closing` says whether it closes. What we add is why we closed it.

    Invariant: every entry of `_calls` is awaited by its caller, who also takes it out again.

    The buffer it is read into is its own: one that asyncio makes for each read costs more than to read a reply.

    Time-outs cost nothing per call: one timer stands at the earliest deadline, and looks for the next when it
    fires. Under steady load it fires once per time-out period, not once per call.
    """

    def __init__(
        self,
        address: str,
        handlers: Mapping[int, PushHandler],
        on_gone: Callable[["OutgoingConnection"], None],
    ) -> None:
        self.address = address
        self._handlers = handlers
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._splitter = FrameSplitter()
        self._calls: dict[int, _Call] = {}
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._paused = False
        self._resumed: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = math.inf
        self._heard_s = 0.0
        self._answered_s = 0.0
        """When the newest of the calls that were answered was asked."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._close_reason = ""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Done once the connection is closed and forgotten."""

    # --- asyncio's side ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: uvloop's transports do all that an asyncio.Transport does, but are none.
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._heard_s = self._loop.time()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._heard_s = self._loop.time()
        calls = self._calls
        answered_s = self._answered_s
        try:
            for kind, header, body in self._splitter.feed(self._buffer[:nbytes]):
                command = decode_frame(kind, header, body)
                if command.flag & FLAG_RESPONSE:
                    call = calls.get(command.opaque)
                    if call is not None and not call.answer.done():
                        call.answer.set_result(command)
                        answered_s = call.asked_s
                else:
                    self._asked(command)
            self._answered_s = max(self._answered_s, answered_s)
            if self._splitter.error is not None:
                raise self._splitter.error
        except ProtocolError as error:
            log.warning("connection closed address=%s reason=%s", self.address, error)
            self.abort(str(error))

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._wake_writers()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._transport = None
        self._out.clear()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        self._fail_calls(self._close_reason or (str(exc) if exc else "closed by the peer"))
        self._wake_writers()
        self._on_gone(self)
        self.gone.set_result(None)

    # --- ours --------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def writable(self) -> bool:
        """True when a frame may be sent now: the connection stands and the peer keeps up."""
        return not self._paused and self._transport is not None and not self._transport.is_closing()

    async def wait_writable(self, deadline_s: float) -> bool:
        """Wait until the peer has caught up or the connection is gone; False when the time ran out first."""
        if self._transport is None:
            return True
        if self._resumed is None:
            self._resumed = self._loop.create_future()
        done, _ = await asyncio.wait((self._resumed,), timeout=max(deadline_s - self._loop.time(), 0))
        return bool(done)

    async def call(self, command: Command, deadline_s: float, timeout_s: float) -> Command:
        # Its own opaque for every call: the same command may be tried again while an old answer is under way.
        opaque = next_opaque()
        frame = encode_call(command, opaque)
        answer: asyncio.Future[Command] = self._loop.create_future()
        self._calls[opaque] = _Call(answer, self._loop.time(), deadline_s, command.code, timeout_s)
        if deadline_s < self._timer_s:
            self._set_timer(deadline_s)
        self._write(frame)
        try:
            return await answer
        finally:
            self._calls.pop(opaque, None)

    def send_oneway(self, command: Command) -> None:
        self._write(encode_call(command, next_opaque(), oneway=True))

    def close(self, why: str) -> None:
        """Fail the waiting calls now; close once what was written has left, or after LINGER_S."""
        if self._transport is None:
            return
        self._close_reason = self._close_reason or why
        self._flush()
        self._transport.close()
        self._loop.call_later(LINGER_S, self.abort, why)
        self._fail_calls(why)

    def abort(self, why: str) -> None:
        """Fail the waiting calls and drop the connection, with whatever was still to be sent."""
        if self._transport is None:
            return
        self._close_reason = self._close_reason or why
        self._transport.abort()
        self._fail_calls(why)

    # --- writing -----------------------------------------------------------------------------

    def _write(self, frame: bytes) -> None:
        """Collect what one turn of the loop sends; a lot leaves at once, so that the peer's pace is felt."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(frame)
        self._out_bytes += len(frame)
        if self._out_bytes >= FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        out = self._out
        if not out:
            return
        self._out = []
        self._out_bytes = 0
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def _wake_writers(self) -> None:
        if self._resumed is not None:
            self._resumed.set_result(None)
            self._resumed = None

    # --- time --------------------------------------------------------------------------------

    def _set_timer(self, at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = at_s
        self._timer = self._loop.call_at(at_s, self._on_time)

    def _on_time(self) -> None:
        now_s = self._loop.time()
        if now_s - self._timer_s > READING_S:
            # The loop was busy and has not looked at its sockets since: it does so before this timer fires.
            self._timer = self._loop.call_at(now_s + 0.001, self._expire)
        else:
            self._expire()

    def _expire(self) -> None:
        """End the calls whose time is over; set the timer for the earliest of the others."""
        due_s = self._loop.time() + 0.001  # a timer may fire a little early
        next_s = math.inf
        silent_s = 0.0
        for call in self._calls.values():
            if call.answer.done():
                continue
            if call.deadline_s > due_s:
                next_s = min(next_s, call.deadline_s)
                continue
            if self._is_being_read(call, due_s):
                next_s = min(next_s, due_s + READING_S)
                continue
            call.answer.set_exception(CallTimeout(self.address, call.code, call.timeout_s))
            if self._heard_s <= call.asked_s:
                silent_s = max(silent_s, call.deadline_s - call.asked_s)
        self._timer = None
        self._timer_s = math.inf
        if silent_s >= SILENCE_S:
            # A peer that vanished without a goodbye would hold every later call until its time-out too.
            log.warning("connection closed address=%s reason=nothing came for %.1f s", self.address, silent_s)
            self.abort(f"nothing came for {silent_s:g} s")
        elif next_s < math.inf:
            self._set_timer(next_s)

    def _is_being_read(self, call: _Call, now_s: float) -> bool:
        """Whether its answer may lie in the socket: answers to earlier calls just came, to none after it.

        A loop that was busy for seconds finds many answers at once, and takes a while to read them. It gets as much
        time again as the call had.
        """
        return (
            self._heard_s > max(call.asked_s, now_s - 2 * READING_S)
            and call.asked_s >= self._answered_s
            and now_s < call.deadline_s + call.timeout_s
        )

    def _fail_calls(self, why: str) -> None:
        for call in self._calls.values():
            if not call.answer.done():
                call.answer.set_exception(ConnectionLost(self.address, why))

    # --- what the peer asks ------------------------------------------------------------------

    def _asked(self, command: Command) -> None:
        handler = self._handlers.get(command.code)
        if handler is None:
            remark = f" request type {command.code} not supported"
            self._answer(command, reply(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark))
            return
        try:
            outcome = handler(command, self.address)
        except Exception as error:
            self._answer(command, refusal(command, error, "push", self.address))
            return
        if inspect.isawaitable(outcome):
            task = self._loop.create_task(self._finish(command, outcome))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._answer(command, outcome)

    async def _finish(self, command: Command, outcome: Awaitable[Command | None]) -> None:
        try:
            answer = await outcome
        except Exception as error:
            answer = refusal(command, error, "push", self.address)
        self._answer(command, answer)

    def _answer(self, command: Command, answer: Command | None) -> None:
        if answer is not None and not command.is_oneway:
            self._write(encode(answer))
