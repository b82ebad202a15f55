"""The asking side without an event loop: one socket, one call at a time, for scripts, tools and threads."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TypeVar

from rocketeer.errors import CallTimeout
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import (
    Command,
    Sign,
    encode,
    encode_call,
    next_opaque,
    reply,
    signed,
)
from rocketeer.remoting.frame_socket import SOCKET_ERRORS, FrameSocket, fail_call

CONNECT_TIMEOUT_S = 3.0
CALL_TIMEOUT_S = 3.0
UNANSWERED_MAX = 64
"""Requests of `invoke_all` under way at a time."""

T = TypeVar("T")


class BlockingConnection:
    """Calls one address; connects when needed, and again after a loss. Threads that share it take turns.

    Raises as the asyncio client does: ConnectFailed, CallTimeout, ConnectionLost. After a CallTimeout the
    connection goes on; the late answer is recognised by its opaque and dropped.

        with BlockingConnection("127.0.0.1:9876") as connection:
            answer = connection.invoke(request, timeout_s=3)
    """

    def __init__(
        self,
        address: str,
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
        sign: Sign | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address = address
        self._connect_timeout_s = connect_timeout_s
        self._tls = tls
        self._sign = sign
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._socket: FrameSocket | None = None

    def invoke(self, command: Command, timeout_s: float = CALL_TIMEOUT_S) -> Command:
        """Send a request and wait for its answer; waiting for the calls of other threads counts too."""
        opaque = next_opaque()
        frame = encode_call(self._signed(command), opaque)
        return self._in_turn(command.code, timeout_s, lambda end_s: self._exchange(frame, opaque, end_s))

    def invoke_all(self, commands: Sequence[Command], timeout_s: float = CALL_TIMEOUT_S) -> list[Command]:
        """Send all, then collect the answers, in the order of the requests; `timeout_s` is for all together."""
        code = commands[0].code if commands else 0
        return self._in_turn(code, timeout_s, lambda end_s: self._exchange_all(commands, end_s))

    def oneway(self, command: Command, timeout_s: float = CALL_TIMEOUT_S) -> None:
        """Send a request that gets no answer; returns when the operating system has it."""
        frame = encode_call(self._signed(command), next_opaque(), oneway=True)
        self._in_turn(command.code, timeout_s, lambda end_s: self._ready_socket(end_s).send(frame, end_s))

    def _signed(self, command: Command) -> Command:
        return command if self._sign is None else signed(command, self._sign)

    def close(self) -> None:
        """Close the socket; a call of another thread that waits on it gets ConnectionLost."""
        sock = self._socket
        if sock is not None:
            # Wakes the thread that reads and holds the lock. SSLSocket's own is not made for two threads.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock.socket, socket.SHUT_RDWR)
        with self._lock:
            self._drop()

    def abandon(self) -> None:
        """In a forked child: close its copy of the socket. The parent's connection stands."""
        sock, self._socket = self._socket, None
        if sock is not None:
            sock.close()

    def __enter__(self) -> "BlockingConnection":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- below here only the thread whose turn it is -------------------------------------------

    def _in_turn(self, code: int, timeout_s: float, work: Callable[[float], T]) -> T:
        """Take the lock, work with the deadline, and turn what sockets raise into our errors."""
        deadline_s = self._monotonic_s() + timeout_s
        if not self._lock.acquire(timeout=max(timeout_s, 0)):
            raise CallTimeout(self.address, code, timeout_s)
        try:
            return work(deadline_s)
        except SOCKET_ERRORS as error:
            if not isinstance(error, TimeoutError):  # after one it goes on
                self._drop()
            fail_call(error, self.address, code, timeout_s)
        finally:
            self._lock.release()

    def _exchange(self, frame: bytes, opaque: int, deadline_s: float) -> Command:
        sock = self._ready_socket(deadline_s)
        sock.send(frame, deadline_s)
        while True:
            for came in sock.receive(deadline_s):
                if not came.is_response:
                    self._refuse(sock, came, deadline_s)
                elif came.opaque == opaque:
                    return came

    def _exchange_all(self, commands: Sequence[Command], deadline_s: float) -> list[Command]:
        answers: dict[int, Command] = {}
        opaques = [next_opaque() for _ in commands]
        sock = self._ready_socket(deadline_s)
        for sent, (command, opaque) in enumerate(zip(commands, opaques, strict=True)):
            # A server may stop reading from a peer that does not take its answers.
            if sent - len(answers) >= UNANSWERED_MAX:
                self._collect(sock, answers, deadline_s)
            sock.send(encode_call(self._signed(command), opaque), deadline_s)
        while not answers.keys() >= set(opaques):
            self._collect(sock, answers, deadline_s)
        return [answers[opaque] for opaque in opaques]

    def _collect(self, sock: FrameSocket, answers: dict[int, Command], deadline_s: float) -> None:
        for came in sock.receive(deadline_s):
            if came.is_response:
                answers[came.opaque] = came
            else:
                self._refuse(sock, came, deadline_s)

    def _ready_socket(self, deadline_s: float) -> FrameSocket:
        if self._socket is None or not self._socket.is_usable:
            self._drop()
            end_s = min(self._monotonic_s() + self._connect_timeout_s, deadline_s)
            self._socket = FrameSocket(self.address, end_s, tls=self._tls, monotonic_s=self._monotonic_s)
        return self._socket

    def _refuse(self, sock: FrameSocket, asked: Command, deadline_s: float) -> None:
        """Refuse a request, which nobody here answers; a one-way one is dropped."""
        if not asked.is_oneway:
            remark = f" request type {asked.code} not supported"
            refusal = reply(asked, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
            sock.send(encode(refusal), deadline_s)

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
