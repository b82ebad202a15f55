"""The general path of a request: decode, guard, handle, reply. What nobody serves in fewer steps comes here."""

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

from rocketeer.errors import ProtocolError, RequestRefused
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import Command, decode_frame, reply
from rocketeer.protocol.frame import Frame
from rocketeer.remoting.connection import Connection
from rocketeer.remoting.limits import (
    READ_AT_ONCE_BYTES,
    SMALL_REQUEST_BYTES,
    RequestLimits,
    busy_limit,
    bytes_taken,
    command_of_huge_header,
    over_limit,
)
from rocketeer.remoting.refusal import refusal
from rocketeer.remoting.slices import InOrder
from rocketeer.steps import Steps, finish

__all__ = ["Connection", "Guard", "Handler", "Router", "TemporaryGuard"]

log = logging.getLogger(__name__)

Handler = Callable[[Command, Connection], Command | Awaitable[Command | None] | None]
"""The reply; None if it is sent elsewhere. While one is awaited, later requests of the connection are served, except
behind `InOrder`."""
Guard = Callable[[Command, Connection], Steps[None]]
"""Admission, before any handler: steps that end to let pass, and raise RequestRefused to refuse."""
TemporaryGuard = Callable[[Command, Connection], None]
"""Admission while it is set: raises RequestRefused to refuse."""
OnAnswered = Callable[[int, int, float], None]
"""Gets request code, response code and seconds of what a handler answered by its own return."""


class Router:
    """Leads every request past the guards to the handler of its code."""

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        guards: Iterable[Guard] = (),
        limits: RequestLimits | None = None,
        on_answered: OnAnswered = lambda request, response, took_s: None,
    ) -> None:
        self._handlers = dict(handlers)
        self._guards = tuple(guards)
        self._limits = limits or RequestLimits()
        self.header_bytes_max = self._limits.server.header_bytes
        self._under_way_bytes = 0
        self._many_under_way_bytes = self._limits.server.bytes_under_way // 2
        """From here on every request is looked at: no single one takes more than is left."""
        self.temporary_guard: TemporaryGuard | None = None
        """It comes and goes: while there is one, it sees every request first."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._on_answered = on_answered

    @property
    def guarded(self) -> bool:
        """Whether every request must be seen here before it is served."""
        return bool(self._guards)

    def process(self, frames: list[Frame], connection: Connection, *, admitted: bool = False) -> None:
        """Serve the frames in their order; what does not fit into the connection's turn waits for the next one.

        `admitted`: the guards have let these pass before, and may not do so twice; all are served now.
        """
        for done, frame in enumerate(frames, 1):
            if not self.serve(frame, connection, admitted=admitted):
                connection.postpone(frames[done - 1 :])
                return
            if not admitted and done < len(frames) and time.monotonic() >= connection.turn_ends_s:
                connection.postpone(frames[done:])
                return

    def serve(self, frame: Frame, connection: Connection, *, admitted: bool = False) -> bool:
        """Serve one frame; False if that exceeds the connection's turn: bring it again before what came later."""
        if connection.request_steps is None:
            kind, header, body = frame
            if len(header) > self.header_bytes_max:
                self._refuse_header(kind, header, connection)
                return True
            command = decode_frame(kind, header, body)
            if len(body) > READ_AT_ONCE_BYTES and self._guards and not admitted:
                steps: Steps[None] | None = self._check_and_handle(command, connection)
            else:
                steps = self.handle(command, connection, admitted=admitted)
            if steps is None:
                return True
            if admitted:
                finish(steps)
                return True
            connection.request_steps = steps
        for _ in connection.request_steps:
            if time.monotonic() >= connection.turn_ends_s:
                return False
        connection.request_steps = None
        return True

    def _check_and_handle(self, command: Command, connection: Connection) -> Steps[None]:
        if not command.is_response:
            try:
                yield from self._check(command, connection)
            except Exception as error:
                self._answer(
                    connection,
                    command,
                    refusal(command, error, "request", connection.remote),
                    time.perf_counter(),
                )
                return
        steps = self.handle(command, connection, admitted=True)
        if steps is not None:
            yield from steps

    def _check(self, command: Command, connection: Connection) -> Steps[None]:
        self._limits.check_body(command)  # before a guard looks through all of it
        for guard in self._guards:
            yield from guard(command, connection)

    def _refuse_header(self, kind: int, header: bytes, connection: Connection) -> None:
        """Refuse a request whose header is too long to be read; only what the refusal needs is looked for."""
        limit = self.header_bytes_max
        refusal = over_limit(f"a request has a header of {len(header)} bytes", "limitHeaderBytes", limit)
        command = command_of_huge_header(kind, header)
        if command is None or command.is_response:
            connection.close(refusal.remark)
        else:
            self._answer(
                connection, command, reply(command, refusal.code, refusal.remark), time.perf_counter()
            )

    def handle(
        self, command: Command, connection: Connection, *, admitted: bool = False
    ) -> Steps[None] | None:
        """Serve one request; steps if that takes a while and those behind it have to wait."""
        if command.is_response:
            connection.answer_arrived(command)
            return None
        began_s = time.perf_counter()
        try:
            if self.temporary_guard is not None:
                self.temporary_guard(command, connection)
            if self._guards and not admitted:
                finish(self._check(command, connection))
            handler = self._handlers.get(command.code)
            if handler is None:
                raise RequestRefused(
                    ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported"
                )
            self._limits.check_body(command)
            if connection.under_way or self._under_way_bytes >= self._many_under_way_bytes:
                self._check_under_way(connection, command)
            outcome = handler(command, connection)
        except Exception as error:
            self._answer(connection, command, refusal(command, error, "request", connection.remote), began_s)
            return None
        if isinstance(outcome, InOrder):
            return self._finishing(outcome.steps, command, connection, began_s)
        if inspect.isawaitable(outcome):
            taken = bytes_taken(command)
            connection.under_way += 1
            self._under_way_bytes += taken
            task = asyncio.ensure_future(self._finish(outcome, command, connection, began_s, taken))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._answer(connection, command, outcome, began_s)
        return None

    def _finishing(
        self, steps: Steps[Command | None], command: Command, connection: Connection, began_s: float
    ) -> Steps[None]:
        try:
            answer = yield from steps
        except Exception as error:
            answer = refusal(command, error, "request", connection.remote)
        self._answer(connection, command, answer, began_s)

    async def _finish(
        self,
        outcome: Awaitable[Command | None],
        command: Command,
        connection: Connection,
        began_s: float,
        taken_bytes: int,
    ) -> None:
        try:
            answer = await outcome
        except Exception as error:
            answer = refusal(command, error, "request", connection.remote)
        finally:
            del outcome  # a future holds its error, whose trace holds this frame
            connection.under_way -= 1
            self._under_way_bytes -= taken_bytes
        self._answer(connection, command, answer, began_s)

    def _answer(
        self, connection: Connection, command: Command, answer: Command | None, began_s: float
    ) -> None:
        if answer is None:
            return
        self._on_answered(command.code, answer.code, time.perf_counter() - began_s)
        if command.is_oneway:
            return
        try:
            connection.send(answer)
        except ProtocolError as error:  # it fits no frame: the peer's other requests must not pay for that
            log.warning("answer not sent code=%d remote=%s reason=%s", command.code, connection.remote, error)
            connection.send(reply(command, ResponseCode.SYSTEM_ERROR, f"the answer cannot be sent: {error}"))

    def _check_under_way(self, connection: Connection, command: Command) -> None:
        server = self._limits.server
        if connection.under_way >= server.requests_under_way:
            what = "requests of this connection wait for their answers"
            raise busy_limit(what, "limitRequestsUnderWay", server.requests_under_way)
        taken = bytes_taken(command)
        if not connection.under_way and taken <= SMALL_REQUEST_BYTES:
            return  # whoever asks for one thing at a time does not wait for those who ask for thousands
        if self._under_way_bytes + taken > server.bytes_under_way:
            what = "bytes of requests wait for their answers"
            raise busy_limit(what, "limitBytesUnderWay", server.bytes_under_way)
