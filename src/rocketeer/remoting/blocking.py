"""The asking side without an event loop: one socket, one call at a time, for scripts, tools and threads."""

import contextlib
import ipaddress
import math
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, TypeVar

from rocketeer.errors import CallTimeout, ConnectFailed, ConnectionLost, ProtocolError
from rocketeer.protocol.codes import ResponseCode
from rocketeer.protocol.command import (
    Command,
    Sign,
    decode_frame,
    encode,
    encode_call,
    next_opaque,
    reply,
    signed,
)
from rocketeer.protocol.frame import FrameSplitter
from rocketeer.remoting.address import HostPort, split_address

CONNECT_TIMEOUT_S = 3.0
CALL_TIMEOUT_S = 3.0
READ_BYTES: Final = 16 << 10
"""At a time. A larger block the C library may take from the system and give back for every read, at the price of all
other steps of a call."""
READ_BYTES_MUCH: Final = 256 << 10
"""Behind a read that was filled: what comes is large."""
SAME_TIME_S: Final = 0.001
"""Sockets count time in these steps: less is no reason to tell the system of another time-out."""
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
        self._socket: socket.socket | None = None
        self._timeout_s = math.inf
        """Of the socket; infinite: not known."""
        self._incoming = select.poll()
        self._read_bytes = READ_BYTES
        self._splitter = FrameSplitter()

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
        self._in_turn(
            command.code, timeout_s, lambda end_s: self._send(self._ready_socket(end_s), frame, end_s)
        )

    def _signed(self, command: Command) -> Command:
        return command if self._sign is None else signed(command, self._sign)

    def close(self) -> None:
        """Close the socket; a call of another thread that waits on it gets ConnectionLost."""
        sock = self._socket
        if sock is not None:
            # Wakes the thread that reads and holds the lock. SSLSocket's own is not made for two threads.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
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
        except TimeoutError:
            raise CallTimeout(self.address, code, timeout_s) from None
        except (OSError, ProtocolError) as error:
            self._drop()
            raise ConnectionLost(self.address, str(error)) from error
        finally:
            self._lock.release()

    def _exchange(self, frame: bytes, opaque: int, deadline_s: float) -> Command:
        sock = self._ready_socket(deadline_s)
        self._send(sock, frame, deadline_s)
        while True:
            for came in self._receive(sock, deadline_s):
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
            self._send(sock, encode_call(self._signed(command), opaque), deadline_s)
        while not answers.keys() >= set(opaques):
            self._collect(sock, answers, deadline_s)
        return [answers[opaque] for opaque in opaques]

    def _collect(self, sock: socket.socket, answers: dict[int, Command], deadline_s: float) -> None:
        for came in self._receive(sock, deadline_s):
            if came.is_response:
                answers[came.opaque] = came
            else:
                self._refuse(sock, came, deadline_s)

    def _ready_socket(self, deadline_s: float) -> socket.socket:
        if self._socket is not None and self._incoming.poll(0):  # mostly there is nothing
            if closed_by_peer(self._socket):
                self._drop()
            self._timeout_s = math.inf
        if self._socket is None:
            end_s = min(self._monotonic_s() + self._connect_timeout_s, deadline_s)
            self._socket = connect(self.address, end_s, tls=self._tls, monotonic_s=self._monotonic_s)
            self._timeout_s = math.inf
            self._incoming = select.poll()
            self._incoming.register(self._socket, select.POLLIN)
            self._splitter = FrameSplitter()
        return self._socket

    def _limit(self, sock: socket.socket, deadline_s: float) -> None:
        """Have the next step end in time."""
        left_s = _left_s(deadline_s, self._monotonic_s)
        if abs(left_s - self._timeout_s) > SAME_TIME_S:
            sock.settimeout(left_s)
            self._timeout_s = left_s

    def _send(self, sock: socket.socket, frame: bytes, deadline_s: float) -> None:
        self._limit(sock, deadline_s)
        try:
            sock.sendall(frame)
        except BaseException:
            self._drop()  # half a frame may have left: nothing can follow it
            raise

    def _receive(self, sock: socket.socket, deadline_s: float) -> list[Command]:
        """What one read brings."""
        self._limit(sock, deadline_s)
        data = sock.recv(self._read_bytes)
        self._read_bytes = READ_BYTES if len(data) < READ_BYTES else READ_BYTES_MUCH
        if not data:
            self._drop()
            raise ConnectionLost(self.address)
        frames = self._splitter.feed(data)
        if self._splitter.error is not None:
            raise self._splitter.error
        return [decode_frame(*frame) for frame in frames]

    def _refuse(self, sock: socket.socket, asked: Command, deadline_s: float) -> None:
        """Nobody here answers requests; the peer is told, unless it does not want to know."""
        if not asked.is_oneway:
            remark = f" request type {asked.code} not supported"
            refusal = reply(asked, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
            self._send(sock, encode(refusal), deadline_s)

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def connect(
    address: str,
    end_s: float,
    *,
    tls: ssl.SSLContext | None = None,
    monotonic_s: Callable[[], float] = time.monotonic,
) -> socket.socket:
    """A blocking socket to the address; raises ConnectFailed when there is none at `end_s` (monotonic)."""
    host_port = split_address(address)
    began_s = monotonic_s()
    try:
        sock = _dial(host_port, end_s, monotonic_s)
        try:
            sock.settimeout(_left_s(end_s, monotonic_s))  # for the TLS handshake
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if tls is not None:
                sock = tls.wrap_socket(sock, server_hostname=host_port.host)
        except BaseException:
            sock.close()
            raise
    except TimeoutError:
        raise ConnectFailed(address, f"no connection within {end_s - began_s:.3g} s") from None
    except (OSError, UnicodeError) as error:
        raise ConnectFailed(address, str(error) or type(error).__name__) from error
    return sock


def closed_by_peer(sock: socket.socket) -> bool:
    """True when the peer closed while nobody looked, as servers do with idle connections."""
    if isinstance(sock, ssl.SSLSocket):
        return False  # what arrived is encrypted: no use to peek at it
    try:
        sock.settimeout(0)
        return sock.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _dial(host_port: HostPort, end_s: float, monotonic_s: Callable[[], float]) -> socket.socket:
    """Connect to the first of the host's addresses that answers; they share the time."""
    failure = OSError("the host has no address")
    for family, kind, protocol, _, place in _resolve(host_port, _left_s(end_s, monotonic_s)):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(_left_s(end_s, monotonic_s))
            sock.connect(place)
            return sock
        except OSError as error:
            sock.close()
            failure = error
    raise failure


def _left_s(deadline_s: float, monotonic_s: Callable[[], float]) -> float:
    left_s = deadline_s - monotonic_s()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _resolve(host_port: HostPort, timeout_s: float) -> list[Any]:
    """The addresses of a host. A name is looked up in a thread: the system's resolver knows no time-out."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host_port.host)
        return socket.getaddrinfo(*host_port, type=socket.SOCK_STREAM)
    found: list[Any] = []
    failed: list[Exception] = []

    def look_up() -> None:
        try:
            found.extend(socket.getaddrinfo(*host_port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            failed.append(error)

    thread = threading.Thread(target=look_up, name=f"resolve {host_port.host}", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # since Python 3.12 a program that is ending gets no thread any more
        look_up()
    else:
        thread.join(timeout_s)
    if failed:
        raise failed[0]
    if thread.is_alive():
        raise TimeoutError
    return found
